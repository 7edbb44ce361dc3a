"""`printable` shows a peer's text on a terminal as it is, without what a terminal would obey."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return the text with control characters escaped; line ends and tabs stay."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode() for each in text
    )
