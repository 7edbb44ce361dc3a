"""Streams that wait to send take turns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

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


class Queue:
    """A send queue; the test sets the windows and what is unsent, and `asked` counts what the writer is asked for."""

    def __init__(self, window: int = 1, *, connection_window: int = 1, unsent: int = 0) -> None:
        self.window, self.asked = window, 0
        engine: Any = SimpleNamespace(
            outgoing=SimpleNamespace(unsent=unsent),
            connection_window=connection_window,
            stream_window=lambda _: self.window,
        )
        writer: Any = SimpleNamespace(continue_later=self._continue_later)
        self.queue = SendQueue(engine, BOUND, writer)

    def _continue_later(self) -> None:
        self.asked += 1

    def block(self, number: int) -> list[Stream]:
        """Return so many streams that are blocked."""
        window, self.window = self.window, 0
        streams = [Stream(each, BOUND + 1, []) for each in range(number)]
        for stream in streams:
            self.queue.send(stream)
        self.window = window
        assert list(self.queue.blocked) == streams and not self.queue.queued
        return streams


async def test_a_stream_whose_window_opens_is_blocked_no_more() -> None:
    made = Queue()
    [stream] = made.block(1)
    made.queue.append(stream)
    assert (list(made.queue.queued), list(made.queue.blocked)) == ([stream], [])


async def test_a_stream_with_nothing_to_send_gets_no_turn_when_its_window_opens() -> None:
    made = Queue()
    made.queue.append(Stream(1, 0, []))
    assert not made.queue.queued


async def test_windows_that_open_are_no_work_while_no_stream_is_blocked() -> None:
    made = Queue()
    made.queue.recheck_blocked()
    assert not made.asked


async def test_a_blocked_stream_that_has_sent_all_is_kept_no_longer() -> None:
    # Its window was opened by SETTINGS, after which the blocked streams are checked later.
    made = Queue()
    [stream] = made.block(1)
    made.queue.send(stream)
    assert not stream.left and not made.queue.blocked


async def test_blocked_streams_are_queued_in_their_order_when_their_windows_open() -> None:
    made = Queue(unsent=BOUND)
    streams = made.block(3)
    made.queue.recheck_blocked()
    made.queue.drain()
    assert (list(made.queue.queued), list(made.queue.blocked)) == (streams, [])


async def test_blocked_streams_whose_windows_stay_closed_get_no_turn() -> None:
    made = Queue(window=0)
    streams = made.block(3)
    made.queue.recheck_blocked()
    made.queue.drain()
    assert list(made.queue.blocked) == streams
    assert [len(each.turns) for each in streams] == [1, 1, 1] and made.asked == 1


async def test_one_step_checks_a_bounded_number_of_blocked_streams() -> None:
    made = Queue(unsent=BOUND)
    made.block(MAX_STREAMS_PER_STEP + 1)
    made.queue.recheck_blocked()
    made.queue.drain()
    assert (len(made.queue.queued), len(made.queue.blocked), made.asked) == (MAX_STREAMS_PER_STEP, 1, 2)
    made.queue.drain()
    assert not made.queue.blocked and made.asked == 2


async def test_a_blocked_stream_that_ends_before_its_check_holds_up_no_other() -> None:
    made = Queue(unsent=BOUND)
    first, second = made.block(2)
    made.queue.recheck_blocked()
    made.queue.forget(first)
    made.queue.drain()
    assert list(made.queue.queued) == [second]


@pytest.mark.parametrize("full", [{"connection_window": 0}, {"unsent": BOUND}])
async def test_no_queued_stream_gets_a_turn_without_room(full: dict[str, int]) -> None:
    # They would go through the queue for ever.
    made, stream = Queue(**full), Stream(1, 1, [])
    made.queue.append(stream)
    made.queue.drain()
    assert not stream.turns and list(made.queue.queued) == [stream]


@pytest.mark.parametrize(("room", "allowed"), [(BOUND, SEND_QUANTUM), (10, 10)])
async def test_a_turn_sends_a_bounded_part_while_others_wait(room: int, allowed: int) -> None:
    class Content(Stream):
        def push(self, limit: int) -> None:
            self.left = 0
            limits.append(limit)

    made, limits = Queue(unsent=BOUND - room), list[int]()
    for number in range(2):
        made.queue.append(Content(number, 1, []))
    made.queue.drain()
    assert limits == [allowed, room]


async def test_a_stream_that_ends_gets_no_turn() -> None:
    made, stream = Queue(), Stream(1, 1, [])
    made.queue.append(stream)
    made.queue.forget(stream)
    made.queue.drain()
    assert not stream.turns


async def test_nothing_is_left_to_do_when_the_connection_has_ended() -> None:
    made = Queue(unsent=BOUND)
    made.block(2 * MAX_STREAMS_PER_STEP)
    made.queue.append(Stream(1, 1, []))
    made.queue.recheck_blocked()
    asked = made.asked
    made.queue.clear()
    made.queue.drain()
    assert (len(made.queue.queued), len(made.queue.blocked), made.asked) == (0, 0, asked)
