"""One stream to an xDS server for ADS or LRS (A27), from its share of the connection to the reason of its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
from msgspec import Struct

from trxds.core.metadata import Headers
from trxds.core.status import Status, StatusCode
from trxds.transport.client_stream import ClientStream
from trxds.transport.connection import Connection
from trxds.transport.request import Request

from .authorization import fetch_authorization
from .bootstrap import ServerConfig
from .xds_channel import CONNECT_TIMEOUT, XdsChannel, describe_connect_error, describe_unusable

MAX_RESPONSE_SIZE = 1 << 30  # bytes: the control plane is trusted, and one message may have a whole mesh


class ControlPlaneStream(Struct, frozen=True):
    """A kind of stream on one xDS channel: `kind` is "ADS" or "LRS", and `path` is its method.

    `remedy` is the advice against a server that does not have the method.
    """

    kind: str
    path: str
    remedy: str
    xds_channel: XdsChannel

    async def run(self, run_stream: Callable[[ClientStream], Awaitable[None]]) -> str:
        """Open a stream, call `run_stream` with it until that returns, and return the reason of the end."""
        # Tokens come before the connection, so that a missing one is not reported as a server that cannot be reached.
        tokens = await self._fetch_tokens()
        reason = tokens if isinstance(tokens, str) else await self._run_on_connection(tokens, run_stream)
        self.xds_channel.note_stream_end(reason)
        return reason

    async def _fetch_tokens(self) -> Headers | str:
        try:
            # A file system that hangs may delay the token for ever, and ADS must not wait without an error.
            with trio.fail_after(CONNECT_TIMEOUT):
                return await fetch_authorization(self.xds_channel.server)
        except trio.TooSlowError:
            return f"no token within {CONNECT_TIMEOUT:g} s; check the server's credentials in the bootstrap"
        except OSError as error:
            return describe_connect_error(error)

    async def _run_on_connection(self, tokens: Headers, run_stream: Callable[[ClientStream], Awaitable[None]]) -> str:
        async with self.xds_channel.connection() as connection:
            if not isinstance(connection, Connection):
                return connection
            # There must be no checkpoint since the connection had room: another stream could take it.
            stream = connection.open_stream(build_request(self.xds_channel.server, self.path, tokens))
            if stream is None:
                return describe_unusable(connection)
            try:
                await run_stream(stream)
            finally:
                # Without an await, so a cancelled task does it too: the server need not wait for keepalive to notice.
                stream.cancel()
            return f"the {self.kind} stream ended with {describe_end(stream.status, self.remedy)}"


def build_request(server: ServerConfig, path: str, tokens: Headers) -> Request:
    """Return the request that opens a stream of the method `path` to the server."""
    # As in grpc-go: many servers reject the path of a socket, which the C++ client puts here.
    authority = "localhost" if server.address.startswith("unix:") else server.address
    return Request(path, authority, tokens, max_receive_size=MAX_RESPONSE_SIZE)


def describe_end(status: Status | None, remedy: str) -> str:
    """Describe the status, with the remedy against a server that does not have the method."""
    lacking = status is not None and status.code is StatusCode.UNIMPLEMENTED
    return f"{status}; {remedy}" if lacking else str(status)
