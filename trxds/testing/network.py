"""A `MemoryNetwork` is a network in memory, with the failures of a real one.

Its streams have bounded buffers, so that a peer that does not read blocks its sender, and no clock of their own, so
that Trio's MockClock controls everything.
"""

from __future__ import annotations

import errno
import operator
import os
import socket
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import trio

from trxds.core.authority import join_address

CAPACITY = 64 * 1024  # bytes


class MemoryNetwork:
    """A `MemoryNetwork` has listeners by address, and connections to them.

    `refuse`, `black_hole` and `restore` control new connections to an address; `cut`, `silence` and `inject` act on
    open ones. `names` is its DNS: `names["cart.example"] = ["10.0.0.1"]`.
    """

    def __init__(self) -> None:
        self._listeners: dict[str, MemoryListener] = {}
        self._refused: set[str] = set()
        self._black_holes: set[str] = set()
        # Both ends of each connection, as long as they are not closed; True for the client's end.
        self._ends: defaultdict[str, dict[MemoryStream, bool]] = defaultdict(dict)
        self.attempts: defaultdict[str, int] = defaultdict(int)
        """The number of connection attempts by address, whatever their result."""
        self.names: dict[str, Sequence[str]] = {}
        self.look_ups: defaultdict[str, int] = defaultdict(int)
        """The number of look-ups by name, found or not."""

    def listen(self, address: str) -> MemoryListener:
        """Return a listener at `address`; `OSError` if there is one already."""
        if address in self._listeners:
            raise OSError(errno.EADDRINUSE, f"{address}: {os.strerror(errno.EADDRINUSE)}")
        listener = self._listeners[address] = MemoryListener(self, address)
        return listener

    async def connect(self, address: str) -> trio.abc.Stream:
        """Connect to the listener at `address`; `ConnectionRefusedError` if there is none. Always a checkpoint."""
        self.attempts[address] += 1
        # A checkpoint first, as of a real socket, which never connects within one step.
        await trio.lowlevel.checkpoint()
        if address in self._black_holes:
            await trio.sleep_forever()
        listener = self._listeners.get(address)
        if listener is None or address in self._refused:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        ours, theirs = memory_stream_pair()
        self._register(address, ours, client=True)
        self._register(address, theirs, client=False)
        listener.deliver(theirs)
        return ours

    def _register(self, address: str, end: MemoryStream, *, client: bool) -> None:
        ends = self._ends[address]
        ends[end] = client
        end.on_closed = partial(ends.pop, end, None)

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        """Return the addresses of `host` in `names`; `OSError` if there are none. Always a checkpoint."""
        self.look_ups[host] += 1
        await trio.lowlevel.checkpoint()
        return addresses_of(self.names, host, port)

    def refuse(self, address: str) -> None:
        """Refuse new connections, as if there were no listener."""
        self._refused.add(address)

    def black_hole(self, address: str) -> None:
        """Let new connections neither succeed nor fail."""
        self._black_holes.add(address)

    def restore(self, address: str) -> None:
        """Accept new connections again."""
        self._refused.discard(address)
        self._black_holes.discard(address)

    def cut(self, address: str) -> None:
        """Break every open connection, for both of its ends."""
        for end in self._ends.pop(address, {}):
            end.cut()

    def silence(self, address: str) -> None:
        """Drop all data sent on open connections, without an error, as if the peer's host had vanished."""
        for end in self._ends[address]:
            end.silence()

    def inject(self, address: str, data: bytes) -> None:
        """Deliver bytes that nobody sent to every client connected to `address`."""
        for end, client in self._ends[address].items():
            if client:
                end.inject(data)

    def forget_listener(self, address: str) -> None:
        """Remove a listener, which calls this when it closes."""
        self._listeners.pop(address, None)


def addresses_of(names: Mapping[str, Sequence[str]], host: str, port: int) -> tuple[str, ...]:
    """Return the addresses of `host`; one may stand there as a text. `OSError` if there are none."""
    found = names.get(host)
    if not found:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    ips = (found,) if isinstance(found, str) else found
    return tuple(join_address(ip, port) for ip in ips)


class MemoryListener(trio.abc.Listener["MemoryStream"]):
    """A listener that `MemoryNetwork.listen` made."""

    def __init__(self, network: MemoryNetwork, address: str) -> None:
        self.address = address
        self._network = network
        self._arrivals, self._queue = trio.open_memory_channel[MemoryStream](1000)

    def deliver(self, stream: MemoryStream) -> None:
        """Queue a new connection for `accept`."""
        self._arrivals.send_nowait(stream)

    async def accept(self) -> MemoryStream:
        return await self._queue.receive()

    async def aclose(self) -> None:
        self._network.forget_listener(self.address)
        self._arrivals.close()
        self._queue.close()
        await trio.lowlevel.checkpoint()


