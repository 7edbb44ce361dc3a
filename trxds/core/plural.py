"""Numbers in sentences."""

from __future__ import annotations


def plural(number: int, noun: str, plural: str = "") -> str:
    """Such as 1 problem, 2 problems; `plural` where an s will not do."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
