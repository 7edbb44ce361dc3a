"""A `JsonNode` reads one place of a JSON document, such as a bootstrap or a service config, and records its problems.

Reading goes on after a problem, so that all of them are reported at once. The `steps` of a problem lead to its line in
the text.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import Struct

from .json_parse import RepetitiveObject

T = TypeVar("T")

# ASCII, because \d matches the digits of every script. Bounded, because float() of too many digits is infinity.
_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)s", re.ASCII)
_NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,18})?", re.ASCII)
_MAX_SECONDS = 315_576_000_000  # google.protobuf.Duration: about ten thousand years
_MAX_INTEGER = 2**32
_MAX_NUMBER = sys.float_info.max

TOP = "top level"
"""The name of the whole document in errors."""


class Problem(Struct, frozen=True):
    """A problem of a document; `steps` lead from the top to its place: names of members, and indexes of items."""

    path: str
    text: str
    steps: tuple[str | int, ...] = ()

    def __str__(self) -> str:
        return f"{self.path or TOP}: {self.text}"


class JsonNode:
    """A `JsonNode` is one place of a document; an absent member and `null` have the value None."""

    __slots__ = ("_problems", "path", "steps", "value")

    def __init__(self, value: Any, problems: list[Problem], path: str = "", steps: tuple[str | int, ...] = ()) -> None:
        self.value = value
        self.path = path
        self.steps = steps
        self._problems = problems

    def error(self, text: str) -> None:
        """Record a problem of this place."""
        # All nodes of a document share the list, so its order is that of reading.
        self._problems.append(Problem(self.path, text, self.steps))

    def report_repeated(self) -> None:
        """Record a problem for each member, anywhere below this place, that its object has more than once."""
        if isinstance(self.value, Mapping):
            for name in self.value.repeated if isinstance(self.value, RepetitiveObject) else ():
                self.error(f"has {name!r} more than once; keep one of them")
            inner = [self.member(name) if name.isidentifier() else at for name, at in self.members().items()]
        else:
            inner = self.items() if isinstance(self.value, list) else []
        for node in inner:
            node.report_repeated()

    def member(self, name: str) -> JsonNode:
        """Return the member of an object; its value is None if it is absent."""
        value = self.value.get(name) if isinstance(self.value, Mapping) else None
        return self._at(f".{name}" if self.path else name, name, value)

    def members(self) -> dict[str, JsonNode]:
        """Return the members of an object by name; another value is a problem."""
        return {name: self._at(f"[{name!r}]", name, value) for name, value in self.object().items()}

    def items(self, missing: str = "", write: str = "a list") -> list[JsonNode]:
        """Return the items of a list. With a text for `missing` there must be some; `write` is the remedy."""
        if missing and self.value in (None, []):
            self.error(f"{missing}; write {write}")
        values: list[Any] = self.value if isinstance(self.value, list) else self._type_error([], write)
        return [self._at(f"[{index}]", index, value) for index, value in enumerate(values)]

    def object(self) -> Mapping[str, Any]:
        """Return the object; empty if it is absent, or, with a problem, another value."""
        return self.value if isinstance(self.value, Mapping) else self._type_error({}, "an object")

    def has_object(self) -> bool:
        """Return whether there is an object; another value than None is a problem."""
        self.object()
        return isinstance(self.value, Mapping)

    def text(self, default: str = "") -> str:
        """Return the string; `default` if it is absent, or, with a problem, another value."""
        if not isinstance(self.value, str):
            return self._type_error(default, "a string")
        if problem := unicode_problem(self.value):
            self.error(problem)
            return default
        return self.value

    def boolean(self) -> bool:
        """Return the boolean; False if it is absent, or, with a problem, another value."""
        return self.value if isinstance(self.value, bool) else self._type_error(False, "true or false")

    def number(self, default: float) -> float:
        """Return the number, which may be in a string, as protobuf's JSON allows."""
        value = self.value
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            return float(value)
        # In Python `True` is an int; in JSON it is not a number.
        if isinstance(value, bool) or not isinstance(value, int | float):
            return self._type_error(default, "a number")
        if not abs(value) <= _MAX_NUMBER:  # JSON's integers have any size, and Python parses NaN and Infinity too
            self.error("is too large, or no number; write one that fits into 64 bits")
            return default
        return value

    def integer(self, default: int) -> int:
        """Return the integer, which must be from 0 to 2**32 - 1."""
        number = self.number(default)
        # `number` has refused NaN and infinity, for which int() raises.
        if number != int(number) or not 0 <= number < _MAX_INTEGER:
            self.error(f"is {self.value!r}; write a whole number from 0 to {_MAX_INTEGER - 1}")
            return default
        return int(number)

    def seconds(self, default: float) -> float:
        """Return the duration in seconds, which must be above 0."""
        seconds = self.duration(default)
        if not seconds:
            self.error(f'is {self.value!r}; write seconds such as "600s"')
        return seconds

    def duration(self, default: float) -> float:
        """Return a duration in protobuf's JSON form, in seconds: "600s", "0.5s", "0s"."""
        if not isinstance(self.value, str):
            return self._type_error(default, 'a string such as "600s"')
        match = _DURATION.fullmatch(self.value)
        if match is None:
            self.error(f'is {self.value!r}; write seconds such as "600s"')
            return default
        seconds = float(match[1])
        if seconds > _MAX_SECONDS:
            self.error(f'is {self.value!r}; write at most "{_MAX_SECONDS}s"')
            return default
        return seconds

    def _at(self, suffix: str, step: str | int, value: Any) -> JsonNode:
        return JsonNode(value, self._problems, self.path + suffix, (*self.steps, step))

    def _type_error(self, default: T, wanted: str) -> T:
        """Return `default`, and record a problem unless the value is absent."""
        if self.value is not None:
            self.error(f"is {kind_of(self.value)}; write {wanted}")
        return default


def unicode_problem(text: str) -> str:
    """Return why a text cannot be sent as UTF-8, or "": JSON's escapes, and Python, may have half of a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "has half of a surrogate pair; write whole characters"
    return ""


def kind_of(value: Any) -> str:
    """Return the JSON type of a value, with its article."""
    # By the exact type, because `True` is an int to `isinstance`.
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), "null" if value is None else "an object")
