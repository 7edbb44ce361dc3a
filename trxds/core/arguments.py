"""The checks of what a program passes to trxds, in the words that all errors share.

A caller without a type checker may pass anything, and an option that nobody checked fails far from its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .json_reader import unicode_problem


def check_type(name: str, value: object, kind: type | tuple[type, ...], form: str) -> None:
    """Raise `TypeError` unless the argument is of that type. The value is not shown, because it may be a secret."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {form}, not {type(value).__name__}")


def check_unicode(name: str, text: str) -> None:
    """Raise `ValueError` unless the text can be sent as UTF-8."""
    if problem := unicode_problem(text):
        raise ValueError(f"{name} {text!r} {problem}")


def check_callable(name: str, value: object, form: str) -> None:
    """Raise `TypeError` unless the argument can be called; see `check_type`."""
    if not callable(value):
        raise TypeError(f"{name} is {form}, not {type(value).__name__}")


def check_number(name: str, value: object, fits: Callable[[float], bool], form: str) -> None:
    """Raise `ValueError` unless the argument is a number that `fits`, which must be false for NaN."""
    # `True` is an int in Python, and no number for a caller.
    if isinstance(value, bool) or not isinstance(value, int | float) or not fits(value):
        raise ValueError(f"{name} is {value!r}; it must be {form}")


def check_whole(name: str, value: object, least: int, form: str, *, most: float = math.inf) -> None:
    """Raise `ValueError` unless the argument is a whole number from `least` to `most`."""
    check_number(name, value, lambda number: isinstance(number, int) and least <= number <= most, form)