def memory_stream_pair(capacity: int = CAPACITY) -> tuple[MemoryStream, MemoryStream]:
    """Return the two ends of a connection; each holds at most `capacity` unread bytes of the other."""
    there, back = _Pipe(capacity), _Pipe(capacity)
    return MemoryStream(there, back), MemoryStream(back, there)


class MemoryStream(trio.abc.HalfCloseableStream):
    """A `MemoryStream` is one end of a connection in memory."""

    def __init__(self, outgoing: _Pipe, incoming: _Pipe) -> None:
        self._outgoing = outgoing
        self._incoming = incoming
        self.on_closed: Callable[[], object] = lambda: None

    @property
    def closed(self) -> bool:
        """Return whether this end was closed."""
        return self._outgoing.sender_closed

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        with self._outgoing.one_sender:
            await self._outgoing.send(data)

    async def wait_send_all_might_not_block(self) -> None:
        with self._outgoing.one_sender:
            await self._outgoing.wait_room()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        with self._incoming.one_receiver:
            return await self._incoming.receive(CAPACITY if max_bytes is None else max_bytes)

    async def send_eof(self) -> None:
        with self._outgoing.one_sender:
            self._outgoing.end()
            await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        self._outgoing.close_sender()
        self._incoming.close_receiver()
        self.on_closed()
        await trio.lowlevel.checkpoint()

    def silence(self) -> None:
        """Drop all data that this end sends from now on."""
        self._outgoing.silenced = True

    def inject(self, data: bytes) -> None:
        """Deliver bytes to this end."""
        self._incoming.inject(data)

    def cut(self) -> None:
        """Break the connection; both ends get an error."""
        self._outgoing.cut()
        self._incoming.cut()


class _Pipe:
    """A `_Pipe` is one direction of a connection."""

    def __init__(self, capacity: int) -> None:
        self.one_sender = _OneTask("sending")
        self.one_receiver = _OneTask("receiving")
        self._capacity = capacity
        self._data = bytearray()
        self._ended = False  # the end of the stream follows the data
        self.sender_closed = False
        self.silenced = False
        self._receiver_closed = False
        self._cut = False
        self._changed = trio.lowlevel.ParkingLot()

    async def send(self, data: bytes | bytearray | memoryview) -> None:
        rest = memoryview(data)
        # Sending nothing is a checkpoint too, and finds a broken connection, as trio.SocketStream does.
        await self.wait_room()
        if self._ended:
            raise trio.ClosedResourceError("the end was sent already")
        # The data is lost and no error is raised: only a keepalive or TCP's own timeout notices a vanished peer.
        if self.silenced:
            return
        while rest:
            await self._wait_room()
            room = self._capacity - len(self._data)
            self._data += rest[:room]
            rest = rest[room:]
            self._changed.unpark_all()

    async def wait_room(self) -> None:
        await trio.lowlevel.checkpoint()
        await self._wait_room()

    async def _wait_room(self) -> None:
        while self._check_sender() and len(self._data) >= self._capacity:
            await self._changed.park()

    def _check_sender(self) -> bool:
        if self.sender_closed:
            raise trio.ClosedResourceError("this end was closed")
        if self._cut or self._receiver_closed:
            raise trio.BrokenResourceError from _reset()
        return True

    async def receive(self, max_bytes: int) -> bytes:
        if operator.index(max_bytes) < 1:
            raise ValueError("max_bytes must be >= 1")
        await trio.lowlevel.checkpoint()
        # Data that came before the end is delivered first; a broken connection loses it, as TCP does after a reset.
        while self._check_receiver() and not self._data and not self._ended:
            await self._changed.park()
        data = bytes(self._data[:max_bytes])
        del self._data[:max_bytes]
        self._changed.unpark_all()
        return data

    def _check_receiver(self) -> bool:
        if self._receiver_closed:
            raise trio.ClosedResourceError("this end was closed")
        if self._cut:
            raise trio.BrokenResourceError from _reset()
        return True

    def inject(self, data: bytes) -> None:
        self._data += data
        self._changed.unpark_all()

    def end(self) -> None:
        self._check_sender()
        self._ended = True
        self._changed.unpark_all()

    def close_sender(self) -> None:
        self.sender_closed = self._ended = True
        self._changed.unpark_all()

    def close_receiver(self) -> None:
        self._receiver_closed = True
        self._changed.unpark_all()

    def cut(self) -> None:
        self._cut = True
        self._changed.unpark_all()


class _OneTask:
    """`_OneTask` raises `BusyResourceError` for a second task that sends or receives, as Trio's streams do."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._busy = False

    def __enter__(self) -> None:
        if self._busy:
            raise trio.BusyResourceError(f"another task is {self._doing}")
        self._busy = True

    def __exit__(self, *_: object) -> None:
        self._busy = False


def _reset() -> ConnectionResetError:
    return ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
