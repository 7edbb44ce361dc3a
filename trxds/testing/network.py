"""A network in memory, with the failures of a real one.

Its streams have bounded buffers, so that a peer that does not read is felt, and no clock of their
own, so that Trio's MockClock rules everything.
"""

from __future__ import annotations

import errno
import os
from collections import defaultdict

import trio

CAPACITY = 64 * 1024


class MemoryNetwork:
    """Listeners by address, and connections to them.

    `refuse`, `black_hole` and `restore` say what becomes of new connections to an address;
    `cut` breaks those that stand.
    """

    def __init__(self) -> None:
        self._listeners: dict[str, MemoryListener] = {}
        self._refused: set[str] = set()
        self._black_holes: set[str] = set()
        self._streams: defaultdict[str, list[MemoryStream]] = defaultdict(list)
        self.attempts: defaultdict[str, int] = defaultdict(int)
        """How often each address was asked for, whatever came of it."""

    def listen(self, address: str) -> MemoryListener:
        """Accept connections to `address`; `OSError` if somebody does already."""
        if address in self._listeners:
            raise OSError(errno.EADDRINUSE, f"{address}: {os.strerror(errno.EADDRINUSE)}")
        listener = self._listeners[address] = MemoryListener(self, address)
        return listener

    async def connect(self, address: str) -> trio.abc.Stream:
        """A stream to whoever listens at `address`; `ConnectionRefusedError` if nobody does."""
        self.attempts[address] += 1
        await trio.lowlevel.checkpoint()
        if address in self._black_holes:
            await trio.sleep_forever()
        listener = self._listeners.get(address)
        if listener is None or address in self._refused:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        ours, theirs = memory_stream_pair()
        self._streams[address] += (ours, theirs)
        listener.deliver(theirs)
        return ours

    def refuse(self, address: str) -> None:
        """New connections are refused, as if nobody listened."""
        self._refused.add(address)

    def black_hole(self, address: str) -> None:
        """New connections neither succeed nor fail."""
        self._black_holes.add(address)

    def restore(self, address: str) -> None:
        """New connections succeed again."""
        self._refused.discard(address)
        self._black_holes.discard(address)

    def cut(self, address: str) -> None:
        """Break every standing connection, for both of its ends."""
        for stream in self._streams.pop(address, []):
            stream.cut()

    def forget_listener(self, address: str) -> None:
        """Called by a listener that closes."""
        self._listeners.pop(address, None)


class MemoryListener(trio.abc.Listener["MemoryStream"]):
    """Made by `MemoryNetwork.listen`."""

    def __init__(self, network: MemoryNetwork, address: str) -> None:
        self.address = address
        self._network = network
        self._arrivals, self._queue = trio.open_memory_channel[MemoryStream](1000)

    def deliver(self, stream: MemoryStream) -> None:
        """Somebody connected."""
        self._arrivals.send_nowait(stream)

    async def accept(self) -> MemoryStream:
        return await self._queue.receive()

    async def aclose(self) -> None:
        self._network.forget_listener(self.address)
        self._arrivals.close()
        self._queue.close()
        await trio.lowlevel.checkpoint()


def memory_stream_pair(capacity: int = CAPACITY) -> tuple[MemoryStream, MemoryStream]:
    """Two ends of a connection; each holds at most `capacity` unread bytes of the other."""
    there, back = _Pipe(capacity), _Pipe(capacity)
    return MemoryStream(there, back), MemoryStream(back, there)


class MemoryStream(trio.abc.HalfCloseableStream):
    """One end of a connection in memory."""

    def __init__(self, outgoing: _Pipe, incoming: _Pipe) -> None:
        self._outgoing = outgoing
        self._incoming = incoming
        self._closed = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self._check_open()
        await self._outgoing.send(data)

    async def wait_send_all_might_not_block(self) -> None:
        self._check_open()
        await self._outgoing.wait_room()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        self._check_open()
        return await self._incoming.receive(max_bytes or CAPACITY)

    async def send_eof(self) -> None:
        self._outgoing.end()
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        self._closed = True
        self._outgoing.end()
        self._incoming.break_off()
        await trio.lowlevel.checkpoint()

    def cut(self) -> None:
        """The connection breaks; both ends see it."""
        self._outgoing.break_off()
        self._incoming.break_off()

    def _check_open(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError("this end was closed")


class _Pipe:
    """One direction of a connection."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._data = bytearray()
        self._ended = False
        self._broken = False
        self._changed = trio.lowlevel.ParkingLot()

    async def send(self, data: bytes | bytearray | memoryview) -> None:
        rest = memoryview(data)
        await trio.lowlevel.checkpoint()
        while rest:
            await self.wait_room()
            self._check_whole()
            room = self._capacity - len(self._data)
            self._data += rest[:room]
            rest = rest[room:]
            self._changed.unpark_all()

    async def wait_room(self) -> None:
        while len(self._data) >= self._capacity and not self._broken:
            await self._changed.park()

    async def receive(self, max_bytes: int) -> bytes:
        await trio.lowlevel.checkpoint()
        while not self._data and not self._ended and not self._broken:
            await self._changed.park()
        self._check_whole()
        data = bytes(self._data[:max_bytes])
        del self._data[:max_bytes]
        self._changed.unpark_all()
        return data

    def end(self) -> None:
        self._ended = True
        self._changed.unpark_all()

    def break_off(self) -> None:
        self._broken = True
        self._changed.unpark_all()

    def _check_whole(self) -> None:
        if self._broken:
            raise trio.BrokenResourceError from ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
