"""A place in a JSON document that people write: its value, its name for them, and what is wrong with it.

Reading goes on after a problem, so that all of them are told at once. Whoever has the text can
find a problem's line by its `steps`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

# ASCII, for \d takes the digits of every script otherwise. Bounded, for float() makes infinity of too many.
_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)s", re.ASCII)
_NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,18})?", re.ASCII)
_MAX_INTEGER = 2**32
_MAX_NUMBER = sys.float_info.max


@dataclass(frozen=True, slots=True)
class Problem:
    """`steps` lead from the top to the place: names of members, and indexes of items."""

    path: str
    text: str
    steps: tuple[str | int, ...] = ()

    def __str__(self) -> str:
        return f"{self.path or 'top level'}: {self.text}"


class JsonNode:
    """Where a reader stands. What is not there, or null as JSON writers put it, has the value None."""

    __slots__ = ("_problems", "path", "steps", "value")

    def __init__(self, value: Any, problems: list[Problem], path: str = "", steps: tuple[str | int, ...] = ()) -> None:
        self.value = value
        self.path = path
        self.steps = steps
        self._problems = problems

    def error(self, text: str) -> None:
        self._problems.append(Problem(self.path, text, self.steps))

    def member(self, name: str) -> JsonNode:
        """That member of an object."""
        value = self.value.get(name) if isinstance(self.value, Mapping) else None
        return self._at(f".{name}" if self.path else name, name, value)

    def members(self) -> dict[str, JsonNode]:
        return {name: self._at(f"[{name!r}]", name, value) for name, value in self.object().items()}

    def items(self, problem: str = "") -> list[JsonNode]:
        """The places of a list; `problem` says what an item is, if there must be at least one."""
        if isinstance(self.value, list) and (self.value or not problem):
            return [self._at(f"[{index}]", index, value) for index, value in enumerate(self.value)]
        if problem:
            self.error(problem)
        else:
            self._type_error([], "a list")
        return []

    def object(self) -> Mapping[str, Any]:
        return self.value if isinstance(self.value, Mapping) else self._type_error({}, "an object")

    def has_object(self) -> bool:
        """Whether there is an object; anything else but nothing is a problem."""
        self.object()
        return isinstance(self.value, Mapping)

    def text(self, default: str = "") -> str:
        return self.value if isinstance(self.value, str) else self._type_error(default, "a string")

    def boolean(self, default: bool) -> bool:
        return self.value if isinstance(self.value, bool) else self._type_error(default, "true or false")

    def number(self, default: float) -> float:
        """A number, in a string perhaps, as protobuf allows it in JSON."""
        value = self.value
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            return float(value)
        # To Python True is 1; in JSON it is no number.
        if isinstance(value, bool) or not isinstance(value, int | float):
            return self._type_error(default, "a number")
        if not abs(value) <= _MAX_NUMBER:  # JSON's integers are of any size, and Python reads NaN and Infinity too
            self.error("is too large, or no number; write one that fits into 64 bits")
            return default
        return value

    def integer(self, default: int) -> int:
        """A whole number from 0 on that fits into 32 bits."""
        number = self.number(default)
        if number != int(number) or not 0 <= number < _MAX_INTEGER:
            self.error(f"is {self.value!r}; write a whole number from 0 to {_MAX_INTEGER - 1}")
            return default
        return int(number)

    def seconds(self, default: float) -> float:
        """A duration that is more than nothing."""
        seconds = self.duration(default)
        if not seconds:
            self.error(f'is {self.value!r}; write seconds such as "600s"')
        return seconds

    def duration(self, default: float) -> float:
        """A duration as protobuf writes it in JSON, in seconds: "600s", "0.5s", "0s"."""
        if not isinstance(self.value, str):
            return self._type_error(default, 'a string such as "600s"')
        match = _DURATION.fullmatch(self.value)
        if match is None:
            self.error(f'is {self.value!r}; write seconds such as "600s"')
            return default
        return float(match[1])

    def _at(self, suffix: str, step: str | int, value: Any) -> JsonNode:
        return JsonNode(value, self._problems, self.path + suffix, (*self.steps, step))

    def _type_error(self, default: T, wanted: str) -> T:
        """Absent is fine; anything else that is not what we want is a problem."""
        if self.value is not None:
            self.error(f"is {kind_of(self.value)}; write {wanted}")
        return default


def kind_of(value: Any) -> str:
    """What the value is in JSON's words, with its article."""
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), "null" if value is None else "an object")
