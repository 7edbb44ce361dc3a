"""Regular expressions in RE2 syntax, so that no pattern of a control plane can hang the client (A28)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import re2
from msgspec import Struct


def _compile(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False  # otherwise a bad pattern is also printed to stderr
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0]
        raise ValueError(reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)) from None


@dataclass(frozen=True, slots=True)
class Regex:
    """A pattern, compiled once; `ValueError` has RE2's description of its error."""

    pattern: str
    _compiled: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_compiled", _compile(self.pattern))

    def matches(self, text: str) -> bool:
        """Return whether the whole text matches; a part of it is not enough (A28)."""
        return self._compiled.fullmatch(text) is not None

    def replace(self, text: str, substitution: str) -> str:
        """Return the text with every match replaced, as by RE2's GlobalReplace: `\\0` to `\\9` are groups (A42)."""
        if not _expands(substitution, self._compiled.groups):
            return text
        pieces: list[str] = []
        end = -1
        for match in self._compiled.finditer(text):
            start = match.start()
            if start == match.end() == end:
                continue  # RE2 does not replace an empty match right after another match
            pieces += text[max(end, 0) : start], _expand(substitution, match)
            end = match.end()
        return "".join([*pieces, text[max(end, 0) :]])


_SUBSTITUTION = re.compile(r"(?:[^\\]|\\[0-9\\])*", re.DOTALL)


def _expands(substitution: str, groups: int) -> bool:
    """Return whether RE2 would replace at all: it does not if the substitution has a missing group or a bad escape."""
    if not _SUBSTITUTION.fullmatch(substitution):
        return False
    named = re.findall(r"\\([0-9\\])", substitution)
    return all(int(each) <= groups for each in named if each != "\\")


def _expand(substitution: str, match: Any) -> str:
    pieces = iter(substitution)
    return "".join(_escaped(next(pieces), match) if piece == "\\" else piece for piece in pieces)


def _escaped(character: str, match: Any) -> str:
    """Return the replacement of a backslash and this character: a group's text, or a backslash."""
    return (match.group(int(character)) or "") if character.isdigit() else character


class Rewrite(Struct, frozen=True):
    """A rule that replaces every match of the expression in a text."""

    regex: Regex
    substitution: str

    def apply(self, text: str) -> str:
        return self.regex.replace(text, self.substitution)
