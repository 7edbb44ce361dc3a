"""`trxds live`: one page for several programs, which this command reads by their admin addresses.

A page may not open another program's WebSocket: each program lets in only its own page, and that keeps the sites out
that an operator's browser has open. So the browser talks to this command alone, and the command to the programs, as
the other commands do. It hands messages on unread, in both directions; the programs answer the page's questions and
pace themselves by its acknowledgements. The page always needs a token: a unix socket is for one user, and a port on
loopback is open to all users of the machine.

    GET /state               a WebSocket with the programs' names: {"programs": ["cart", "billing"]}
    GET /state?program=0     a WebSocket that is the first program's own; {"lost": WHY} for one that is not reached
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

import h11
import trio
from msgspec import Struct
from trio_websocket import (
    ConnectionClosed,
    ConnectionRejected,
    HandshakeError,
    WebSocketConnection,
    wrap_client_stream,
    wrap_server_stream,
)

from trxds.admin.access import SUBPROTOCOL, AccessPolicy, is_upgrade
from trxds.admin.address import Admin
from trxds.admin.http import HttpError, HttpRequest, error_response, response, send_answer
from trxds.admin.page.page_bundle import read_page_bundle
from trxds.admin.page.viewer import MAX_QUESTION_SIZE
from trxds.admin.replay_stream import ReplayStream
from trxds.admin.server import AdminConnections, page_url

from .access import Access
from .program import Program, UnreachableError, access_doubt, is_address

_MAX_MESSAGE_SIZE = 256 * 1024 * 1024  # bytes of a program's message; the snapshot of a large mesh has tens of millions
_MAX_REASON = 120  # bytes of a WebSocket's close reason, by RFC 6455 at most 123
_HANDSHAKE_TIMEOUT = 5.0  # seconds
_GOING_AWAY, _TRY_AGAIN = 1001, 1013


class NamedProgram(Struct, frozen=True):
    """A running program, with the name that it has on the page."""

    name: str
    program: Program


def named_programs(texts: Sequence[str], access: Access) -> tuple[NamedProgram, ...]:
    """Parse `ADDRESS` or `NAME=ADDRESS`. Raises `ValueError` for a malformed address and a name that is there twice."""
    found: dict[str, NamedProgram] = {}
    for text in texts:
        name, equals, address = text.partition("=")
        if not equals or text.startswith("unix:"):
            name = address = text
        if not is_address(address):
            raise ValueError(f"{address!r} is not unix:/path or host:port, as in cart=127.0.0.1:9901")
        # The page writes `cart: shop` for the channel shop of cart.
        if not name or ": " in name:
            raise ValueError(f"{name!r} is no name for a program; take one without a colon and a space")
        if name in found:
            first = found[name].program.address
            raise ValueError(f"two programs are called {name}; name them, as in a={first} b={address}")
        found[name] = NamedProgram(name, Program(address, access))
    return tuple(found.values())


@asynccontextmanager
async def serve_programs(programs: Sequence[NamedProgram], admin: Admin) -> AsyncIterator[str]:
    """Serve the page of these programs while the block lasts; the value is its URL. Raises `OSError`."""
    [listener] = await trio.open_tcp_listeners(admin.port, host=admin.host)
    host, port = listener.socket.getsockname()[:2]
    access = AccessPolicy(admin)
    connections = AdminConnections(access, {}, PageRelay(access, programs))
    async with listener, trio.open_nursery() as nursery:
        nursery.start_soon(partial(trio.serve_listeners, connections.serve, [listener]), name="live")
        yield page_url(f"{host}:{port}", admin.token)
        nursery.cancel_scope.cancel()


class PageRelay:
    """Answers one request of a connection: for the page, or for a WebSocket."""

    def __init__(self, access: AccessPolicy, programs: Sequence[NamedProgram]) -> None:
        self._access = access
        self._programs = programs
        self._page = read_page_bundle()

    async def answer(self, http: h11.Connection, stream: ReplayStream, request: HttpRequest | HttpError) -> None:
        """Answer a request whose head was read from `stream`, or refuse it."""
        refusal = request if isinstance(request, HttpError) else self._refusal(request)
        if refusal is not None:
            await send_answer(stream, error_response(refusal))
        elif isinstance(request, HttpRequest) and request.path == "/":
            head_only = request.method == "HEAD"
            await send_answer(stream, response(200, self._page.headers, self._page.body, head_only=head_only))
        elif isinstance(request, HttpRequest):
            stream.rewind()  # the WebSocket library wants to see the handshake itself
            await self._serve_web_socket(stream, request.query.get("program"))

    def _refusal(self, request: HttpRequest) -> HttpError | None:
        if request.path != "/state" or not is_upgrade(request):
            if (refusal := self._access.check_page(request)) is not None:
                return refusal
            return None if request.path == "/" else HttpError(404, "only the page is here; ask the programs themselves")
        if (refusal := self._access.check_web_socket(request)) is not None:
            return refusal
        number = request.query.get("program", "0")
        if not number.isdecimal() or int(number) >= len(self._programs):
            return HttpError(404, f"there is no program {number!r}; there are {len(self._programs)}, counted from 0")
        return None

    async def _serve_web_socket(self, stream: trio.abc.Stream, number: str | None) -> None:
        async with trio.open_nursery() as nursery:
            request = await wrap_server_stream(nursery, stream, max_message_size=MAX_QUESTION_SIZE)
            page = await request.accept(subprotocol=SUBPROTOCOL)
            if number is None:
                await self._tell_names(page)
            else:
                await _connect(page, self._programs[int(number)].program)
            nursery.cancel_scope.cancel()

    async def _tell_names(self, page: WebSocketConnection) -> None:
        try:
            await page.send_message(json.dumps({"programs": [each.name for each in self._programs]}))
            while True:
                await page.get_message()
        except ConnectionClosed:
            pass


async def _connect(page: WebSocketConnection, program: Program) -> None:
    """Hand messages on between the page and the program until one of them closes."""
    problem = ""
    try:
        async with await program.connect() as stream, trio.open_nursery() as nursery:
            socket = await _open(nursery, stream, program.access.token)
            nursery.start_soon(_hand_on, page, socket, nursery.cancel_scope, name="live/to program")
            await _hand_on(socket, page, nursery.cancel_scope)
    except* UnreachableError as errors:
        problem = str(_leaf(errors))
    except* (HandshakeError, h11.ProtocolError, trio.TooSlowError) as errors:  # by the library's reader, in the nursery
        problem = f"{program.address}: {_refusal(_leaf(errors), program.access, stream)}"
    if problem:
        with suppress(ConnectionClosed):
            # A close reason has no room for all of it, and the remedy is at its end.
            await page.send_message(json.dumps({"lost": problem}))
        await page.aclose(_TRY_AGAIN, _cut(problem))


async def _open(nursery: trio.Nursery, stream: trio.abc.Stream, token: str) -> WebSocketConnection:
    offers = [SUBPROTOCOL, *([f"token.{token}"] if token else [])]
    # The program lets in its own page, whose origin is the program's host: a browser cannot say that of another page.
    headers = [(b"origin", b"http://localhost")]
    # Any stream will do, whatever the type says.
    opening = partial(wrap_client_stream, nursery, stream, "localhost", "/state")  # type: ignore[arg-type]
    with trio.fail_after(_HANDSHAKE_TIMEOUT):
        return await opening(subprotocols=offers, extra_headers=headers, max_message_size=_MAX_MESSAGE_SIZE)


def _leaf(error: BaseException) -> BaseException:
    return _leaf(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _refusal(error: BaseException, access: Access, stream: trio.abc.Stream) -> str:
    if isinstance(error, ConnectionRejected):
        # The program's own words are about its page.
        return access.refusal if error.status_code == 401 else f"HTTP {error.status_code}"
    return f"no state stream there; is it the address of admin=, and {access_doubt(stream)}?"


async def _hand_on(source: WebSocketConnection, target: WebSocketConnection, until: trio.CancelScope) -> None:
    try:
        while True:
            await target.send_message(await source.get_message())
    except ConnectionClosed as closed:
        reason = closed.reason.reason if closed.reason is not None else None
        await target.aclose(_GOING_AWAY, _cut(reason or "the program has ended"))
    until.cancel()


def _cut(text: str) -> str:
    return text.encode()[:_MAX_REASON].decode(errors="ignore")
