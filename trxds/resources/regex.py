"""Regular expressions in RE2 syntax: no pattern that a control plane sends can hang the client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import re2


def _compile(pattern: str) -> Any:
    """`ValueError` says what is wrong with the pattern, in RE2's words."""
    options = re2.Options()
    options.log_errors = False  # otherwise a bad pattern is also printed to stderr
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0]
        raise ValueError(reason.decode() if isinstance(reason, bytes) else str(reason)) from None


@dataclass(frozen=True, slots=True)
class Regex:
    """A pattern, compiled once; `ValueError` when it is not RE2's syntax."""

    pattern: str
    _fullmatch: Callable[[str], object] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_fullmatch", _compile(self.pattern).fullmatch)

    def matches(self, text: str) -> bool:
        """The whole text; a part of it is not enough (A28)."""
        return self._fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Replace what the expression finds, as RE2's GlobalReplace does: `\\0` to `\\9` are groups (A42)."""

    pattern: str
    substitution: str
