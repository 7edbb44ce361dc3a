"""The connection to one xDS server that its ADS and LRS streams share, as in gRPC's other clients.

So the server, and any proxy before it, sees one peer. The first stream opens the connection and the last one closes
it. A stream that finds it lost, draining or full opens another one: with a server that allows one stream at a time, an
LRS stream would otherwise shut out ADS for ever.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeAlias

import trio

from trxds.core.connectivity import Connectivity
from trxds.core.lifetime import Hold, Lifetime
from trxds.transport.connect import Network, connect_error
from trxds.transport.connection import Connection
from trxds.transport.http_proxy import ProxyError
from trxds.transport.keepalive import Keepalive
from trxds.transport.options import WireOptions
from trxds.transport.subchannel_connections import ConnectionStats

from .bootstrap import ServerConfig

CONNECT_TIMEOUT = 20.0  # seconds, as for any gRPC connection
KEEPALIVE_TIME = 300.0  # seconds without a byte before a PING, as in gRPC's other xDS clients

CONNECT_TIMED_OUT = f"no connection within {CONNECT_TIMEOUT:g} s; check server_uri in the bootstrap and the network"

Start: TypeAlias = Callable[[Callable[[], Awaitable[None]], str], None]
"""Start a task with that name."""


class _SharedConnection:
    """A connection or the attempt at one, with the lifetime that its streams hold."""

    def __init__(self, name: str) -> None:
        self.lifetime = Lifetime(name)
        self.settled = trio.Event()
        self.connection: Connection | None = None
        self.failure = ""

    @property
    def is_open(self) -> bool:
        """Return whether the connection is ready or may become so."""
        if self.lifetime.ended or self.failure:
            return False
        return self.connection is None or self.connection.ready

    @property
    def is_usable(self) -> bool:
        """Return whether one more stream can use it."""
        return self.is_open and (self.connection is None or _has_room(self.connection))

    def settle(self, failure: str = "") -> None:
        self.failure = failure
        self.settled.set()


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
        self._shared: _SharedConnection | None = None

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection | str]:
        """Hold a connection for one stream, until the block ends; the last stream to leave closes it.

        Yields the connection once it is ready and has room for one more stream, or a text with its failure.
        """
        shared, hold = self._acquire_connection()
        try:
            await shared.settled.wait()
            # Two streams may have waited for one connection to a server that allows one stream; the second opens
            # another.
            while (found := shared.connection) is not None and not _has_room(found):
                hold.release()
                shared, hold = self._acquire_connection()
                await shared.settled.wait()
            yield found or shared.failure
        finally:
            hold.release()
            # Only now it is known whether the connection ends.
            if shared is self._shared and shared.lifetime.ended:
                self._set_state(Connectivity.READY if self._in_use else Connectivity.IDLE)

    def note_stream_end(self, reason: str) -> None:
        """Note that a stream ended for that reason."""
        # If another stream is open, only this one failed and not the channel.
        if not self._in_use and (self._shared is None or not self._shared.is_open):
            self._set_state(Connectivity.TRANSIENT_FAILURE, reason)

    def note_files(self, error: str) -> None:
        """Note the state of the files that stand in for a server: read, or with an error."""
        self._set_state(Connectivity.TRANSIENT_FAILURE if error else Connectivity.READY, error)

    def _acquire_connection(self) -> tuple[_SharedConnection, Hold]:
        if self._shared is not None and self._shared.is_usable:
            return self._shared, self._shared.lifetime.hold()
        shared = self._shared = _SharedConnection(self.uri)
        self._set_state(Connectivity.CONNECTING)
        self._start(partial(self._run_connection, shared), f"{self.kind}/{self.uri}/connection")
        return shared, shared.lifetime.initial_hold

    @property
    def _in_use(self) -> bool:
        """Return whether a stream uses one of the connections, even an older one that drains or is full."""
        return any(connection.streams for connection in self.traffic.connections)

    async def _run_connection(self, shared: _SharedConnection) -> None:
        # The attempt to connect is inside too, so it ends when no stream waits for it any more.
        with shared.lifetime.scope:
            transport = await self._connect()
            if isinstance(transport, str):
                shared.settle(transport)
            else:
                await self._run_transport(shared, transport)

    async def _connect(self) -> trio.abc.Stream | str:
        try:
            with trio.fail_after(CONNECT_TIMEOUT):
                return await self._network.connect(self.server.address)
        except trio.TooSlowError:
            return CONNECT_TIMED_OUT
        except OSError as error:
            return describe_connect_error(error)

    async def _run_transport(self, shared: _SharedConnection, transport: trio.abc.Stream) -> None:
        keepalive_probe = Keepalive(KEEPALIVE_TIME)
        connection = Connection(transport, peer=self.server.address, options=WireOptions(), keepalive=keepalive_probe)
        self.traffic.begin(connection)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.run, name=f"{self.kind}/{self.uri}/frames")
                # A TCP connection is not enough: a server that never sends SETTINGS is as bad as one that refuses it.
                with trio.move_on_after(CONNECT_TIMEOUT):
                    await connection.wait_ready()
                if connection.ready:
                    shared.connection = connection
                    self._set_state(Connectivity.READY)
                    shared.settle()
                else:
                    shared.settle(describe_unusable(connection))
                    nursery.cancel_scope.cancel(reason="it does not become ready")
        finally:
            self.traffic.end(connection)

    def _set_state(self, state: Connectivity, error: str = "") -> None:
        self.state, self.changed_at, self.error = state, trio.current_time(), error

    def __repr__(self) -> str:
        return f"<XdsChannel {self.kind}/{self.uri} {self.state.value}>"


def _has_room(connection: Connection) -> bool:
    """Return whether one more stream fits. If there is no other, it may wait for the server's limit to rise."""
    return len(connection.streams) < max(connection.streams.max_streams, 1)


def describe_connect_error(error: OSError) -> str:
    """Describe why there is no connection: a system error has a number, one of certificates or tokens has none."""
    cause = connect_error(error)
    if isinstance(cause, ProxyError):
        return str(cause)  # it says what to do, and the bootstrap has no part in it
    if getattr(cause, "errno", None) is None:
        return f"{cause}; check the server's credentials in the bootstrap"
    return f"{getattr(cause, 'strerror', None) or cause}; check that it runs, and server_uri in the bootstrap"


def describe_unusable(connection: Connection) -> str:
    """Describe why no stream can be opened on the connection."""
    cause = connection.error.message if connection.error else f"no HTTP/2 within {CONNECT_TIMEOUT:g} s"
    # Whoever shows the reason names the server.
    return f"{cause.removeprefix(f'{connection.peer}: ')}; check server_uri in the bootstrap"
