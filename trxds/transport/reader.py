"""What a peer says, from the transport to whoever handles it.

Nothing here takes long at once, whatever the peer says: the engine reads a few hundred frames at a time, and the reader
takes a checkpoint before it has the rest read. It reads nothing while what the peer has provoked is not written.
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

_LITTLE_OVERHEAD = 30  # frames, which are counted later


class Reader:
    """`run` reads until the connection is over; `take` is for a task that reads in its place (`inline_read.py`)."""

    def __init__(
        self,
        engine: Http2Engine,
        transport: Transport,
        writer: Writer,
        role: Role,
        options: WireOptions,
        now: Callable[[], float],
        lost: Callable[[BaseException | None], None],
        flooded: Callable[[], None],
    ) -> None:
        self.transport = transport
        self.last_read = 0.0
        """When a byte last came, on Trio's clock."""
        self._engine = engine
        self._writer = writer
        self._role = role
        self._lost = lost  # there is nothing more to read; without an error the peer has hung up
        self._flooded = flooded  # the peer says too much that says nothing
        self._control_bound = options.control_bound
        self._flood_guard = FloodGuard(options.overhead_rate)
        self._now = now
        self._closed = False

    async def run(self) -> None:
        while not self._closed:
            if self._engine.unread:  # also what a leader left
                await trio.lowlevel.checkpoint()
                if not self._closed:
                    self.take(b"")
            else:
                # Every wait below is for the peer or for the writer. A cancelled one has taken nothing.
                try:
                    data = await self.transport.receive()
                except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                    return self._lost(error)
                self.take(data)
            if not self._engine.unread and (meanwhile := self._role.before_read()) is not None:
                await meanwhile()
            # Acknowledgements of what a peer sends wait in our memory, if it reads none of them (CVE-2019-9512).
            if self.is_provoked:
                await self._writer.taken.wait(lambda: not self.is_provoked or self._closed)

    def take(self, data: bytes) -> None:
        """Handle what a read has brought, as much of it as one step may. Nothing for the next step, or at the end."""
        engine = self._engine
        # One look at the clock for a whole read: keepalive and moderation need no better one.
        if data:
            self.last_read = self._now()
        elif not engine.unread:
            return self._lost(None)
        self._role.handle(engine.receive(data))
        if engine.overhead > _LITTLE_OVERHEAD:
            self._check_overhead()
        if engine.outgoing.unsent:
            self._writer.wrote()

    def take_now(self) -> None:
        """Take what has come, if anything has; no checkpoint."""
        try:
            data = self.transport.receive_nowait()
        except trio.BrokenResourceError as error:
            return self._lost(error)
        if data is not None:
            self.take(data)

    def close(self) -> None:
        """Read nothing more."""
        self._closed = True
        self._engine.unread = b""

    @property
    def is_behind(self) -> bool:
        """Whether the reader's own task has to go on: something is left unread, or may not be read yet."""
        return bool(self._engine.unread) or self.is_provoked

    @property
    def is_provoked(self) -> bool:
        """Whether more than is allowed of what the peer has provoked is not yet written."""
        return self._engine.outgoing.control_unsent > self._control_bound

    def _check_overhead(self) -> None:
        engine = self._engine
        overhead, engine.overhead = engine.overhead, 0
        # Who has ended meanwhile needs no other reason.
        if not self._flood_guard.admits(overhead, engine.outgoing.frames_sent, self.last_read) and not self._closed:
            self._flooded()
