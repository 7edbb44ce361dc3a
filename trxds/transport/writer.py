"""What a connection has to say, on its way to the transport.

Everybody appends to the engine's output by plain functions, and the writer takes everything that is
pending in one go, in the scheduler's next pass: what fifty callers have said in this one is one write. A
caller that is alone has nobody to wait for: `wrote` offers its bytes to the socket at once. The writer is a task, and
begins when something has to wait for the first time. No other task waits for the socket to take bytes, so one that
is cancelled leaves no half frame behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sized

import trio

from .connection_tasks import ConnectionTasks
from .outgoing_frames import OutgoingFrames
from .role import Role
from .transport import Transport
from .waiter import Waiter

_BURST = 4  # so many full buffers may leave in one step


class Writer:
    """The one that sends. `taken` is for a task that waits until there is less to send."""

    def __init__(
        self,
        outgoing: OutgoingFrames,
        transport: Transport,
        tasks: ConnectionTasks,
        role: Role,
        streams: Sized,
        lost: Callable[[BaseException | None], None],
    ) -> None:
        self.taken = Waiter()
        self._outgoing = outgoing
        self._transport = transport
        self._tasks = tasks
        self._role = role
        self._streams = streams
        self._lost = lost
        self._unwritten: bytes | memoryview = b""  # taken from the engine; only the task may wait with it
        self._behind = False  # something is left of what there is room for
        self._closing = False
        self._has_task = False
        self._waiter = Waiter()

    @property
    def is_pending(self) -> bool:
        """Whether anything waits to be written."""
        return self._outgoing.unsent > 0 or len(self._unwritten) > 0 or self._behind

    def wrote(self) -> None:
        """The caller's step has appended all that it has to say."""
        # With two streams or more others are likely to speak in this step, too: all that is one write then.
        if self._transport.at_once and len(self._streams) < 2 and not self._closing:
            self.flush()
        else:
            self.write_soon()

    def write_soon(self) -> None:
        """Have what is pending go out in the scheduler's next pass."""
        if self._has_task:
            self._waiter.wake_if()
        elif self._tasks.may_start and self.is_pending:
            self._has_task = True
            self._tasks.start(self._run, name="writer")

    def left_behind(self) -> None:
        """A step's worth was done and there is more: the task goes on in the scheduler's next pass."""
        self._behind = True
        self.write_soon()

    def flush(self) -> None:
        """Offer what is pending to the transport; what that does not take at once is the task's."""
        if self._unwritten or not self._outgoing.unsent:
            return
        # What follows may append more, and must not overtake this: so it counts as unwritten until it is sent.
        data = self._unwritten = self._outgoing.take()
        self._role.output_taken()  # which may call us again: for nothing, as long as there is something unwritten
        if self.taken.until is not None:
            self.taken.wake_if()
        sent = self._transport.send_nowait(data)
        self._unwritten = memoryview(data)[sent:] if sent < len(data) else b""
        if self._unwritten or self._outgoing.unsent:
            self.write_soon()

    def close(self) -> None:
        """Nothing new is said any more; the task ends the connection when it has written the rest."""
        self._closing = True
        self._behind = False

    async def _run(self) -> None:
        while self._outgoing.unsent or self._unwritten or not self._closing:
            if self._behind:
                self._use_room()
            self._flush_much()
            if self._unwritten:
                try:
                    # No RPC's task does that: cancelled in the middle of a frame it would cost the connection.
                    await self._transport.send_all(self._unwritten)
                except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                    return self._lost(error)
                self._unwritten = b""
            else:
                await self._waiter.wait(self._is_due)
        self._tasks.scope.cancel()

    def _use_room(self) -> None:
        self._behind = False
        self._role.use_room()

    def _flush_much(self) -> None:
        """Offer what is pending, and what then has room; not for ever, as others want to run."""
        for _ in range(_BURST):
            self.flush()
            if self._unwritten or self._behind or not self._outgoing.unsent:
                return

    def _is_due(self) -> bool:
        return self._outgoing.unsent > 0 or self._behind or self._closing
