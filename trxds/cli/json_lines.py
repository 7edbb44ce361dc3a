"""On which line of a JSON text does a value stand? The standard library's parser does not say.

The text has been parsed before, so it is known to be valid JSON.
"""

from __future__ import annotations

from json import JSONDecoder
from typing import TypeAlias

Steps: TypeAlias = tuple[str | int, ...]

_DECODER = JSONDecoder()
_SPACE = " \t\n\r"


class JsonLines:
    """`repeated` are the members that stand twice in their object: parsers keep the last, people read the first."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines: dict[Steps, int] = {}
        self.repeated: list[Steps] = []
        self._value(0, ())

    def of(self, steps: Steps) -> int:
        """The line of that place, counted from 1; of the nearest one above it, if it is not there."""
        while steps not in self._lines:
            steps = steps[:-1]
        return self._lines[steps]

    def _value(self, at: int, steps: Steps) -> int:
        """Walk over a value; returns where it ends."""
        at = self._skip(at)
        self._lines.setdefault(steps, self._line(at))  # a member stands where its name does
        match self._text[at]:
            case "{":
                return self._members(at + 1, steps)
            case "[":
                return self._items(at + 1, steps)
        return _DECODER.raw_decode(self._text, at)[1]

    def _members(self, at: int, steps: Steps) -> int:
        at = self._skip(at)
        while self._text[at] != "}":
            name, end = _DECODER.raw_decode(self._text, at)
            place = (*steps, name)
            if place in self._lines:
                self.repeated.append(place)
            self._lines[place] = self._line(at)
            at = self._next(self._value(self._skip(end) + 1, place))
        return at + 1

    def _items(self, at: int, steps: Steps) -> int:
        at, index = self._skip(at), 0
        while self._text[at] != "]":
            at = self._next(self._value(at, (*steps, index)))
            index += 1
        return at + 1

    def _next(self, at: int) -> int:
        """Where the next one begins, or the bracket stands that closes them."""
        at = self._skip(at)
        return self._skip(at + 1) if self._text[at] == "," else at

    def _skip(self, at: int) -> int:
        while at < len(self._text) and self._text[at] in _SPACE:
            at += 1
        return at

    def _line(self, at: int) -> int:
        return self._text.count("\n", 0, at) + 1
