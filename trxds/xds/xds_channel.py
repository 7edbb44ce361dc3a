"""The connection to one xDS server that its ADS and LRS streams share, as in gRPC's other clients.

So the server, and any proxy before it, sees one peer. The first stream opens the connection and the last one closes
it. A stream that finds it lost, draining or full opens another one: with a server that allows one stream at a time, an
LRS stream would otherwise shut out ADS for ever.
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
KEEPALIVE_TIME = 300.0  # seconds without a byte before a PING, as in gRPC's other xDS clients

KEEPALIVE_TIMEOUT = f"no connection within {CONNECT_TIMEOUT:g} s; check server_uri in the bootstrap and the network"

Start: TypeAlias = Callable[[Callable[[], Awaitable[None]], str], None]
"""Start a task with that name."""


class ConnectionRef:
    """One stream's hold on a shared connection, from before it is connected."""

    def __init__(self, line: XdsChannel) -> None:
        self._line = line
        self._dialled, self._hold = line._join()

    async def connection(self) -> Connection | str:
        """Return the connection once it is ready and has room for one more stream, or a text with its failure."""
        await self._dialled.answered.wait()
        # Two streams may have waited for one connection to a server that allows one stream; the second opens another.
        while (found := self._dialled.connection) is not None and not _has_room(found):
            self._hold.release()
            self._dialled, self._hold = self._line._join()
            await self._dialled.answered.wait()
        return found or self._dialled.failure

    def leave(self) -> None:
        """Release the hold; the last one closes the connection. A second call changes nothing."""
        # The channel's state is set after the release: only then it is known whether the connection ends.
        self._hold.release()
        self._line._left(self._dialled)


class _SharedConnection:
    """A connection or the attempt at one, with the lifetime that its streams hold."""

    def __init__(self, name: str) -> None:
        self.lifetime = Lifetime(name)
        self.answered = trio.Event()
        self.connection: Connection | None = None
        self.failure = ""

    @property
    def stands(self) -> bool:
        """Return whether the connection is ready or may become so."""
        if self.lifetime.ended or self.failure:
            return False
        return self.connection is None or self.connection.ready

    @property
    def usable(self) -> bool:
        """Return whether one more stream can use it."""
        return self.stands and (self.connection is None or _has_room(self.connection))

    def answer(self, failure: str = "") -> None:
        self.failure = failure
        self.answered.set()


class XdsChannel:
    """The channel to the xDS server, as channelz shows it (A14): between two streams it is in TRANSIENT_FAILURE."""

    kind = "ads"

    def __init__(self, server: ServerConfig, network: Network, start: Start) -> None:
        self.server = server
        self.uri = server.uri
        self.state = Connectivity.IDLE
        self.error = ""  # the reason of the last stream's end, until the next one is open
        self.created_at = trio.current_time()
        self.changed_at = -math.inf  # the time of the last change of state, on Trio's clock
        self.traffic = ConnectionStats()
        self._network = network
        self._start = start
        self._dialled: _SharedConnection | None = None

    def share(self) -> ConnectionRef:
        """Return a hold on the present connection, or on a new one."""
        return ConnectionRef(self)

    def ended(self, reason: str) -> None:
        """Note that a stream ended for that reason."""
        # If another stream is open, only this one failed and not the channel.
        if not self._in_use and (self._dialled is None or not self._dialled.stands):
            self._set_state(Connectivity.TRANSIENT_FAILURE, reason)

    def _join(self) -> tuple[_SharedConnection, Hold]:
        if self._dialled is not None and self._dialled.usable:
            return self._dialled, self._dialled.lifetime.hold()
        dialled = self._dialled = _SharedConnection(self.uri)
        self._set_state(Connectivity.CONNECTING)
        self._start(partial(self._live, dialled), f"{self.kind}/{self.uri}/connection")
        return dialled, dialled.lifetime.maker

    def _left(self, dialled: _SharedConnection) -> None:
        if dialled is self._dialled and dialled.lifetime.ended:
            self._set_state(Connectivity.READY if self._in_use else Connectivity.IDLE)

    @property
    def _in_use(self) -> bool:
        """Return whether a stream uses one of the connections, even an older one that drains or is full."""
        return any(connection.stream_count for connection in self.traffic.connections)

    async def _live(self, dialled: _SharedConnection) -> None:
        # The attempt to connect is inside too, so it ends when no stream waits for it any more.
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
                # A TCP connection is not enough: a server that never sends SETTINGS is as bad as one that refuses it.
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
    """Return whether one more stream fits. If there is no other, it may wait for the server's limit to rise."""
    return connection.stream_count < max(connection.streams.max_streams, 1)


def refused(error: OSError) -> str:
    """Describe why there is no connection: a system error has a number, one of certificates or tokens has none."""
    cause = connect_error(error)
    if getattr(cause, "errno", None) is None:
        return f"{cause}; check the server's credentials in the bootstrap"
    return f"{getattr(cause, 'strerror', None) or cause}; check that it runs, and server_uri in the bootstrap"


def unusable(connection: Connection) -> str:
    """Describe why no stream can be opened on the connection."""
    cause = connection.error.message if connection.error else f"no HTTP/2 within {CONNECT_TIMEOUT:g} s"
    return f"{cause}; check server_uri in the bootstrap"
