"""The admin surface: one listener for tools that speak gRPC, for commands, and for the page in a browser.

    PRI * HTTP/2.0            gRPC: CSDS (A40), channelz (A14), health
    GET /                     the page
    GET /state                the state stream as a WebSocket for the page, as lines of JSON for commands
    GET /state?once=1         the snapshot alone
    GET /explain?method=...   where a call would go, see `explain_request`

HTTP/2 is recognized by its preface (RFC 9113 section 3.4). No request changes anything.
"""

from __future__ import annotations

import errno
import logging
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Protocol

import h11
import trio

from trxds.core.authority import join_address
from trxds.core.background_nursery import open_background_nursery
from trxds.core.metadata import Headers, find
from trxds.server.server import Server, ServerListener
from trxds.server.server_call import Handler
from trxds.server.server_limits import ServerLimits
from trxds.server.unix import unix_listener

from .access import AccessPolicy
from .address import Admin
from .channel_source import Source, XdsSource, channel_sources
from .grpc_services import grpc_handlers, guarded_handlers
from .http import HttpError, HttpRequest, error_response, new_connection, read_head, send_answer
from .http_service import HttpService
from .replay_stream import ReplayStream
from .state_stream.stream import open as open_state_stream

_log = logging.getLogger("trxds.admin")

MAX_CONNECTIONS = 64  # of all protocols together
MAX_HEAD_TIME = 10.0  # seconds for TLS, the preface, and the head of an HTTP/1.1 request
# Some connections stay free for clients that have the token: beyond these limits the oldest of the others is closed.
MAX_PENDING = 16  # until the token is seen, over HTTP/1.1 or in a protocol that is not known yet
_GRPC_LIMITS = ServerLimits(max_pending_connections=16)
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@asynccontextmanager
async def serve(
    *sources: Source | XdsSource, address: str | Admin = "127.0.0.1:0", network: ServerListener | None = None
) -> AsyncIterator[str]:
    """Serve these channels and shared xDS clients to operators while the block lasts; the value is the address.

    An exception of the block is raised as it is, not in a group.

    Args:
        sources: Channels of `open_channel`, and clients of `open_xds_client`.
        address: `127.0.0.1:9901`, port 0 for a free one, or `unix:/run/shop.sock`; an `Admin` has further options.
        network: It replaces sockets in tests.

    Raises:
        ValueError: Other machines can reach the address, and there is neither a token nor client certificates.
        OSError: The server cannot listen at the address.
    """
    admin = address if isinstance(address, Admin) else Admin(address)
    if admin.tls is not None:
        # The server's order decides. A browser offers both and can use HTTP/1.1 only; gRPC's clients offer h2 alone.
        admin.tls.set_alpn_protocols(["http/1.1", "h2"])
    listener, found = await _listen(admin, network)
    channels = {each.key: each.source for each in channel_sources(sources)}
    async with listener, open_state_stream(*channels.values(), metadata=admin.metadata) as states:
        access = AccessPolicy(admin)
        handlers = guarded_handlers(grpc_handlers(sources), access)
        connections = AdminConnections(access, handlers, HttpService(access, states, channels))
        async with open_background_nursery("the admin surface is closed") as nursery:
            serving = partial(trio.serve_listeners, connections.serve, [listener])
            nursery.start_soon(serving, name=f"admin/{found}")
            yield found


def page_url(address: str, token: str = "", *, tls: bool = False) -> str:
    """Return where a browser finds the page of an admin surface at that address; `tls` for a surface with TLS.

    The token follows the `#`, a part of the URL that browsers do not send. Raises `ValueError` for a unix socket.
    """
    if address.startswith("unix:"):
        raise ValueError(f"a browser cannot open {address!r}; serve the admin surface at 127.0.0.1:PORT")
    # A surface that listens everywhere is found on this machine at its loopback address.
    for everywhere, loopback in (("0.0.0.0:", "127.0.0.1:"), ("[::]:", "[::1]:")):
        if address.startswith(everywhere):
            address = loopback + address.removeprefix(everywhere)
    return f"http{'s' if tls else ''}://{address}/" + (f"#token={token}" if token else "")


