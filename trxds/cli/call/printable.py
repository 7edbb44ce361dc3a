"""`printable` shows a peer's text on a terminal as it is, without what a terminal would obey."""

from __future__ import annotations


def printable(text: str, keep: str = "\n\t") -> str:
    """Return the text with control characters escaped, except those in `keep`."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in keep else each.encode("unicode_escape").decode() for each in text
    )
