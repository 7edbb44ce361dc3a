"""Pages and taps on the screen: once, or for as long as anybody watches."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn, TypeAlias

import click
import trio
from rich.console import Console
from rich.live import Live
from rich.text import Text

from trxds.admin.state_stream.messages import State
from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.error_text import leaves

from ..exit_codes import FAILURE, SUCCESS, UNREACHABLE
from ..lost_output import give_up_output, has_reader_left, output_error
from .pages import Page
from .program import Program, UnreachableError, after
from .taps import KINDS, Filter, event_line

Draw: TypeAlias = Callable[[State], object]

_PAUSE = 1.0  # seconds between two pages, where they are not drawn over each other


async def show_once(program: Program, page: Page, as_json: bool) -> int:
    """The page as it is now; the value is the exit code."""
    async with program.ask(page.sections, once="1") as answer:
        async for message in answer:
            with program.checking_answer():
                state = after({}, message)
                text, code = (_json if as_json else _text)(page, state), SUCCESS if page.good(state) else FAILURE
            click.echo(text, nl=False)
            return code
    raise _over(program)


async def show_on(program: Program, page: Page, as_json: bool) -> NoReturn:
    """The page, and again when something has changed, until the program ends; as JSON what has changed."""
    states: ConflatingQueue[State] = ConflatingQueue()

    def draw_state(state: State) -> None:
        with program.checking_answer():
            draw(state)

    with _rows(page) if as_json else _screen(page) as (draw, pause):
        async with program.ask(page.sections) as answer, trio.open_nursery() as nursery:
            nursery.start_soon(draw_latest, states, draw_state, pause)
            state: State = {}
            async for message in answer:
                with program.checking_answer():
                    state = after(state, message)
                states.put("state", state)
            nursery.cancel_scope.cancel()
    raise _over(program)


async def draw_latest(states: ConflatingQueue[State], draw: Draw, pause: float) -> NoReturn:
    """Each state but those that are old by the time that the pause after the one before is over."""
    while True:
        for state in (await states.next()).values():
            draw(state)
        await trio.sleep(pause)


@contextmanager
def _screen(page: Page) -> Iterator[tuple[Draw, float]]:
    """Draws a page over the one before; where that cannot be, below it, if it differs, and not so often."""
    console = Console()
    if not console.is_terminal:
        sheets = Sheets()
        yield lambda state: sheets.draw(_text(page, state)), _PAUSE
        return
    with Live(console=console, vertical_overflow="visible") as live:
        yield lambda state: live.update(Text.from_ansi(_text(page, state))), 0


@contextmanager
def _rows(page: Page) -> Iterator[tuple[Draw, float]]:
    news = News()
    yield lambda state: news.draw(page.rows(state)), 0


class Sheets:
    """One page below the other, each with its time, as long as they differ."""

    def __init__(self) -> None:
        self._shown = ""

    def draw(self, text: str) -> None:
        if text != self._shown:
            self._shown = text
            click.echo(f"-- {time.strftime('%H:%M:%S')}\n{text}", nl=False)


class News:
    """The rows that are new or have changed since the last look, and those that are gone."""

    def __init__(self) -> None:
        self._shown: dict[tuple[str, str], str] = {}

    def draw(self, rows: Iterable[Mapping[str, Any]]) -> None:
        now = {(row.get("section", "channels"), row.get("key", row["channel"])): _plain(row) for row in rows}
        for name, text in now.items():
            if self._shown.get(name) != text:
                click.echo(text)
        for section, key in self._shown.keys() - now.keys():
            click.echo(_plain({"section": section, "key": key, "gone": True}))
        self._shown = now


async def show_tap(program: Program, wanted: Filter, metadata: bool, most: int | None, as_json: bool) -> int:
    """Each event as it happens, until there were so many, or the program ends."""
    shown = 0
    async with program.ask(events=KINDS, metadata="1" if metadata else "") as answer:
        async for message in answer:
            with program.checking_answer():
                events = [each for each in message.get("events", ()) if wanted.shows(each)]
                lines = [(each["kind"], _plain(each) if as_json else event_line(each)) for each in events]
            for kind, line in lines:
                click.echo(line)
                shown += kind != "missed"
                if shown == most:
                    return SUCCESS
    raise _over(program)


def _over(program: Program) -> UnreachableError:
    return UnreachableError(f"{program.address}: the program has ended, or closed its channel")


def _text(page: Page, state: State) -> str:
    return "".join(f"{each}\n" for each in page.lines(state, time.time()))


def _json(page: Page, state: State) -> str:
    return "".join(f"{_plain(row)}\n" for row in page.rows(state))


def _plain(row: Mapping[str, Any]) -> str:
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False)


def run(
    show: Callable[..., Awaitable[int]],
    *arguments: object,
    stopped: int = UNREACHABLE,
    reader_left: int | None = None,
) -> int:
    """Run a command and return its exit code; Ctrl-C and a closed pipe (`| head`) end it without an error.

    `stopped` is the exit code then: SUCCESS for a command that goes on until it is stopped; any other has no answer.
    `reader_left` is another one for the closed pipe.
    """
    code = SUCCESS
    try:
        code = trio.run(show, *arguments)
    except* KeyboardInterrupt:
        code = stopped
    except* OSError as errors:
        if (lost := output_error(errors)) is None:
            raise
        give_up_output(lost)
        left = stopped if reader_left is None else reader_left
        code = left if has_reader_left(lost) else UNREACHABLE
    except* UnreachableError as errors:
        for error in leaves(errors):
            click.echo(str(error), err=True)
        code = UNREACHABLE
    return code
