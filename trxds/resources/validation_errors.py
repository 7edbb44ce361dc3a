"""The errors of a resource, each with its field path.

An author of resources wants to see all errors at once, so a parser notes an error and goes on. The texts are those of
the C++ client: people search the web for them.

The texts are bounded. They go into the message of every RPC that fails because of the resource, and into the NACK,
which a server refuses if it is too large: most take 4 MiB.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

MAX_SIZE = 8 * 1024  # characters of the errors of one resource, some seventy of them


class ValidationErrors:
    """The errors of a resource, seen from one field; `at` returns the same for a field below it."""

    __slots__ = ("_found", "_path")

    def __init__(self) -> None:
        self._path = ""
        self._found: list[tuple[str, str]] = []  # path and error

    def at(self, field: str) -> ValidationErrors:
        """Return the same errors as seen from a field below: `name`, `name[3]`, or `[key]`."""
        # Without __init__, which would begin an empty list of errors.
        below = ValidationErrors.__new__(ValidationErrors)
        below._path = f"{self._path}.{field}" if self._path and field[0] != "[" else self._path + field
        below._found = self._found
        return below

    def add(self, error: str) -> None:
        self._found.append((self._path, error))

    def has_field(self, message: Any, field: str) -> bool:
        """Return whether the message at this path has that field, and add an error if it has not."""
        if message.HasField(field):
            return True
        self.at(field).add("field not present")
        return False

    @property
    def texts(self) -> tuple[str, ...]:
        """Return one text for each field, in the order in which they were found, up to `MAX_SIZE` characters."""
        fields: dict[str, list[str]] = {}
        for path, error in self._found:
            fields.setdefault(path, []).append(error)
        return first_errors((_text(path, errors) for path, errors in fields.items()), len(fields), MAX_SIZE)

    @property
    def count(self) -> int:
        """Return how many errors there are, at all fields; a caller can see whether a step added some."""
        return len(self._found)

    def __bool__(self) -> bool:
        """Return whether there is an error, at any field."""
        return bool(self._found)

    def __repr__(self) -> str:
        return f"<ValidationErrors at {self._path or 'the resource'!r}: {'; '.join(self.texts) or 'none'}>"


def _text(path: str, errors: list[str]) -> str:
    if len(errors) == 1:
        return f"field:{path} error:{errors[0]}"
    return f"field:{path} errors:[{'; '.join(errors)}]"


def first_errors(texts: Iterable[str], total: int, size: int) -> tuple[str, ...]:
    """Return the first of these `total` texts, up to `size` characters, and a text of how many more there are."""
    shown: list[str] = []
    for text in texts:
        if len(text) > size:
            if not shown:
                shown.append(f"{text[:size]}... ({len(text) - size} more characters)")
            break
        shown.append(text)
        size -= len(text)
    left_out = total - len(shown)
    return (*shown, f"and {left_out} more") if left_out else tuple(shown)
