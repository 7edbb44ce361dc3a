"""The reader takes a peer's bytes from the transport, through the engine, to the role that handles the events.

No step takes long, whatever the peer sends: the engine reads a few hundred frames at a time, and the reader takes a
checkpoint before the rest is read. It does not read while answers that the peer provoked wait to be written.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from .engine import Http2Engine
from .flood_guard import FloodGuard
from .options import WireOptions
from .role import Role
from .transport import Transport
from .writer import Writer

# Fewer frames of overhead are left for a later check, which costs the common read nothing.
_MAX_UNCHECKED_OVERHEAD = 30

# Of a peer that is gone: what it sent last is seldom behind more than this.
_MAX_LAST_STEPS = 4


class Reader:
    """Reads a connection: `run` until it ends, `take` for a task that reads instead (`inline_read.py`)."""

    def __init__(
        self,
        engine: Http2Engine,
        transport: Transport,
        writer: Writer,
        role: Role,
        options: WireOptions,
        now: Callable[[], float],
        on_lost: Callable[[BaseException | None], None],
        on_flood: Callable[[], None],
    ) -> None:
        self.transport = transport
        self.last_read = 0.0
        """The time when a byte last came, on Trio's clock."""
        self.last_size = 0
        """The number of bytes that came then."""
        self._engine = engine
        self._writer = writer
        self._role = role
        self._on_lost = on_lost  # called when the transport is gone; without an error the peer has closed it
        self._on_flood = on_flood  # called when the peer floods the connection
        self._control_bound = options.control_bound
        self._overhead_rate = options.overhead_rate
        self._flood_guard: FloodGuard | None = None  # made for the first overhead, which few connections ever have
        self._now = now
        self._is_closed = False

    async def run(self) -> None:
        """Read and handle until the connection has ended."""
        while not self._is_closed:
            if self._engine.unread:  # a leader may have left it, too
                await trio.lowlevel.checkpoint()
                if not self._is_closed:
                    self.take(b"")
            else:
                # A wait that is cancelled, here or below, has taken no bytes, so none can be lost.
                try:
                    data = await self.transport.receive()
                except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                    return self._on_lost(error)
                self.take(data)
            if not self._engine.unread and (meanwhile := self._role.before_read()) is not None:
                await meanwhile()
            # A peer that reads no acknowledgements would fill our memory with them (CVE-2019-9512).
            if self._is_provoked():
                await self._writer.taken.wait(lambda: not self._is_provoked() or self._is_closed)

    def take(self, data: bytes) -> None:
        """Handle the bytes of a read, as many as one step may. Empty `data` is the next step, or the end."""
        engine = self._engine
        # The clock is read once for the whole read, which is precise enough for keepalive and pauses.
        if data:
            self.last_read = self._now()
            self.last_size = len(data)
        elif not engine.unread:
            return self._on_lost(None)
        self._writer.note_read()
        self._role.handle(engine.receive(data))
        if engine.overhead > _MAX_UNCHECKED_OVERHEAD:
            self._check_overhead()
        if engine.outgoing.unsent:
            self._writer.flush_after_read()

    def take_now(self) -> None:
        """Take the bytes that have come, if there are any; no checkpoint."""
        try:
            data = self.transport.receive_nowait()
        except trio.BrokenResourceError as error:
            return self._on_lost(error)
        if data is not None:
            self.take(data)

    def take_rest(self) -> None:
        """Take the bytes that have come, in a few steps at most, from a transport that takes no more bytes."""
        for _ in range(_MAX_LAST_STEPS):
            if self._is_closed:
                return
            if self._engine.unread:
                self.take(b"")
            else:
                self.take_now()

    def close(self) -> None:
        """Read no more."""
        self._is_closed = True
        self._engine.unread = b""

    def is_behind(self) -> bool:
        """Return whether the reader's own task has to go on: bytes are unread, or must not be read yet."""
        return bool(self._engine.unread) or self._is_provoked()

    def _is_provoked(self) -> bool:
        """Return whether more answers that the peer provoked wait to be written than is allowed."""
        return self._engine.outgoing.control_unsent > self._control_bound

    def _check_overhead(self) -> None:
        engine = self._engine
        overhead, engine.overhead = engine.overhead, 0
        if self._flood_guard is None:
            self._flood_guard = FloodGuard(self._overhead_rate)
        # A connection that has ended by now keeps its first reason.
        if not self._flood_guard.admits(overhead, engine.outgoing.frames_sent, self.last_read) and not self._is_closed:
            self._on_flood()
