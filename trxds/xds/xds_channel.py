"""The way to one xDS server: a connection that the streams there share, for as long as there is one of them.

ADS and load reports go over one connection, as in gRPC's other clients: the server sees one peer, and so does
whatever stands before it. The first stream has it dialled, the last one ends it, and one that finds
it lost, draining or full has another dialled: a server that allows one stream at a time would otherwise
never hear of ADS again once load reports have come first.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

import trio

from trxds.core.connectivity import Connectivity
from trxds.core.lifetime import Hold, Lifetime
from trxds.transport.connect import Network, WireOptions, connect_error
from trxds.transport.connection import Connection
from trxds.transport.connection_stats import ConnectionStats
from trxds.transport.keepalive import Keepalive

from .bootstrap import ServerConfig

CONNECT_TIMEOUT = 20.0  # seconds, as for any gRPC connection
KEEPALIVE_TIME = 300.0  # seconds without a byte before it is asked whether it lives, as in gRPC's other xDS clients

KEEPALIVE_TIMEOUT = f"no connection within {CONNECT_TIMEOUT:g} s; check server_uri in the bootstrap and the network"

Start: TypeAlias = Callable[[Callable[[], Awaitable[None]], str], None]
"""Have a task run, by that name."""


class ConnectionRef:
    """One stream's share of a connection, from before it is dialled."""

    def __init__(self, line: XdsChannel) -> None:
        self._line = line
        self._dialled, self._hold = line._join()

    async def connection(self) -> Connection | str:
        """Once it is ready and has room for one stream more; a text says why there is none."""
        await self._dialled.answered.wait()
        # Two may have waited for one connection, to a server that allows one stream; the second has another dialled.
        while (found := self._dialled.connection) is not None and not _has_room(found):
            self._hold.release()
            self._dialled, self._hold = self._line._join()
            await self._dialled.answered.wait()
        return found or self._dialled.failure

    def leave(self) -> None:
        """Plain, and idempotent. The last one ends the connection."""
        self._hold.release()
        self._line._left(self._dialled)


class _SharedConnection:
    """A connection or the attempt at one, and who is on it."""

    def __init__(self, name: str) -> None:
        self.lifetime = Lifetime(name)
        self.answered = trio.Event()
        self.connection: Connection | None = None
        self.failure = ""

    @property
    def stands(self) -> bool:
        """It is ready or may become so."""
        if self.lifetime.ended or self.failure:
            return False
        return self.connection is None or self.connection.ready

    @property
    def usable(self) -> bool:
        """By one stream more."""
        return self.stands and (self.connection is None or _has_room(self.connection))

    def answer(self, failure: str = "") -> None:
        self.failure = failure
        self.answered.set()


class XdsChannel:
    """How the way to `server` stands, for who asks (A14): between two streams it is in TRANSIENT_FAILURE."""

    kind = "ads"

    def __init__(self, server: ServerConfig, network: Network, start: Start) -> None:
        self.server = server
        self.uri = server.uri
        self.state = Connectivity.IDLE
        self.error = ""  # why the last stream ended, until the next is up
        self.created_at = trio.current_time()
        self.changed_at = -math.inf  # when it came to its state, on Trio's clock
        self.traffic = ConnectionStats()
        self._network = network
        self._start = start
        self._dialled: _SharedConnection | None = None

    def share(self) -> ConnectionRef:
        """On the connection that there is, or on a new one. Plain."""
        return ConnectionRef(self)

    def ended(self, reason: str) -> None:
        """A stream has left because of that."""
        # With another stream there the way is not lost, only this one.
        if not self._in_use and (self._dialled is None or not self._dialled.stands):
            self._set_state(Connectivity.TRANSIENT_FAILURE, reason)

    def _join(self) -> tuple[_SharedConnection, Hold]:
        if self._dialled is not None and self._dialled.usable:
            return self._dialled, self._dialled.lifetime.hold()
        dialled = self._dialled = _SharedConnection(self.uri)
        self._set_state(Connectivity.CONNECTING)
        self._start(partial(self._live, dialled), f"{self.kind}/{self.uri}/connection")
        return dialled, dialled.lifetime.initial_hold

    def _left(self, dialled: _SharedConnection) -> None:
        if dialled is self._dialled and dialled.lifetime.ended:
            self._set_state(Connectivity.READY if self._in_use else Connectivity.IDLE)

    @property
    def _in_use(self) -> bool:
        """By a stream on one of the connections, which may be an older one that drains or is full."""
        return any(connection.stream_count for connection in self.traffic.connections)

    async def _live(self, dialled: _SharedConnection) -> None:
        # The dialling is in here too: it is given up when nobody waits for it any more.
        with dialled.lifetime.scope:
            transport = await self._connect()
            if isinstance(transport, str):
                dialled.answer(transport)
            else:
                await self._be(dialled, transport)

    async def _connect(self) -> trio.abc.Stream | str:
        try:
            with trio.fail_after(CONNECT_TIMEOUT):
                return await self._network.connect(self.server.address)
        except trio.TooSlowError:
            return KEEPALIVE_TIMEOUT
        except OSError as error:
            return refused(error)

    async def _be(self, dialled: _SharedConnection, transport: trio.abc.Stream) -> None:
        asking = Keepalive(KEEPALIVE_TIME, without_calls=True)
        connection = Connection(transport, peer=self.server.address, options=WireOptions(), keepalive=asking)
        self.traffic.begin(connection)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.run, name=f"{self.kind}/{self.uri}/frames")
                # To accept is not enough: a server that never sends its SETTINGS is as bad as one that refuses.
                with trio.move_on_after(CONNECT_TIMEOUT):
                    await connection.wait_ready()
                if connection.ready:
                    dialled.connection = connection
                    self._set_state(Connectivity.READY)
                    dialled.answer()
                else:
                    dialled.answer(unusable(connection))
                    nursery.cancel_scope.cancel(reason="it does not become ready")
        finally:
            self.traffic.end(connection)

    def _set_state(self, state: Connectivity, error: str = "") -> None:
        self.state, self.changed_at, self.error = state, trio.current_time(), error

    def __repr__(self) -> str:
        return f"<Line {self.kind}/{self.uri} {self.state.value}>"


def _has_room(connection: Connection) -> bool:
    """For one stream more; who is alone may wait for it."""
    return connection.stream_count < max(connection.streams.max_streams, 1)


def refused(error: OSError) -> str:
    """What the system refuses has a number; what certificates and tokens are refused for has none."""
    cause = connect_error(error)
    if getattr(cause, "errno", None) is None:
        return f"{cause}; check the server's credentials in the bootstrap"
    return f"{getattr(cause, 'strerror', None) or cause}; check that it runs, and server_uri in the bootstrap"


def unusable(connection: Connection) -> str:
    """Why no stream can be opened there."""
    cause = connection.error.message if connection.error else f"no HTTP/2 within {CONNECT_TIMEOUT:g} s"
    return f"{cause}; check server_uri in the bootstrap"
