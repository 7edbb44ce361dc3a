"""The writer sends everything, also where the transport takes a part of it at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from support.lone_calls import answered

from trxds.testing.network import memory_stream_pair
from trxds.transport.connection_tasks import ConnectionTasks
from trxds.transport.frames import OutgoingFrames
from trxds.transport.transport import SocketTransport, Transport
from trxds.transport.writer import Writer


class CountingTransport(Transport):
    """Takes everything at once."""

    at_once = True

    def __init__(self) -> None:
        super().__init__(memory_stream_pair()[0])
        self.writes: list[bytes] = []

    def send_nowait(self, data: bytes) -> int:
        self.writes.append(bytes(data))
        return len(data)


class NarrowTransport(Transport):
    """Takes four bytes at once; all that a task waits for."""

    at_once = True

    def __init__(self) -> None:
        super().__init__(memory_stream_pair()[0])
        self.sent = b""

    def send_nowait(self, data: bytes) -> int:
        self.sent += data[:4]
        return len(data[:4])

    async def send_all(self, data: bytes | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        self.sent += data


class Owner:
    """Owns the connection, and does nothing."""

    def output_taken(self) -> None: ...

    def use_room(self) -> None: ...


@asynccontextmanager
async def running_writer(streams: list[int]) -> AsyncIterator[tuple[Writer, OutgoingFrames, CountingTransport]]:
    """A writer whose task waits for output."""
    transport, outgoing, tasks = CountingTransport(), OutgoingFrames(), ConnectionTasks("host")
    writer = Writer(outgoing, transport, tasks, Owner(), streams, lambda error: None)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        tasks.open(nursery)
        outgoing.add(b"preface")
        writer.write_soon()
        await trio.testing.wait_all_tasks_blocked()
        transport.writes.clear()
        yield writer, outgoing, transport
        nursery.cancel_scope.cancel()


def request(writer: Writer, outgoing: OutgoingFrames, streams: list[int], *, is_peer_idle: bool = True) -> None:
    """What `Connection.open_stream` does in a caller's step."""
    streams.append(len(streams))
    outgoing.add(b"%d" % streams[-1])
    if is_peer_idle:
        writer.flush_first_half()
    else:
        writer.write_soon()


async def test_the_first_half_of_the_callers_that_one_read_woke_send_at_once(autojump_clock: object) -> None:
    streams = list(range(8))
    async with running_writer(streams) as (writer, outgoing, transport):
        writer.note_read()
        streams.clear()  # all eight are answered
        for number in range(8):
            request(writer, outgoing, streams, is_peer_idle=number < 4)
        assert transport.writes == [b"0123"]
        await trio.testing.wait_all_tasks_blocked()
        assert transport.writes == [b"0123", b"4567"]


async def test_a_lone_caller_sends_at_once(autojump_clock: object) -> None:
    streams = [0]
    async with running_writer(streams) as (writer, outgoing, transport):
        writer.note_read()
        streams.clear()
        request(writer, outgoing, streams)
        assert transport.writes == [b"0"]


async def test_fewer_callers_than_expected_are_sent_in_the_next_pass(autojump_clock: object) -> None:
    streams = list(range(8))
    async with running_writer(streams) as (writer, outgoing, transport):
        writer.note_read()
        streams.clear()
        for _ in range(3):
            request(writer, outgoing, streams)
        assert transport.writes == []
        await trio.testing.wait_all_tasks_blocked()
        assert transport.writes == [b"012"]


async def test_an_acknowledgement_leaves_with_the_requests_of_the_callers_that_its_read_woke(
    autojump_clock: object,
) -> None:
    streams = [0, 1]
    async with running_writer(streams) as (writer, outgoing, transport):
        writer.note_read()
        streams.clear()
        outgoing.add_control(b"ack ")
        writer.flush_after_read()
        assert transport.writes == []
        await trio.lowlevel.checkpoint()  # the writer may have had its turn before the callers
        request(writer, outgoing, streams)
        assert transport.writes == [b"ack 0"]


async def test_an_acknowledgement_leaves_alone_if_nobody_calls(autojump_clock: object) -> None:
    streams = [0, 1]
    async with running_writer(streams) as (writer, outgoing, transport):
        writer.note_read()
        outgoing.add_control(b"ack")
        writer.flush_after_read()
        await trio.testing.wait_all_tasks_blocked()
        assert transport.writes == [b"ack"]


async def test_the_acknowledgement_of_a_lone_call_leaves_at_once(autojump_clock: object) -> None:
    streams = [0]
    async with running_writer(streams) as (writer, outgoing, transport):
        writer.note_read()
        outgoing.add_control(b"ack")
        writer.flush_after_read()
        assert transport.writes == [b"ack"]


