"""Lines that align, and words that are the same everywhere: ages, and states in their colours. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import click

_COLOURS = {
    "READY": "green",
    "acked": "green",
    "OK": "green",
    "CONNECTING": "yellow",
    "DRAINING": "yellow",
    "requested": "yellow",
    "TRANSIENT_FAILURE": "red",
    "SHUTDOWN": "red",
    "nacked": "red",
    "does_not_exist": "red",
    "received_error": "red",
    "timeout": "red",
}


def columns(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Each column as wide as its widest cell, but for the last; states are coloured, if anybody can see colours."""
    table = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = [coloured(cell) + " " * (width - len(cell)) for cell, width in zip(row, widths, strict=True)]
        yield "  ".join(cells).rstrip()


def coloured(word: str) -> str:
    colour = _COLOURS.get(word)
    return click.style(word, fg=colour) if colour else word


def age(since: float | None, now: float) -> str:
    """`12 s`, `5 min`, `3 h`, `2 d`; a dash for what has not happened."""
    if since is None:
        return "-"
    seconds = max(now - since, 0.0)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {unit}"
    return f"{seconds:.0f} s"


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
