"""This file puts numbers into sentences."""

from __future__ import annotations


def plural(number: int, noun: str, plural: str = "") -> str:
    """Return `1 problem` or `2 problems`, for example; `plural` is for nouns without a plural in s."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
