"""Lines that align, and words that are the same everywhere: ages, and states in their colours. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import click
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

_ROWS_AT_ONCE = 200  # of a larger grid each row takes longer

_COLOURS = {
    "READY": "green",
    "acked": "green",
    "OK": "green",
    "CONNECTING": "yellow",
    "DRAINING": "yellow",
    "requested": "yellow",
    "stale": "yellow",
    "TRANSIENT_FAILURE": "red",
    "SHUTDOWN": "red",
    "nacked": "red",
    "does_not_exist": "red",
    "received_error": "red",
    "timeout": "red",
}


def columns(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Each column as wide as its widest cell, but for the last; states are coloured, if anybody can see colours."""
    table = [[" ".join(cell.split("\n")) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) + 2 for column in zip(*table, strict=True)]
    console = Console(width=sum(widths), force_terminal=True, color_system="standard")
    for first in range(0, len(table), _ROWS_AT_ONCE):
        yield from _aligned(table[first : first + _ROWS_AT_ONCE], widths, console)


def _aligned(rows: Sequence[Sequence[str]], widths: Sequence[int], console: Console) -> Iterator[str]:
    grid = Table.grid()
    for width in widths:
        grid.add_column(width=width, no_wrap=True)
    # A column is one cell of many lines: ten thousand rows take rich 1.3 seconds like this, and five as cells.
    columns = zip(*rows, strict=True)
    grid.add_row(*(Text("\n").join(Text(cell, _COLOURS.get(cell, "")) for cell in column) for column in columns))
    with console.capture() as lines:
        console.print(grid)
    return (line.rstrip() for line in lines.get().removesuffix("\n").split("\n"))


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
