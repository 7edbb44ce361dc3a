"""One browser: it gets the feed's messages as fast as it shows them, and may ask where a call would go.

The page says which message it has shown. Only a few are on their way at a time, so what a slow browser misses piles up
nowhere: the feed keeps a bounded number of them for its viewer, and a snapshot in place of more.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection

from trxds.feed.lines import pieces
from trxds.feed.messages import Message
from trxds.ground.documents import parse_json

AHEAD = 2  # messages that the page has not shown yet
PATIENCE = 60.0  # seconds for the page to show one, until we take it for gone
LARGEST_QUESTION = 64 * 1024  # bytes

_GOING_AWAY = 1001
_POLICY_VIOLATION = 1008


Look: TypeAlias = Callable[[], AbstractAsyncContextManager[AsyncIterator[Message]]]
"""Opens a view of the feed: a snapshot, then changes, at its viewer's own pace."""

Ask: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Answers a question of the page."""


class Viewer:
    """`hello` is the first thing that the page is told; `ask` is asked one question at a time."""

    def __init__(self, socket: WebSocketConnection, look: Look, ask: Ask, hello: Mapping[str, Any]) -> None:
        self._socket = socket
        self._look = look
        self._ask = ask
        self._hello = hello
        self._credit = trio.Semaphore(AHEAD, max_value=AHEAD)
        self._asking = False

    async def run(self) -> None:
        """Until the page leaves, or shows nothing any more, or says what no page of ours says."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._tell, nursery.cancel_scope, name="live/tell")
                await self._listen(nursery)
                nursery.cancel_scope.cancel()
        except* ConnectionClosed:
            pass

    # -- to the page

    async def _tell(self, until: trio.CancelScope) -> None:
        await self._send({"hello": {**self._hello, "now": time.time()}})
        async with self._look() as view:
            while True:
                # First the credit, then the message: what is not taken yet can still become a snapshot.
                with trio.move_on_after(PATIENCE) as waiting:
                    await self._credit.acquire()
                if waiting.cancelled_caught:
                    await self._socket.aclose(_GOING_AWAY, f"the page has shown nothing for {PATIENCE:g} s")
                    return until.cancel()
                message = await anext(view, None)
                if message is None:
                    await self._socket.aclose(_GOING_AWAY, "there is nothing more to see")
                    return until.cancel()
                await self._show(message)

    async def _show(self, message: Message) -> None:
        """In pieces: ten thousand endpoints are not written in one breath."""
        written = bytearray()
        for piece in pieces(message):
            written += piece
            await trio.lowlevel.checkpoint()
        await self._socket.send_message(written.decode())

    async def _send(self, message: Mapping[str, Any]) -> None:
        await self._socket.send_message(json.dumps(message, separators=(",", ":"), ensure_ascii=False))

    # -- from the page

    async def _listen(self, nursery: trio.Nursery) -> None:
        while True:
            match _parsed(await self._socket.get_message()):
                case {"shown": int()} if self._credit.value < AHEAD:
                    self._credit.release()
                case {"explain": {"id": int(number)}} if self._asking:
                    await self._send({"explained": {"id": number, "error": "one question at a time, please"}})
                case {"explain": {"id": int(number)} as question}:
                    self._asking = True
                    nursery.start_soon(self._answer, number, question, name="live/explain")
                case _:
                    return await self._socket.aclose(_POLICY_VIOLATION, "this page may look and ask, no more")

    async def _answer(self, number: int, question: Mapping[str, Any]) -> None:
        try:
            told = await self._ask(question)
        finally:
            self._asking = False
        await self._send({"explained": {"id": number, **told}})


def _parsed(message: str | bytes) -> Any:
    try:
        return parse_json(message)
    except ValueError:
        return None
