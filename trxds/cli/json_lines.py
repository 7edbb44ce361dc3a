"""The line numbers of the values in a JSON text, which the standard library's parser does not report.

The text was parsed before, so it is valid JSON.
"""

from __future__ import annotations

from json import JSONDecoder
from typing import TypeAlias

Steps: TypeAlias = tuple[str | int, ...]

_DECODER = JSONDecoder()
_SPACE = " \t\n\r"


class JsonLines:
    """The lines of a document's values.

    `repeated` has the members that occur twice in their object: parsers keep the last one, people read the first one.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines: dict[Steps, int] = {}
        self.repeated: list[Steps] = []
        self._value(0, ())

    def of(self, steps: Steps) -> int:
        """Return the line of the value at a path, counted from 1; the nearest parent's, if there is no such value."""
        while steps not in self._lines:
            steps = steps[:-1]
        return self._lines[steps]

    def _value(self, at: int, steps: Steps) -> int:
        """Skip a value; return the position of its end."""
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
        """Return the position of the next item, or of the closing bracket."""
        at = self._skip(at)
        return self._skip(at + 1) if self._text[at] == "," else at

    def _skip(self, at: int) -> int:
        while at < len(self._text) and self._text[at] in _SPACE:
            at += 1
        return at

    def _line(self, at: int) -> int:
        return self._text.count("\n", 0, at) + 1
