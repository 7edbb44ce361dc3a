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
