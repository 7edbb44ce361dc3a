"""A `SimulatedNetwork` connects clients and hosts by links, and has the faults of a real network as calls.

Each client sees it by `of(client)`, so that a fault can concern one client, one address, or one client's way to one.
"""

from __future__ import annotations

import errno
import math
import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from random import Random
from typing import Any, TypeAlias

import trio
from msgspec import Struct

from trxds.testing.network import addresses_of

from .links import Endpoint, Link, SimulatedStream, Wire
from .timeline import Timeline

Accept: TypeAlias = Callable[["Connection"], Endpoint]
"""A function that is called for each new connection and returns the host's end of it."""


@dataclass(slots=True, eq=False)
class Connection:
    """A connection of a client to an address; `send` and `close` are the host's."""

    client: str
    address: str
    stream: SimulatedStream
    to_client: Wire
    to_host: Wire
    _on_end: Callable[[Connection], object]
    is_open: bool = True
    is_reset: bool = False
    host_end: Endpoint | None = None

    def send(self, data: bytes) -> None:
        """Send bytes to the client."""
        if self.is_open:
            self.to_client.send(data)

    def close(self) -> None:
        """Close the connection at the host."""
        if self.is_open:
            self.to_client.close()

    def reset(self) -> None:
        """Break the connection for both ends at once; what is on its way is lost."""
        self.is_reset = True
        self.lose()
        self.stream.reset()
        if isinstance(self.host_end, SimulatedStream):
            self.host_end.reset()
        elif self.host_end is not None:
            self.host_end.peer_closed()
        self.ended()

    def lose(self) -> None:
        """Deliver nothing any more, without an error for anybody: the connection is half-open."""
        self.to_client.is_lost = self.to_host.is_lost = True

    def ended(self) -> None:
        """Forget the connection: an end has closed it."""
        if self.is_open:
            self.is_open = False
            self._on_end(self)


class _Rule(Struct, frozen=True):
    """A change of the links of a client, to an address, or of all where these are None."""

    client: str | None
    address: str | None
    change: Callable[[Link], object]

    def concerns(self, client: str, address: str) -> bool:
        return self.client in (None, client) and self.address in (None, address)


@dataclass(slots=True, eq=False)
class Traffic:
    """What the network has carried: `digest` is over every byte, its time and its way."""

    opened: int = 0
    refused: int = 0
    attempts: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    hash: Any = field(default_factory=lambda: blake2b(digest_size=16))

    def record(self, way: str, data: bytes) -> None:
        self.hash.update(f"{trio.current_time()!r} {way} {len(data)}\n".encode())
        self.hash.update(data)

    @property
    def digest(self) -> str:
        """Return a text that is the same for the same traffic."""
        return str(self.hash.hexdigest())


