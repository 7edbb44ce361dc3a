"""The page on a port: who asks for `/` gets it, who opens `/feed` from it becomes a viewer."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import trio
from trio_websocket import wrap_server_stream

from trxds import __version__
from trxds.channel.beside import beside
from trxds.feed.http import Asked, Refusal, connection, read_head

from .access import PROTOCOL, Door, checked_token
from .document import Document, read_document
from .http import TwiceRead, answer, refused
from .viewer import LARGEST_QUESTION, Ask, Look, Viewer

MOST = 64  # connections at a time

_log = logging.getLogger("trxds.live")


@dataclass(frozen=True, slots=True)
class Page:
    """`url` opens the page; if a token is needed it is in there, behind the `#` that browsers keep to themselves."""

    url: str


class PageServer:
    """Answers one connection after the other; what goes wrong on one is no other's business."""

    def __init__(self, look: Look, ask: Ask, door: Door, document: Document) -> None:
        self._look = look
        self._ask = ask
        self._door = door
        self._document = document
        self._connections = 0

    async def serve(self, stream: trio.abc.Stream) -> None:
        """A bug in here costs one viewer his page, and never the program that is looked at."""
        self._connections += 1
        try:
            async with stream:
                await self._answer(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except Exception:
            _log.exception("a bug in trxds.live ended a viewer's connection")
        finally:
            self._connections -= 1

    async def _answer(self, stream: trio.abc.Stream) -> None:
        if self._connections > MOST:
            return await stream.send_all(refused(Refusal(503, f"{MOST} connections are open; close some pages")))
        read = TwiceRead(stream)
        asked = await read_head(connection(), read)
        match asked:
            case Refusal():
                await stream.send_all(refused(asked))
            case Asked(target="/feed"):
                read.again()
                await self._watch(read, asked)
            case Asked():
                await stream.send_all(self._page(asked))

    def _page(self, asked: Asked) -> bytes:
        if (refusal := self._door.refuses_page(asked)) is not None:
            return refused(refusal)
        if asked.path != "/":
            return refused(Refusal(404, "the page is at /"))
        return answer(200, self._document.headers, self._document.body, head_only=asked.method == "HEAD")

    async def _watch(self, stream: trio.abc.Stream, asked: Asked) -> None:
        if (refusal := self._door.refuses_feed(asked)) is not None:
            return await stream.send_all(refused(refusal))
        async with trio.open_nursery() as nursery:
            request = await wrap_server_stream(nursery, stream, max_message_size=LARGEST_QUESTION)
            socket = await request.accept(subprotocol=PROTOCOL)
            await Viewer(socket, self._look, self._ask, _hello()).run()
            nursery.cancel_scope.cancel()


def _hello() -> Mapping[str, Any]:
    """Which program this is, for who has two pages open."""
    return {"version": __version__, "program": os.path.basename(sys.argv[0]) or "python", "pid": os.getpid()}


@asynccontextmanager
async def serve_page(
    look: Look, ask: Ask, *, host: str, port: int, token: str | None, names: Iterable[str]
) -> AsyncIterator[Page]:
    """The page for what `look` opens, while the block lasts; see `trxds.live.serve`."""
    listeners = await trio.open_tcp_listeners(port, host=host)
    try:
        addresses = [listener.socket.getsockname()[:2] for listener in listeners]
        token = checked_token(token, host, [address for address, _ in addresses])
        door = Door(frozenset({"localhost", host.lower(), *(name.lower() for name in names)}), token)
        server = PageServer(look, ask, door, read_document())
        serving = partial(trio.serve_listeners, server.serve, listeners)
        async with beside("the live page", {"live/page": serving}, lambda error: None):
            yield Page(_url(addresses, token))
    finally:
        for listener in listeners:
            listener.socket.close()


def _url(addresses: Sequence[tuple[str, int]], token: str | None) -> str:
    host, port = addresses[0]
    # Who listens everywhere is found on this machine at its loopback address.
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{host}:{port}/" + (f"#token={token}" if token else "")
