"""The writer sends everything, also where the transport takes a part of it at once."""

from __future__ import annotations

import trio

from trxds.testing.network import memory_stream_pair
from trxds.transport.connection_tasks import ConnectionTasks
from trxds.transport.outgoing_frames import OutgoingFrames
from trxds.transport.transport import Transport
from trxds.transport.writer import Writer


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
