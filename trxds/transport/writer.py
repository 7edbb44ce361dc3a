"""The writer takes a connection's output to the transport.

Every caller appends to the engine's output by synchronous functions, and the writer takes all that is pending at once,
in the scheduler's next pass: the output of fifty callers in this pass is one write. A lone caller has no other to wait
for: `flush_or_schedule` offers its bytes to the socket at once. The writer is a task, which starts when output has to
wait for the first time. No other task waits for the socket to take bytes, so a cancelled one leaves no half frame
behind.

Callers whose answers came with one read go on in the same pass, and most of them call again. If the server has nothing
to do meanwhile, the first half of their requests leaves at once and the other half with the task (`flush_first_half`):
so the server works while they call, and its answers to each half come together again. If one of eight requests left at
once and seven in the next pass, their answers would take two reads as well, and the first would bring a single one.
"""

from __future__ import annotations

from collections.abc import Callable, Sized

import trio

from .connection_tasks import ConnectionTasks
from .frames import OutgoingFrames
from .role import Role
from .transport import Transport
from .waiter import Waiter

# Full buffers that one step may send.
_MAX_FLUSHES_PER_STEP = 4


class Writer:
    """Sends the output of one connection. In `taken` a task waits until there is less to send."""

    def __init__(
        self,
        outgoing: OutgoingFrames,
        transport: Transport,
        tasks: ConnectionTasks,
        role: Role,
        streams: Sized,
        on_failed: Callable[[BaseException], None],
    ) -> None:
        self.taken = Waiter()
        self._outgoing = outgoing
        self._transport = transport
        self._at_once = transport.at_once
        self._tasks = tasks
        self._role = role
        self._streams = streams
        self._on_failed = on_failed
        self._unwritten: bytes | memoryview = b""  # taken from the engine, but not yet sent
        self._has_work_left = False  # a step left work that there is room for
        self._is_closing = False
        self._has_task = False
        self._open_at_read = 0  # the streams that were open when the last read came
        self._waiter = Waiter()

    @property
    def is_pending(self) -> bool:
        """Whether any output waits to be written."""
        return self._outgoing.unsent > 0 or len(self._unwritten) > 0 or self._has_work_left

    def note_read(self) -> None:
        """Note that bytes have come, before any stream ends by them."""
        self._open_at_read = len(self._streams)

    def flush_or_schedule(self) -> None:
        """Send the output of the caller's step, which is complete: at once if no other stream is open."""
        # With more than one stream others are likely to send in this step, too: then one write takes all of it.
        self._flush_if(len(self._streams) < 2)

    def flush_after_read(self) -> None:
        """Send acknowledgements that a read provoked: with new requests, if the read may have woken several callers."""
        self._flush_if(len(self._streams) < 2 and self._open_at_read < 2)

    def flush_first_half(self) -> None:
        """Send the requests of this pass, which the peer waits for, once half of the expected callers have called.

        Expected are those whose streams were open when the last read came; a lone caller is one of one.
        """
        self._flush_if(2 * len(self._streams) >= self._open_at_read)

    def _flush_if(self, is_time: bool) -> None:
        if is_time and self._at_once and not self._is_closing:
            self.flush()
        else:
            self.write_soon()

    def write_soon(self) -> None:
        """Have the pending output sent in the scheduler's next pass."""
        if self._has_task:
            self._waiter.wake_if()
        elif self._tasks.may_start and self.is_pending:
            self._has_task = True
            self._tasks.start(self._run, name="writer")

    def continue_later(self) -> None:
        """Have the task go on in the scheduler's next pass, because this step left work."""
        self._has_work_left = True
        self.write_soon()

    def flush(self) -> None:
        """Offer the pending output to the transport, and leave to the task what it does not take at once."""
        if self._unwritten or not self._outgoing.unsent:
            return
        # The calls below may append more, which must not overtake this: so it counts as unwritten until it is sent.
        data = self._unwritten = self._outgoing.take()
        self._role.output_taken()  # may call `flush` again, which does nothing now
        if self.taken.until is not None:
            self.taken.wake_if()
        sent = self._transport.send_nowait(data)
        self._unwritten = memoryview(data)[sent:] if sent < len(data) else b""
        if self._unwritten or self._outgoing.unsent:
            self.write_soon()

    def close(self) -> None:
        """Accept no more output; the task ends the connection when it has written the rest."""
        self._is_closing = True
        self._has_work_left = False

    async def _run(self) -> None:
        while self._outgoing.unsent or self._unwritten or not self._is_closing:
            if self._has_work_left:
                self._has_work_left = False
                self._role.use_room()
            self._flush_repeatedly()
            if self._unwritten:
                try:
                    # Never in an RPC's task: if it were cancelled within a frame, the connection would be lost.
                    await self._transport.send_all(self._unwritten)
                except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                    return self._on_failed(error)
                self._unwritten = b""
            else:
                await self._waiter.wait(self._is_due)
                if self._outgoing.has_only_control and not self._is_closing:
                    # The read that provoked them may have woken callers, who call again in this pass.
                    await trio.lowlevel.checkpoint()
        self._tasks.cancel()

    def _flush_repeatedly(self) -> None:
        """Offer the pending output, and the output that then has room, a few times: other tasks have to run too."""
        for _ in range(_MAX_FLUSHES_PER_STEP):
            self.flush()
            if self._unwritten or self._has_work_left or not self._outgoing.unsent:
                return

    def _is_due(self) -> bool:
        # With the rest of another task's flush: later flushes leave it alone, so nobody else would send it.
        return bool(self._unwritten) or self._outgoing.unsent > 0 or self._has_work_left or self._is_closing
