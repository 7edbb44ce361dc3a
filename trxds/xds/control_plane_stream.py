"""One stream to an xDS server for ADS or LRS (A27), from its share of the connection to the reason of its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import trio

from trxds.core.metadata import Headers
from trxds.core.status import Status, StatusCode
from trxds.transport.client_stream import ClientStream
from trxds.transport.connection import Connection
from trxds.transport.request import Request

from .authorization import authorization
from .xds_channel import CONNECT_TIMEOUT, ConnectionRef, XdsChannel, refused, unusable

MAX_RESPONSE_SIZE = 1 << 30  # bytes: the control plane is trusted, and one message may have a whole mesh


@dataclass(frozen=True, slots=True)
class ControlPlaneStream:
    """A kind of stream on one xDS channel: `what` is "ADS" or "LRS", and `path` is its method.

    `remedy` is the advice against a server that does not have the method.
    """

    what: str
    path: str
    remedy: str
    line: XdsChannel

    async def hold(self, converse: Callable[[ClientStream], Awaitable[None]]) -> str:
        """Open a stream, call `converse` with it until that returns, and return the reason of the end."""
        # Tokens come before the connection, so that a missing one is not reported as a server that cannot be reached.
        tokens = await self._tokens()
        reason = tokens if isinstance(tokens, str) else await self._hold(tokens, converse)
        self.line.ended(reason)
        return reason

    async def _tokens(self) -> Headers | str:
        try:
            # A file system that hangs may delay the token for ever, and ADS must not wait without an error.
            with trio.fail_after(CONNECT_TIMEOUT):
                return await authorization(self.line.server)
        except trio.TooSlowError:
            return f"no token within {CONNECT_TIMEOUT:g} s; check the server's credentials in the bootstrap"
        except OSError as error:
            return refused(error)

    async def _hold(self, tokens: Headers, converse: Callable[[ClientStream], Awaitable[None]]) -> str:
        share = self.line.share()
        try:
            return await self._converse(share, tokens, converse)
        finally:
            share.leave()

    async def _converse(
        self, share: ConnectionRef, tokens: Headers, converse: Callable[[ClientStream], Awaitable[None]]
    ) -> str:
        connection = await share.connection()
        if not isinstance(connection, Connection):
            return connection
        # There must be no checkpoint since the connection had room: another stream could take it.
        stream = connection.open_stream(self._request(tokens))
        if stream is None:
            return unusable(connection)
        try:
            await converse(stream)
        finally:
            # This does not await, so a cancelled task does it too: the server need not wait for keepalive to notice.
            stream.cancel()
        return f"the {self.what} stream ended with {ended_with(stream.status, self.remedy)}"

    def _request(self, tokens: Headers) -> Request:
        address = self.line.server.address
        return Request(
            path=self.path,
            # As in grpc-go: many servers reject the path, which the C++ client puts here.
            authority="localhost" if address.startswith("unix:") else address,
            metadata=tokens,
            max_receive_size=MAX_RESPONSE_SIZE,
        )


def ended_with(status: Status | None, remedy: str) -> str:
    """Describe the status, with the remedy against a server that does not have the method."""
    lacking = status is not None and status.code is StatusCode.UNIMPLEMENTED
    return f"{status}; {remedy}" if lacking else str(status)