async def _listen(admin: Admin, network: ServerListener | None) -> tuple[trio.abc.Listener[trio.abc.Stream], str]:
    if network is not None:
        return network.listen(admin.address), admin.address
    try:
        if admin.path:
            return await unix_listener(admin.path, private=True), admin.address
        [listener] = await trio.open_tcp_listeners(admin.port, host=admin.host)
    except OSError as error:
        raise OSError(error.errno, f"admin={admin.address!r}: {_listen_error(error)}") from error
    return listener, join_address(*listener.socket.getsockname()[:2])


def _listen_error(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            "a program that runs listens there already; take another address, or if it is this one, "
            "serve its channels together by trxds.admin.serve(one, other, address=...)"
        )
    return f"cannot listen there: {error.strerror or error}"


class HttpAnswers(Protocol):
    """The HTTP/1.1 side of an admin surface: it answers one request of a connection, or refuses it."""

    async def answer(self, http: h11.Connection, stream: ReplayStream, request: HttpRequest | HttpError) -> None: ...


class AdminConnections:
    """The connections of one admin surface, of every protocol. Its limits apply before the protocol is known."""

    def __init__(self, access: AccessPolicy, handlers: Mapping[str, Handler], http: HttpAnswers) -> None:
        self._access = access
        self._grpc = Server(handlers, remember_calls=False, limits=_GRPC_LIMITS)
        self._http = http
        self._count = 0
        self._pending: OrderedDict[trio.CancelScope, None] = OrderedDict()  # in order of age

    async def serve(self, transport: trio.abc.Stream) -> None:
        """Serve one connection to its end. An unexpected exception is logged and ends this connection alone."""
        self._count += 1
        try:
            async with transport:
                await self._serve(transport)
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has left
        except* Exception as errors:
            _log.error("a bug in trxds ends a connection to the admin surface; the channels go on", exc_info=errors)
        finally:
            self._count -= 1

    async def _serve(self, transport: trio.abc.Stream) -> None:
        if self._count > MAX_CONNECTIONS:
            refusal = HttpError(503, f"{MAX_CONNECTIONS} connections are open already; close one of them")
            return await send_answer(transport, error_response(refusal))
        stream = ReplayStream(self._encrypted(transport))
        http = new_connection()
        request: HttpRequest | HttpError | None = None
        with self._counted_as_pending() as scope:
            is_http2 = await _starts_with_preface(stream)
            stream.rewind(keep=not is_http2)
            if not is_http2:
                request = await read_head(http, stream)
            scope.deadline = math.inf
            if request is not None and not (isinstance(request, HttpRequest) and self._access.has_token(request)):
                return await self._http.answer(http, stream, request)
        if scope.cancelled_caught:
            return
        if is_http2:
            await self._grpc.serve_stream(stream, self._admits)
        elif request is not None:
            await self._http.answer(http, stream, request)

    @contextmanager
    def _counted_as_pending(self) -> Iterator[trio.CancelScope]:
        """Count a connection whose client has not shown the token, and close the oldest one if there are too many."""
        with trio.move_on_after(MAX_HEAD_TIME) as scope:
            self._pending[scope] = None
            if len(self._pending) > MAX_PENDING:
                self._pending.popitem(last=False)[0].cancel(reason="too many other clients have not shown the token")
            try:
                yield scope
            finally:
                self._pending.pop(scope, None)

    def _encrypted(self, transport: trio.abc.Stream) -> trio.abc.Stream:
        tls = self._access.admin.tls
        if tls is None:
            return transport
        return trio.SSLStream(transport, tls, server_side=True, https_compatible=True)

    def _admits(self, headers: Headers) -> bool:
        return self._access.admits((find(headers, b"authorization") or b"").decode("latin-1"))


async def _starts_with_preface(stream: ReplayStream) -> bool:
    """Read until it is certain whether the client speaks HTTP/2, and return that."""
    seen = b""
    while len(seen) < len(_PREFACE) and _PREFACE.startswith(seen):
        data = await stream.receive_some(len(_PREFACE) - len(seen))
        if not data:
            return False
        seen += data
    return seen == _PREFACE