class SimulatedNetwork:
    """The network of a simulation. `names` is its DNS, and `traffic` what it has carried."""

    def __init__(self, timeline: Timeline, random: Random, latency: float) -> None:
        self.names: dict[str, Sequence[str]] = {}
        self.traffic = Traffic()
        self._timeline = timeline
        self._random = random
        self._latency = latency
        self._accept: dict[str, Accept] = {}
        self._unreachable: set[str] = set()
        self._connections: defaultdict[str, dict[Connection, None]] = defaultdict(dict)
        # Half-open ones that their clients have closed, of which their hosts know nothing.
        self._abandoned: dict[Connection, None] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._rules: list[_Rule] = []
        self._changed = trio.lowlevel.ParkingLot()

    def __repr__(self) -> str:
        return f"<SimulatedNetwork {len(self._accept)} addresses, {len(self.connections())} connections>"

    def of(self, client: str) -> ClientNetwork:
        """Return the network as that client sees it, for `network=` of a channel."""
        return ClientNetwork(self, client)

    def connections(self, address: str | None = None, client: str | None = None) -> list[Connection]:
        """Return the open connections to an address and of a client, or of all where these are None."""
        groups = [self._connections.get(address, {})] if address is not None else list(self._connections.values())
        return [each for group in groups for each in group if client in (None, each.client)]

    # -- hosts

    def accept(self, address: str, accept: Accept) -> None:
        """Accept connections to `address`; `OSError` if it is in use."""
        if address in self._accept:
            raise OSError(errno.EADDRINUSE, f"{address}: {os.strerror(errno.EADDRINUSE)}")
        self._accept[address] = accept
        self._unreachable.discard(address)
        self._changed.unpark_all()

    def release(self, address: str) -> None:
        """Refuse connections to `address` from now on. Idempotent."""
        self._accept.pop(address, None)

    def listen(self, address: str) -> SimulatedListener:
        """Return a listener for a server that runs in tasks; `OSError` if the address is in use."""
        listener = SimulatedListener(self, address)
        self.accept(address, listener.deliver)
        return listener

    # -- clients

    # Not `connect`, because this is no network of a channel: that is what `of` returns.
    async def connect_from(self, client: str, address: str) -> SimulatedStream:
        """Connect a client; `OSError` if nobody listens, or a fault says so. Always a checkpoint."""
        self.traffic.attempts[address] += 1
        link = self._link(client, address)
        if link.latency:
            await trio.sleep(2 * link.latency)  # a SYN and its answer
        else:
            await trio.lowlevel.checkpoint()
        while link.partitioned or address in self._unreachable:
            await self._changed.park()
        accept = self._accept.get(address)
        if accept is None or link.connect_error:
            error = link.connect_error or errno.ECONNREFUSED
            self.traffic.refused += 1
            raise OSError(error, os.strerror(error))  # of the subclass that Python has for the number
        self.traffic.opened += 1
        return self._connect(link, client, address, accept)

    def _connect(self, link: Link, client: str, address: str, accept: Accept) -> SimulatedStream:
        record, ways = self.traffic.record, (f"{client} > {address}", f"{client} < {address}")
        there, back = (Wire(link, self._timeline, self._random, partial(record, way)) for way in ways)
        stream = SimulatedStream(there)
        connection = Connection(client, address, stream, back, there, self._forget)
        back.receiver = stream
        there.receiver = connection.host_end = accept(connection)
        if isinstance(connection.host_end, SimulatedStream):
            stream.peer, connection.host_end.peer = connection.host_end, stream
        self._connections[address][connection] = None
        stream.on_closed = connection.ended
        return stream

    def _forget(self, connection: Connection) -> None:
        self._connections[connection.address].pop(connection, None)
        if connection.to_host.is_lost and not connection.is_reset:
            self._abandoned[connection] = None

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        """Return the addresses of `host` in `names`; `OSError` if there are none. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        return addresses_of(self.names, host, port)

    # -- faults

    def slow(
        self, address: str | None = None, *, latency: float, jitter: float = 0.0, client: str | None = None
    ) -> None:
        """Set the latency of links, in seconds one way, and up to `jitter` more at random; open connections too."""

        def change(link: Link) -> None:
            link.latency, link.jitter = latency, jitter

        self._change(client, address, change)

    def partition(self, address: str | None = None, *, client: str | None = None) -> None:
        """Let no byte pass these links until `heal`; it waits, and new connections wait too."""
        self._change(client, address, _partition)

    def fail_connections(
        self, address: str | None = None, *, error: int = errno.ECONNREFUSED, client: str | None = None
    ) -> None:
        """Let new connections fail with this number of `errno` until `heal`: EMFILE, without file descriptors."""

        def change(link: Link) -> None:
            link.connect_error = error

        self._change(client, address, change)

    def heal(self, address: str | None = None, *, client: str | None = None) -> None:
        """End `partition` and `fail_connections` of these links: what has waited arrives."""
        self._change(client, address, Link.heal)
        self._changed.unpark_all()

    def reset(self, address: str | None = None, *, client: str | None = None) -> None:
        """Break connections for both ends, half-open ones too; they can be made again at once."""
        for each in (*self.connections(address, client), *self._abandoned):
            if address in (None, each.address) and client in (None, each.client):
                self._abandoned.pop(each, None)
                each.reset()

    def half_open(self, address: str | None = None, *, client: str | None = None) -> None:
        """Lose everything that is sent on open connections, without an error; new ones are not concerned."""
        for each in self.connections(address, client):
            each.lose()

    def has_half_open(self, address: str) -> bool:
        """Return whether a host has connections that are half-open, also such as their clients have closed."""
        lost = any(each.to_client.is_lost for each in self.connections(address))
        return lost or any(each.address == address for each in self._abandoned)

    def unplug(self, address: str) -> None:
        """Let a host vanish: its connections are half-open, and new ones neither succeed nor fail, until `accept`."""
        self.half_open(address)
        self.release(address)
        self._unreachable.add(address)

    def _change(self, client: str | None, address: str | None, change: Callable[[Link], object]) -> None:
        rule = _Rule(client, address, change)
        self._rules.append(rule)
        for key, link in self._links.items():
            if rule.concerns(*key):
                change(link)

    def _link(self, client: str, address: str) -> Link:
        link = self._links.get((client, address))
        if link is None:
            link = self._links[client, address] = Link(self._latency)
            for rule in self._rules:
                if rule.concerns(client, address):
                    rule.change(link)
        return link


def _partition(link: Link) -> None:
    link.partitioned = True


class ClientNetwork(Struct, frozen=True):
    """The network of one client."""

    network: SimulatedNetwork
    client: str

    async def connect(self, address: str) -> trio.abc.Stream:
        """Connect to `address`. Always a checkpoint."""
        return await self.network.connect_from(self.client, address)

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        """Return the addresses of `host`. Always a checkpoint."""
        return await self.network.resolve(host, port)


class SimulatedListener(trio.abc.Listener[SimulatedStream]):
    """A listener for a server that runs in tasks."""

    def __init__(self, network: SimulatedNetwork, address: str) -> None:
        self._network = network
        self._address = address
        self._arrivals, self._queue = trio.open_memory_channel[tuple[Connection, SimulatedStream]](math.inf)

    def deliver(self, connection: Connection) -> Endpoint:
        """Queue a new connection for `accept`."""
        stream = SimulatedStream(connection.to_client)
        self._arrivals.send_nowait((connection, stream))
        return stream

    async def accept(self) -> SimulatedStream:
        return (await self._queue.receive())[1]

    async def aclose(self) -> None:
        self._network.release(self._address)
        self._arrivals.close()
        # As the system does with connections that nobody has accepted.
        with suppress(trio.EndOfChannel, trio.WouldBlock, trio.ClosedResourceError):
            while True:
                self._queue.receive_nowait()[0].reset()
        self._queue.close()
        await trio.lowlevel.checkpoint()
