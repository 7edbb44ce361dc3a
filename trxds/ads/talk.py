"""One stream to an xDS server, on a connection of its own: from dialling to why it ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import trio

from trxds.ground.connectivity import Connectivity
from trxds.ground.metadata import Headers
from trxds.wire.connect import Network, WireOptions, connect_error
from trxds.wire.connection import Connection
from trxds.wire.keepalive import Keepalive
from trxds.wire.request import Request
from trxds.wire.stream import ClientStream

from .authorization import authorization
from .bootstrap import ServerConfig
from .line import Line

CONNECT_WITHIN = 20.0  # seconds, as for any gRPC connection
QUIET = 300.0  # seconds without a byte before it is asked whether it lives, as in gRPC's other xDS clients
LARGEST_RESPONSE = 1 << 30  # bytes: the control plane is trusted, and a whole mesh comes in one message


@dataclass(frozen=True, slots=True)
class Talk:
    """`what` is the kind of stream, "ADS" or "LRS"; `path` is its method."""

    what: str
    server: ServerConfig
    network: Network
    path: str
    line: Line

    async def hold(self, converse: Callable[[ClientStream], Awaitable[None]]) -> str:
        """Connect, and `converse` over a stream until that returns; the value is why it ended."""
        self.line.become(Connectivity.CONNECTING, trio.current_time())
        reason = await self._hold(converse)
        self.line.become(Connectivity.TRANSIENT_FAILURE, trio.current_time(), reason)
        return reason

    async def _hold(self, converse: Callable[[ClientStream], Awaitable[None]]) -> str:
        try:
            with trio.fail_after(CONNECT_WITHIN):
                tokens = await authorization(self.server)
                transport = await self.network.connect(self.server.address)
        except trio.TooSlowError:
            return f"no connection within {CONNECT_WITHIN:g} s; check server_uri in the bootstrap and the network"
        except OSError as error:
            cause = connect_error(error)
            return f"{getattr(cause, 'strerror', None) or cause}; check that it runs, and server_uri in the bootstrap"
        reason = "cancelled"
        asking = Keepalive(QUIET, without_calls=True)
        connection = Connection(transport, peer=self.server.address, options=WireOptions(), keepalive=asking)
        self.line.traffic.begin(connection)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.run, name=f"{self.what.lower()}/{self.server.uri}/connection")
                reason = await self._converse_over(connection, tokens, converse)
                nursery.cancel_scope.cancel(reason=f"the {self.what} stream ended")
        finally:
            self.line.traffic.end(connection)
        return reason

    async def _converse_over(
        self, connection: Connection, tokens: Headers, converse: Callable[[ClientStream], Awaitable[None]]
    ) -> str:
        ready = False
        with trio.move_on_after(CONNECT_WITHIN):
            ready = await connection.wait_ready()
        stream = connection.open_stream(self._request(tokens)) if ready else None
        if stream is None:
            cause = connection.error.message if connection.error else f"no HTTP/2 within {CONNECT_WITHIN:g} s"
            return f"{cause}; check server_uri in the bootstrap"
        self.line.become(Connectivity.READY, trio.current_time())
        try:
            await converse(stream)
        finally:
            stream.cancel()
        return f"the {self.what} stream ended with {stream.status}"

    def _request(self, tokens: Headers) -> Request:
        address = self.server.address
        return Request(
            path=self.path,
            authority="localhost" if address.startswith("unix:") else address,
            metadata=tokens,
            max_receive_size=LARGEST_RESPONSE,
        )
