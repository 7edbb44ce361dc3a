"""One browser: it receives the state stream's messages as fast as it shows them, and may ask where a call would go.

The page acknowledges the messages that it has shown. Only a few are sent ahead, so nothing piles up for a slow browser:
its subscription keeps a bounded number of messages, and a snapshot in place of more.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_server_stream

from trxds.core.json_parse import parse_json
from trxds.core.version import VERSION

from ..access import SUBPROTOCOL
from ..state_stream.json_lines import pieces
from ..state_stream.messages import Message

MAX_UNSHOWN = 2  # messages that the page has not shown yet
SHOW_TIMEOUT = 60.0  # seconds for the page to show one, until we take it for gone
MAX_QUESTION_SIZE = 64 * 1024  # bytes

_GOING_AWAY = 1001
_POLICY_VIOLATION = 1008


OpenSubscription: TypeAlias = Callable[[], AbstractAsyncContextManager[AsyncIterator[Message]]]
"""Opens a subscription to the state stream: a snapshot, then changes, at its viewer's own pace."""

Answer: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Answers a question of the page."""


class Viewer:
    """The connection of one page.

    `hello` is its first message. `answers` has a function for each kind of question, `explain` and `resource`; one
    question is answered at a time.
    """

    def __init__(
        self,
        socket: WebSocketConnection,
        subscribe: OpenSubscription,
        answers: Mapping[str, Answer],
        hello: Mapping[str, Any],
    ) -> None:
        self._socket = socket
        self._subscribe = subscribe
        self._answers = answers
        self._hello = hello
        self._credit = trio.Semaphore(MAX_UNSHOWN, max_value=MAX_UNSHOWN)
        self._asking = False

    async def run(self) -> None:
        """Serve the page until it leaves, stops showing messages, or sends a message that our page never sends."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write, nursery.cancel_scope, name="admin/page/write")
                await self._read(nursery)
                nursery.cancel_scope.cancel()
        except* ConnectionClosed:
            pass

    # -- to the page

    async def _write(self, until: trio.CancelScope) -> None:
        await self._send({"hello": {**self._hello, "now": time.time()}})
        async with self._subscribe() as subscription:
            while True:
                # First the credit, then the message: what is not taken yet can still become a snapshot.
                with trio.move_on_after(SHOW_TIMEOUT) as waiting:
                    await self._credit.acquire()
                if waiting.cancelled_caught:
                    await self._socket.aclose(_GOING_AWAY, f"the page has shown nothing for {SHOW_TIMEOUT:g} s")
                    return until.cancel()
                message = await anext(subscription, None)
                if message is None:
                    await self._socket.aclose(_GOING_AWAY, "there is nothing more to see")
                    return until.cancel()
                await self._show(message)

    async def _show(self, message: Message) -> None:
        """Send a message in pieces: ten thousand endpoints written at once would hold up RPCs."""
        written = bytearray()
        for piece in pieces(message):
            written += piece
            await trio.lowlevel.checkpoint()
        await self._socket.send_message(written.decode())

    async def _send(self, message: Mapping[str, Any]) -> None:
        # In ASCII: an answer may quote half of a surrogate pair from a question, and UTF-8 has none.
        await self._socket.send_message(json.dumps(message, separators=(",", ":")))

    # -- from the page

    async def _read(self, nursery: trio.Nursery) -> None:
        while True:
            match _parsed(await self._socket.get_message()):
                case {"shown": int()} if self._credit.value < MAX_UNSHOWN:
                    self._credit.release()
                case {"explain": {"id": int(number)} as question}:
                    await self._ask(nursery, "explain", "explained", number, question)
                case {"resource": {"id": int(number)} as question}:
                    await self._ask(nursery, "resource", "resource", number, question)
                case _:
                    return await self._socket.aclose(_POLICY_VIOLATION, "this page may look and ask, no more")

    async def _ask(
        self, nursery: trio.Nursery, kind: str, answer: str, number: int, question: Mapping[str, Any]
    ) -> None:
        if self._asking:
            return await self._send({answer: {"id": number, "error": "one question at a time, please"}})
        self._asking = True
        nursery.start_soon(self._answer, kind, answer, number, question, name=f"admin/page/{kind}")

    async def _answer(self, kind: str, answer: str, number: int, question: Mapping[str, Any]) -> None:
        try:
            found = await self._answers[kind](question)
        finally:
            self._asking = False
        await self._send({answer: {"id": number, **found}})


async def serve_web_socket(stream: trio.abc.Stream, subscribe: OpenSubscription, answers: Mapping[str, Answer]) -> None:
    """Serve one page on a stream whose first bytes are the WebSocket's handshake."""
    async with trio.open_nursery() as nursery:
        request = await wrap_server_stream(nursery, stream, max_message_size=MAX_QUESTION_SIZE)
        socket = await request.accept(subprotocol=SUBPROTOCOL)
        await Viewer(socket, subscribe, answers, _hello(answers)).run()
        nursery.cancel_scope.cancel()


def _hello(answers: Mapping[str, Answer]) -> Mapping[str, Any]:
    """Return the first message. It names the program, and the questions that this version of it answers."""
    program = os.path.basename(sys.argv[0]) or "python"
    return {"version": VERSION, "program": program, "pid": os.getpid(), "answers": list(answers)}


def _parsed(message: str | bytes) -> Any:
    try:
        return parse_json(message)
    except ValueError:
        return None
