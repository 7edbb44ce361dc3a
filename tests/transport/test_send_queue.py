"""Streams that wait to send take turns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from trxds.transport.send_queue import MAX_STREAMS_PER_STEP, SEND_QUANTUM, SendQueue

BOUND = 64 * 1024


class Stream:
    """A stream with so many bytes to send, which notes its turns."""

    def __init__(self, number: int, size: int, turns: list[int]) -> None:
        self.id, self.left, self.turns = number, size, turns

    @property
    def waits_for_room(self) -> bool:
        return self.left > 0

    def push(self, limit: int) -> None:
        self.left -= max(0, min(self.left, limit))
        self.turns.append(self.id)


async def test_a_stream_that_sends_waits_behind_those_that_are_queued() -> None:
    later: list[None] = []
    engine: Any = SimpleNamespace(
        outgoing=SimpleNamespace(unsent=BOUND), connection_window=1, stream_window=lambda _: 1
    )
    writer: Any = SimpleNamespace(continue_later=lambda: later.append(None))
    queue, turns = SendQueue(engine, BOUND, writer), list[int]()
    numbers = range(MAX_STREAMS_PER_STEP + 1)
    for number in numbers:
        queue.send(Stream(number, SEND_QUANTUM, turns))
    turns.clear()
    engine.outgoing.unsent = 0
    queue.drain()  # all but the last one: a step serves a bounded number
    queue.send(Stream(1000, 1, turns))
    assert turns == list(numbers)[:-1] and later == [None]
    queue.drain()
    assert turns == [*numbers, 1000]


async def test_a_stream_that_no_other_waits_with_sends_as_much_as_there_is_room() -> None:
    engine: Any = SimpleNamespace(outgoing=SimpleNamespace(unsent=0), connection_window=1, stream_window=lambda _: 1)
    turns: list[int] = []
    stream = Stream(1, BOUND + 1, turns)
    writer: Any = SimpleNamespace()
    SendQueue(engine, BOUND, writer).send(stream)
    assert stream.left == 1 and turns == [1]


def queue_with_window(window: int) -> SendQueue:
    """Return a queue of streams with that window, which must not ask the writer for more work."""
    outgoing = SimpleNamespace(unsent=0)
    engine: Any = SimpleNamespace(outgoing=outgoing, connection_window=1, stream_window=lambda _: window)
    writer: Any = SimpleNamespace()
    return SendQueue(engine, BOUND, writer)


async def test_a_stream_whose_window_opens_is_blocked_no_more() -> None:
    queue, stream = queue_with_window(0), Stream(1, BOUND + 1, [])
    queue.send(stream)
    assert (list(queue.queued), list(queue.blocked)) == ([], [stream])
    queue.append(stream)
    assert (list(queue.queued), list(queue.blocked)) == ([stream], [])


async def test_a_stream_with_nothing_to_send_gets_no_turn_when_its_window_opens() -> None:
    queue = queue_with_window(1)
    queue.append(Stream(1, 0, []))
    assert not queue.queued


async def test_windows_that_open_are_no_work_while_no_stream_is_blocked() -> None:
    queue_with_window(1).recheck_blocked()