@pytest.mark.parametrize(("number", "writes"), [(1, [b"x"]), (2, [])])
async def test_a_stream_sends_at_once_only_if_no_other_is_open(
    number: int, writes: list[bytes], autojump_clock: object
) -> None:
    async with running_writer([0] * number) as (writer, outgoing, transport):
        outgoing.add(b"x")
        writer.flush_or_schedule()
        assert transport.writes == writes


@pytest.mark.parametrize(("open_at_read", "open_now"), [(2, 1), (1, 2)])
async def test_an_acknowledgement_waits_for_the_next_pass_if_several_callers_may_call(
    open_at_read: int, open_now: int, autojump_clock: object
) -> None:
    streams = [0] * open_at_read
    async with running_writer(streams) as (writer, outgoing, transport):
        writer.note_read()
        streams[:] = [0] * open_now
        outgoing.add_control(b"ack")
        writer.flush_after_read()
        assert transport.writes == []


async def test_no_output_overtakes_the_rest_of_an_earlier_flush() -> None:
    transport, outgoing = NarrowTransport(), OutgoingFrames()
    writer = Writer(outgoing, transport, ConnectionTasks("host"), Owner(), (), lambda error: None)  # type: ignore[arg-type]
    outgoing.add(b"first")
    writer.flush()
    outgoing.add(b"next")
    writer.flush()
    assert transport.sent == b"firs" and writer.is_pending


async def test_output_for_which_a_flush_makes_room_follows_in_the_next_pass(autojump_clock: object) -> None:
    class Fills(Owner):
        more = b"second"

        def output_taken(self) -> None:
            if self.more:
                outgoing.add(self.more)
                self.more = b""
                writer.flush()

    transport, outgoing, tasks = CountingTransport(), OutgoingFrames(), ConnectionTasks("host")
    writer = Writer(outgoing, transport, tasks, Fills(), (), lambda error: None)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        tasks.open(nursery)
        outgoing.add(b"first")
        writer.flush()
        assert transport.writes == [b"first"]
        await trio.testing.wait_all_tasks_blocked()
        assert transport.writes == [b"first", b"second"]
        nursery.cancel_scope.cancel()


async def test_work_that_a_step_left_is_done_in_the_next_pass_without_any_output(autojump_clock: object) -> None:
    class Works(Owner):
        times = 0

        def use_room(self) -> None:
            self.times += 1

    works, outgoing, tasks = Works(), OutgoingFrames(), ConnectionTasks("host")
    writer = Writer(outgoing, CountingTransport(), tasks, works, (), lambda error: None)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        tasks.open(nursery)
        for times in (1, 2):  # the first starts the task
            writer.continue_later()
            assert works.times == times - 1
            await trio.testing.wait_all_tasks_blocked()
            assert works.times == times
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("error", [trio.BrokenResourceError(), trio.ClosedResourceError()])
async def test_a_write_that_fails_ends_the_connection_with_its_error(error: Exception, autojump_clock: object) -> None:
    class Broken(NarrowTransport):
        async def send_all(self, data: bytes | memoryview) -> None:
            raise error

    outgoing, tasks, lost = OutgoingFrames(), ConnectionTasks("host"), list[object]()
    writer = Writer(outgoing, Broken(), tasks, Owner(), (), lost.append)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        tasks.open(nursery)
        outgoing.add(b"more than four bytes")
        writer.flush()
        await trio.testing.wait_all_tasks_blocked()
        assert lost == [error]
        nursery.cancel_scope.cancel()


async def test_the_rest_of_a_flush_wakes_the_writer_that_waits(autojump_clock: object) -> None:
    """The reader flushes for a lone stream, and the socket takes a part: nothing else may ever come to send."""
    transport, outgoing, tasks = NarrowTransport(), OutgoingFrames(), ConnectionTasks("host")
    writer = Writer(outgoing, transport, tasks, Owner(), (), lambda error: None)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        tasks.open(nursery)
        for data in (b"the first starts the task", b"the rest of the second wakes it"):
            outgoing.add(data)
            writer.flush_or_schedule()
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert transport.sent == b"the first starts the taskthe rest of the second wakes it"
    assert not writer.is_pending


async def test_eight_callers_whose_answers_came_together_call_again_in_two_writes(
    wire, request_, monkeypatch, autojump_clock
) -> None:
    connection, server = await wire(sockets=True)
    writes: list[int] = []
    send_nowait = SocketTransport.send_nowait
    monkeypatch.setattr(
        SocketTransport, "send_nowait", lambda self, data: writes.append(len(data)) or send_nowait(self, data)
    )

    async def call_twice() -> None:
        for _ in range(2):
            await answered(connection.open_stream(request_(message=b"x")))

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(call_twice)
        for again in (False, True):
            streams = [await server.request() for _ in range(8)]
            assert not again or len(writes) == 2
            for stream_id in streams:
                server.answer_later(stream_id, b"echo")
            writes.clear()
            await server.flush()
