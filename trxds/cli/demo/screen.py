"""The output of the demo: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from msgspec import Struct
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from .mesh import Mesh
from .verdict import Record, Verdict


class Row(Struct, frozen=True):
    host: str
    state: str
    sessions: int
    rpcs: int  # since the last board


class Board(Struct, frozen=True):
    """The data that is shown at one moment."""

    elapsed: float
    done: int
    expected: int
    failures: int
    moved: int
    rows: tuple[Row, ...]


def board_of(mesh: Mesh, record: Record, elapsed: float, by_host_before: dict[str, int]) -> Board:
    sessions = Counter(record.host_of.values())
    rows = tuple(
        Row(
            host.name,
            mesh.state_of(host),
            sessions[host.name],
            record.by_host.get(host.name, 0) - by_host_before.get(host.name, 0),
        )
        for host in mesh.hosts
    )
    moved = len({move.session for move in record.moves})
    return Board(elapsed, record.done, record.expected, len(record.failures), moved, rows)


class Screen(Protocol):
    def happened(self, elapsed: float, title: str) -> None:
        """Show a step of the story; the time is in seconds since the demo began."""

    def update(self, board: Board) -> None:
        """Show the newest data. This is called a few times a second."""


@contextmanager
def watching(console: Console) -> Iterator[Screen]:
    if console.is_terminal:
        with Live(console=console, refresh_per_second=8) as live:
            yield LiveTable(live)
    else:
        yield Lines(console)


class LiveTable:
    def __init__(self, live: Live) -> None:
        self._live = live
        self._events = Text()

    def happened(self, elapsed: float, title: str) -> None:
        self._events.append(f"{elapsed:5.1f} s  {title}\n")

    def update(self, board: Board) -> None:
        table = Table(title=f"{board.done} of {board.expected} RPCs, {board.failures} failures, {board.moved} moved")
        table.add_column("backend")
        table.add_column("state")
        table.add_column("sessions", justify="right")
        table.add_column("RPCs", justify="right")
        for row in board.rows:
            style = {"healthy": "", "removed": "dim"}.get(row.state, "yellow")
            table.add_row(row.host, row.state, "●" * row.sessions or "-", str(row.rpcs), style=style)
        self._live.update(Group(table, self._events))


class Lines:
    """Prints one line a second, and one for each step."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = 1.0

    def happened(self, elapsed: float, title: str) -> None:
        self._say(f"{elapsed:5.1f} s  {title}")

    def update(self, board: Board) -> None:
        if board.elapsed < self._next:
            return
        self._next = board.elapsed + 1
        hosts = ", ".join(f"{row.host} {row.sessions}" for row in board.rows)
        self._say(f"{board.elapsed:5.1f} s  {board.done:4} RPCs, {board.failures} failures; sessions: {hosts}")

    def _say(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


def show_page(console: Console, url: str) -> None:
    console.print(f"the live page is at {url}", highlight=False, markup=False, soft_wrap=True)


def show_verdict(console: Console, verdict: Verdict) -> None:
    for line in verdict.lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    for line in verdict.broken:
        console.print(f"BROKEN: {line}", style="red", highlight=False, markup=False, soft_wrap=True)
    if verdict.holds:
        console.print("Every session stayed, except where its host was removed.", style="green", highlight=False)
