"""Simulated connections: bytes arrive in order after the latency of their link, or never.

An end is used by tasks, as a stream (`SimulatedStream`), or by plain functions (`Endpoint`). So a host that only
answers needs no task for each of its connections.
"""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Protocol, TypeAlias

import trio

from trxds.transport.transport import DirectStream

from .timeline import Timeline

Trace: TypeAlias = Callable[[bytes], object]
"""A function that records what arrives; no bytes are the end."""

CAPACITY = 64 * 1024  # bytes that an end may send before the other one reads


@dataclass(slots=True, eq=False)
class Link:
    """The way between a client and an address: `latency` is in seconds, one way, and up to `jitter` more at random.

    While it is `partitioned` bytes wait, as TCP's do, and connections are neither made nor refused. With a
    `connect_error`, a number of `errno`, connections fail with it.
    """

    latency: float = 0.0
    jitter: float = 0.0
    partitioned: bool = False
    connect_error: int = 0
    waiting: dict[Wire, None] = field(default_factory=dict)
    """The directions of connections, closed ones among them, on which bytes wait for the end of a partition."""

    def heal(self) -> None:
        """End the partition, and deliver what has waited."""
        self.partitioned, self.connect_error = False, 0
        waiting, self.waiting = self.waiting, {}
        for wire in waiting:
            wire.release()


class Endpoint(Protocol):
    """An end of a connection that plain functions use."""

    def receive(self, data: bytes) -> None:
        """Handle bytes from the other end."""

    def peer_closed(self) -> None:
        """The other end has closed, or the connection is broken."""


class Wire:
    """One direction of a connection. Bytes that were sent are delivered to `receiver`, in order."""

    def __init__(self, link: Link, timeline: Timeline, random: Random, trace: Trace) -> None:
        self.link = link
        self.receiver: Endpoint
        self.is_lost = False
        """Whether nothing is delivered any more, and the sender does not know it."""
        self._timeline = timeline
        self._random = random
        self._trace = trace
        self._last_arrival = -math.inf
        self._held: list[Callable[[], object]] = []

    def send(self, data: bytes) -> None:
        """Deliver `data` to the receiver after the link's latency."""
        self._deliver(partial(self._arrive, data))

    def close(self) -> None:
        """Tell the receiver, after all that was sent, that no more comes."""
        self._deliver(self._arrive_end)

    def release(self) -> None:
        """Deliver what was held while the link was partitioned."""
        held, self._held = self._held, []
        for each in held:
            self._deliver(each)

    def _deliver(self, arrival: Callable[[], object]) -> None:
        if self.link.partitioned:
            self._held.append(arrival)
            self.link.waiting[self] = None
            return
        latency = self.link.latency + (self.link.jitter and self._random.uniform(0, self.link.jitter))
        if latency <= 0 and not self._is_busy():
            arrival()
            return
        # TCP keeps the order, also where a later byte would be faster.
        self._last_arrival = max(self._last_arrival, trio.current_time() + latency)
        self._timeline.call_at(self._last_arrival, arrival)

    def _is_busy(self) -> bool:
        return self._last_arrival >= trio.current_time()

    def _arrive(self, data: bytes) -> None:
        if not self.is_lost:
            self._trace(data)
            self.receiver.receive(data)

    def _arrive_end(self) -> None:
        if not self.is_lost:
            self._trace(b"")
            self.receiver.peer_closed()


class SimulatedStream(DirectStream):
    """An end of a simulated connection that tasks use."""

    def __init__(self, outgoing: Wire) -> None:
        self.is_closed = False
        self.is_reset = False
        self.unread = 0
        """Bytes that this end has sent and the other end has not read."""
        self.peer: SimulatedStream | None = None  # if tasks use the other end too
        self.on_closed: Callable[[], object] = lambda: None
        self._outgoing = outgoing
        self._received: list[bytes] = []
        self._low_water = 1  # the bytes that make this end readable
        self._has_ended = False
        self._is_interrupted = False
        self._reader: trio.lowlevel.Task | None = None
        self._room = trio.lowlevel.ParkingLot()

    def __repr__(self) -> str:
        return f"<SimulatedStream {'reset' if self.is_reset else 'closed' if self.is_closed else 'open'}>"

    # -- sending

    def send_nowait(self, data: bytes) -> int:
        if self.is_closed or self.is_reset:
            return 0
        size = min(len(data), CAPACITY - self.unread)
        if size > 0:
            if self.peer is not None:
                self.unread += size
            self._outgoing.send(bytes(data[:size]))
        return max(0, size)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self.wait_send_all_might_not_block()
        rest = memoryview(data)
        while rest:
            rest = rest[self.send_nowait(rest) :]  # type: ignore[arg-type]
            if rest:
                await self._wait_room()

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()
        await self._wait_room()

    async def _wait_room(self) -> None:
        while self._check_open() and self.unread >= CAPACITY:
            await self._room.park()

    async def send_eof(self) -> None:
        self._check_open()
        self._outgoing.close()
        await trio.lowlevel.checkpoint()

    # -- receiving

    def receive(self, data: bytes) -> None:
        """Take in bytes from the other end."""
        if not (self.is_closed or self.is_reset):
            self._received.append(data)
            if self._is_readable():
                self._wake_reader()

    def peer_closed(self) -> None:
        """Note that the other end has closed."""
        self._has_ended = True
        self._wake_reader()

    def receive_nowait(self) -> bytes | None:
        self._check_open()
        if not self._received:
            return b"" if self._has_ended else None
        data = self._received[0] if len(self._received) == 1 else b"".join(self._received)
        self._received.clear()
        if self.peer is not None:
            self.peer.unread -= len(data)
            self.peer._room.unpark_all()
        return data

    async def readable(self) -> None:
        if self._is_readable():
            await trio.lowlevel.checkpoint()
            return
        if self._reader is not None:
            raise trio.BusyResourceError("another task is receiving")
        self._reader = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._abort)
        if self._is_interrupted:
            self._is_interrupted = False
            raise trio.ClosedResourceError("interrupted")

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while True:
            await self.readable()
            data = self.receive_nowait()
            if data is not None:
                if max_bytes is not None and len(data) > max_bytes:
                    self._received.insert(0, data[max_bytes:])
                    if self.peer is not None:
                        self.peer.unread += len(data) - max_bytes
                return data[:max_bytes]

    def set_low_water(self, size: int) -> None:
        self._low_water = size

    def _is_readable(self) -> bool:
        has_enough = sum(map(len, self._received)) >= self._low_water
        return has_enough or self._has_ended or self.is_reset or self.is_closed

    def interrupt(self) -> None:
        self._is_interrupted = self._reader is not None
        self._wake_reader()

    def _abort(self, _: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
        self._reader = None
        return trio.lowlevel.Abort.SUCCEEDED

    def _wake_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            trio.lowlevel.reschedule(reader)

    # -- the end

    async def aclose(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            if not self.is_reset:
                self._outgoing.close()
            self._wake_reader()
            self._room.unpark_all()
            self.on_closed()
        await trio.lowlevel.checkpoint()

    def reset(self) -> None:
        """Break the connection for this end, as a RST does."""
        self.is_reset = True
        self._wake_reader()
        self._room.unpark_all()

    def _check_open(self) -> bool:
        if self.is_closed:
            raise trio.ClosedResourceError("this end was closed")
        if self.is_reset:
            raise trio.BrokenResourceError from ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        return True
