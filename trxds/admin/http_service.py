"""The HTTP/1.1 side of the admin surface: the page, its WebSocket, and the JSON lines that commands read."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial

import h11
import trio

from .access import AccessPolicy, is_upgrade
from .channel_source import Source
from .explain_request import PARAMETERS as EXPLAIN_PARAMETERS
from .explain_request import answer_explain
from .http import HttpError, HttpRequest, error_response, response, send_answer, send_json_lines
from .page.explain_request import explain
from .page.page_bundle import PageBundle, read_page_bundle
from .page.resource_request import show_resource
from .page.viewer import serve_web_socket
from .replay_stream import ReplayStream
from .state_stream.json_lines import pieces
from .state_stream.messages import EVENTS, SECTIONS
from .state_stream.stream import StateStream
from .state_stream.subscription import Interest

_STATE_PARAMETERS = ("sections", "events", "once", "metadata")
_PARAMETERS = {"/": (), "/state": _STATE_PARAMETERS, "/explain": EXPLAIN_PARAMETERS}  # by path


class HttpService:
    """Answers one request of a connection, which then ends. `channels` has the channels by their keys."""

    def __init__(self, access: AccessPolicy, states: StateStream, channels: Mapping[str, Source]) -> None:
        self._access = access
        self._states = states
        self._channels = channels
        self._page: PageBundle | None = None  # read when a browser asks for it first

    async def answer(self, http: h11.Connection, stream: ReplayStream, request: HttpRequest | HttpError) -> None:
        """Answer a request whose head was read from `stream`, or refuse it."""
        refusal = request if isinstance(request, HttpError) else self._refusal(request)
        if refusal is not None:
            await send_answer(stream, error_response(refusal))
        elif isinstance(request, HttpRequest):
            await self._answer(http, stream, request)

    def _refusal(self, request: HttpRequest) -> HttpError | None:
        if request.path == "/state" and is_upgrade(request):
            return self._access.check_web_socket(request)
        check = self._access.check_command if request.path in ("/state", "/explain") else self._access.check_page
        if (refusal := check(request)) is not None:
            return refusal
        if request.path not in _PARAMETERS:
            return HttpError(404, f"there is no {request.path}; there are /, /state and /explain")
        return self._wrong_query(request)

    def _wrong_query(self, request: HttpRequest) -> HttpError | None:
        if request.path == "/":
            return None  # the page's own address may have any query
        known = _PARAMETERS[request.path]
        for name in request.query:
            if name not in known:
                return HttpError(400, f"there is no parameter {name!r}; there are {', '.join(known)}")
        try:
            self._interest(request)
        except ValueError as error:
            return HttpError(400, str(error))
        return None

    def _interest(self, request: HttpRequest) -> Interest:
        query = request.query
        sections, events = _names(query, "sections", SECTIONS), _names(query, "events", EVENTS)
        return self._states.interest(sections, events, query.get("metadata") == "1")

    async def _answer(self, http: h11.Connection, stream: ReplayStream, request: HttpRequest) -> None:
        if request.path == "/explain":
            await send_answer(stream, await answer_explain(self._channels, request.query))
        elif request.path == "/":
            page = self._page = self._page or read_page_bundle()
            await send_answer(stream, response(200, page.headers, page.body, head_only=request.method == "HEAD"))
        elif is_upgrade(request):
            stream.rewind()  # the WebSocket library wants to see the handshake itself
            subscribe = partial(self._states.subscribe, metadata=self._states.shows_metadata)
            answers = {"explain": partial(explain, self._channels), "resource": partial(show_resource, self._channels)}
            await serve_web_socket(stream, subscribe, answers)
        else:
            await self._send_state(http, stream, request)

    async def _send_state(self, http: h11.Connection, stream: ReplayStream, request: HttpRequest) -> None:
        stream.stop_remembering()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_at_end, stream, nursery.cancel_scope, name="admin/state/read")
            async with aclosing(self._lines(request)) as lines:
                await send_json_lines(http, stream, lines)
            nursery.cancel_scope.cancel()

    async def _lines(self, request: HttpRequest) -> AsyncGenerator[bytes, None]:
        interest = self._interest(request)
        if request.query.get("once") == "1":
            for piece in pieces({"number": 1, "snapshot": await self._states.snapshot(interest.sections)}):
                yield piece
            return
        subscribe = self._states.subscribe(
            sections=interest.sections, events=interest.events, metadata=interest.metadata
        )
        async with subscribe as subscription:
            async for message in subscription:
                for piece in pieces(message):
                    yield piece


def _names(query: dict[str, str], name: str, default: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(filter(None, query[name].split(","))) if name in query else default


async def _cancel_at_end(stream: trio.abc.ReceiveStream, scope: trio.CancelScope) -> None:
    """Cancel the scope when the client leaves. Without this a client that is sent nothing would be kept for ever."""
    while await stream.receive_some(1024):
        pass
    scope.cancel()
