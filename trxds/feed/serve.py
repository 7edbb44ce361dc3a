"""The feed for who is not in the program: lines of JSON over HTTP/1.1, at a unix socket or a port.

    GET /feed                                     a snapshot, then changes and events as they come
    GET /feed?sections=nodes,endpoints&events=    only these
    GET /feed?once=1                              the snapshot alone
    GET /explain?method=/shop.Cart/Add            where a call would go, see `explained`

Nobody can change anything by it.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial

import h11
import trio

from trxds.serving.unix import unix_listener

from . import http
from .address import Admin
from .explained import PARAMETERS as EXPLAIN
from .explained import Explaining, by_key, explained
from .feed import Feed, open
from .http import Asked, Refusal
from .lines import pieces
from .messages import EVENTS, SECTIONS

_log = logging.getLogger("trxds.feed")

MOST_AT_ONCE = 32  # who ask at the same time
_FEED = ("sections", "events", "once", "metadata")
_PARAMETERS = {"/": _FEED, "/feed": _FEED, "/explain": EXPLAIN}  # by path
_HELP = "trxds: GET /feed has what this program's channels do; `trxds lb`, `tap`, `sessions`, `xds` and `ruok` read it"


@asynccontextmanager
async def serve(*channels: Explaining, address: str, token: str = "", metadata: bool = False) -> AsyncIterator[str]:
    """Serve the feed of these channels while the block lasts; the value is the address, as commands take it.

    The arguments are those of `Admin`. Raises `ValueError` for an address or a token that is none, and `OSError`
    if nobody can listen there.
    """
    async with serve_at(Admin(address, token, metadata), *channels) as served:
        yield served


@asynccontextmanager
async def serve_at(admin: Admin, *channels: Explaining) -> AsyncIterator[str]:
    """As `serve`."""
    listener, address = await _listen(admin)
    async with listener, open(*channels, metadata=admin.metadata) as feed:
        async with trio.open_nursery() as nursery:
            guests = Guests(admin, feed, by_key(channels))
            nursery.start_soon(partial(trio.serve_listeners, guests.receive, [listener]), name=f"feed/{address}")
            failure: Exception | None = None
            try:
                yield address
            except Exception as error:
                failure = error
            nursery.cancel_scope.cancel(reason="the feed is closed")
        if failure is not None:
            raise failure


async def _listen(admin: Admin) -> tuple[trio.abc.Listener[trio.SocketStream], str]:
    try:
        if admin.path:
            return await unix_listener(admin.path, private=True), admin.address
        [listener] = await trio.open_tcp_listeners(admin.port, host=admin.host)
    except OSError as error:
        raise OSError(error.errno, f"admin={admin.address!r}: {_in_words(error)}") from error
    host, port = listener.socket.getsockname()[:2]
    return listener, f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _in_words(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            "a program that runs listens there already; take another address, or if it is this one, "
            "serve its channels together by trxds.feed.serve(one, other, address=...)"
        )
    return f"cannot listen there: {error.strerror or error}"


class Guests:
    """Who ask: each has one connection, one question and one answer."""

    def __init__(self, admin: Admin, feed: Feed, channels: Mapping[str, Explaining]) -> None:
        self._admin = admin
        self._feed = feed
        self._channels = channels
        self._count = 0

    async def receive(self, stream: trio.SocketStream) -> None:
        self._count += 1
        connection = http.connection()
        try:
            async with stream:
                asked = await http.read_head(connection, stream)
                if asked is not None:
                    await self._answer(connection, stream, asked)
        except* (trio.BrokenResourceError, trio.ClosedResourceError, h11.ProtocolError):
            pass  # they have left
        except* Exception as errors:
            _log.error("a bug in trxds ends an answer of the feed; the channels go on", exc_info=errors)
        finally:
            self._count -= 1

    async def _answer(self, connection: h11.Connection, stream: trio.SocketStream, asked: Asked | Refusal) -> None:
        refusal = asked if isinstance(asked, Refusal) else self._refuses(asked)
        if refusal is not None:
            await http.answer(connection, stream, refusal.status, refusal.reason)
        elif isinstance(asked, Asked) and asked.path == "/":
            await http.answer(connection, stream, 200, _HELP)
        elif isinstance(asked, Asked) and asked.path == "/explain":
            told = await explained(self._channels, asked.query)
            status, text = (told.status, told.reason) if isinstance(told, Refusal) else (200, told)
            await http.answer(connection, stream, status, text)
        elif isinstance(asked, Asked):
            await self._tell(connection, stream, asked)

    def _refuses(self, asked: Asked) -> Refusal | None:
        host = asked.headers.get("host", "")
        if not self._admin.knows(host):
            return Refusal(421, f"nothing for the host {host!r}; ask by the address")
        if "origin" in asked.headers:
            return Refusal(403, "this is for commands; pages of a browser have no business here")
        if not self._admin.admits(asked.headers.get("authorization", "")):
            return Refusal(401, "the token is missing or wrong; --token or TRXDS_ADMIN_TOKEN has it")
        if asked.path not in _PARAMETERS:
            return Refusal(404, f"there is no {asked.path}; there are /feed and /explain")
        if asked.method != "GET":
            return Refusal(405, f"{asked.method} changes nothing here; GET is all there is")
        if self._count > MOST_AT_ONCE:
            return Refusal(503, f"{MOST_AT_ONCE} ask already; end one of them")
        return self._unclear(asked)

    def _unclear(self, asked: Asked) -> Refusal | None:
        known = _PARAMETERS[asked.path]
        for name in asked.query:
            if name not in known:
                return Refusal(400, f"there is no parameter {name!r}; there are {', '.join(known)}")
        try:
            self._feed.interest(*_interest(asked))
        except ValueError as error:
            return Refusal(400, str(error))
        return None

    async def _tell(self, connection: h11.Connection, stream: trio.SocketStream, asked: Asked) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_until_gone, stream, nursery.cancel_scope, name="feed/listen")
            async with aclosing(self._lines(asked)) as lines:
                await http.answer_with(connection, stream, lines)
            nursery.cancel_scope.cancel()

    async def _lines(self, asked: Asked) -> AsyncGenerator[bytes, None]:
        sections, events, metadata = _interest(asked)
        if asked.query.get("once") == "1":
            for piece in pieces({"number": 1, "snapshot": await self._feed.snapshot(sections)}):
                yield piece
            return
        async with self._feed.view(sections=sections, events=events, metadata=metadata) as view:
            async for message in view:
                for piece in pieces(message):
                    yield piece


def _interest(asked: Asked) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    query = asked.query
    return _names(query, "sections", SECTIONS), _names(query, "events", EVENTS), query.get("metadata") == "1"


def _names(query: dict[str, str], name: str, default: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(filter(None, query[name].split(","))) if name in query else default


async def _until_gone(stream: trio.SocketStream, scope: trio.CancelScope) -> None:
    """Whoever has left may be quiet for ever, for there may be nothing to tell."""
    while await stream.receive_some(1024):
        pass
    scope.cancel()
