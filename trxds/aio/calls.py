"""This file has the calls and methods of a channel for asyncio: those of `trxds`, handed over to Trio's thread."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar, Unpack, cast

import trxds
from trxds.client.call_protocol import CallOptions
from trxds.client.method import check_requests, receive_only_reply, send_all, streams_replies_error, swallowed_error
from trxds.core.status import CANCELLED
from trxds.portal.receive_buffer import MAX_MESSAGES, ReceiveBuffer
from trxds.portal.send_buffer import SendBuffer, send_buffer
from trxds.portal.views import CallView, View

from .hand_over import ContextBridge, HandOver, let_others_run, receive_while_sending

Req = TypeVar("Req")
Res = TypeVar("Res")


class Call(CallView[HandOver], trxds.CallProtocol[Req, Res]):
    """An open call; see `trxds.Call`. One task may send while another receives, in the loop that opened the call.

    A task that is cancelled in `receive` loses no message: the next `receive` returns it.
    """

    def __init__(self, hand_over: HandOver, call: trxds.Call[Req, Res]) -> None:
        super().__init__(hand_over, call)
        self._received: ReceiveBuffer[Res] = ReceiveBuffer(call)
        self._quick_receives = MAX_MESSAGES  # that may follow before other tasks have to run
        self._outgoing: SendBuffer[Req] | None = send_buffer(call)
        self._is_cancelled = False

    async def send(self, request: Req, *, compress: bool = True) -> bool:
        """Send one message; return False if the server has ended the call; see `trxds.Call.send`.

        It waits while flow control or the socket's buffer has no room. While they have, up to 64 small messages go to
        Trio's thread together, at the next turn of the event loop.
        """
        outgoing = self._outgoing
        if outgoing is None:
            return await self._hand_over.wait(partial(self._wrapped.send, request, compress=compress))
        self._hand_over.check_can_wait()
        # In this task, because the caller may change the message after this.
        serialized = outgoing.serialize(request)
        if self._is_cancelled or not outgoing.put(serialized, compress=compress):
            return await self._hand_over.wait(partial(outgoing.send, serialized, compress=compress))
        outgoing.call(self._hand_over.start_task)
        return True

    def done_sending(self) -> None:
        """Close this side of the call: no more messages follow."""
        if self._outgoing is None:
            return self._hand_over.call_soon(self._wrapped.done_sending)
        self._hand_over.check_can_wait()
        self._outgoing.end()
        self._outgoing.call(self._hand_over.start_task)

    async def _wait_sent(self) -> None:
        """Wait until windows and buffer have taken all messages, before the call's block is left."""
        if self._outgoing is not None and not self._outgoing.is_empty:
            with suppress(Exception):  # the channel's end: the block is left as it is without messages
                await self._hand_over.wait(self._outgoing.wait_taken)

    async def receive(self) -> Res | None:
        """Return the next message; None when the server has ended the call with OK; see `trxds.Call.receive`."""
        received = self._received
        self._quick_receives -= 1
        if not self._quick_receives or received.is_empty:
            self._quick_receives = MAX_MESSAGES
            if not received.is_empty:
                await let_others_run()
            while received.is_empty:
                received.ask(self._hand_over.start)
                await self._hand_over.wait_for(received)
        return received.take()

    async def wait_initial_metadata(self) -> trxds.Metadata:
        """Wait for the server's initial metadata; empty for a trailers-only response."""
        return await self._hand_over.wait(self._wrapped.wait_initial_metadata)

    def cancel(self) -> bool:
        """End the call with CANCELLED; return False, and change nothing, if it has a `status` already.

        A status that Trio's thread receives at the same moment may still come before it. See `trxds.Call.cancel`.
        """
        if self._is_cancelled or self._wrapped.status is not None:
            return False
        self._is_cancelled = True
        self._received.cancel()
        self._hand_over.call_soon(self._wrapped.cancel)
        return True

    @property
    def status(self) -> trxds.Status | None:
        """Return the call's status; None until `receive` has returned None or the only reply, or it has failed."""
        return self._wrapped.status or (CANCELLED if self._is_cancelled else None)


class Method(View[HandOver, trxds.Method[Req, Res]]):
    """One method of a service: `trxds.Method` for asyncio."""

    def __init__(self, hand_over: HandOver, method: trxds.Method[Req, Res]) -> None:
        super().__init__(hand_over, method)
        self.path = method.path
        self.client_streaming = method.client_streaming
        self.server_streaming = method.server_streaming

    async def __call__(self, request: Req | Iterable[Req] | AsyncIterable[Req], **options: Unpack[CallOptions]) -> Res:
        """Make the call and return its one reply; see `trxds.Method`.

        An iterable of requests is taken in this task, an async one in a task of its own.
        """
        if self.client_streaming:
            reply, _ = await self.with_call(request, **options)
            return reply
        return await self._hand_over.wait(partial(self._wrapped, request, **options))

    async def with_call(
        self, request: Req | Iterable[Req] | AsyncIterable[Req], **options: Unpack[CallOptions]
    ) -> tuple[Res, trxds.CompletedCall]:
        """Make the call and return its one reply, and metadata, status and peer; see `trxds.Method.with_call`."""
        if self.server_streaming:
            raise streams_replies_error(self.path)
        if not self.client_streaming:
            return await self._hand_over.wait(partial(self._wrapped.with_call, request, **options))
        check_requests(self.path, request)
        async with ContextBridge(self._hand_over, partial(self._wrapped.open, **options)) as call:
            requests = cast("Iterable[Req] | AsyncIterable[Req]", request)
            send = partial(send_all, Call(self._hand_over, call), requests)
            receive = partial(self._hand_over.wait, partial(receive_only_reply, call))
            if isinstance(requests, AsyncIterable):
                return await receive_while_sending(receive, send)
            await send()
            return await receive()
        raise swallowed_error(self.path)

    def on(self, host: trxds.Host) -> Method[Req, Res]:
        """Return the method for calls that go to this host; see `trxds.Method.on`."""
        return Method(self._hand_over, self._wrapped.on(host))

    @asynccontextmanager
    async def open(
        self, request: Req | None = None, **options: Unpack[CallOptions]
    ) -> AsyncIterator[trxds.Call[Req, Res]]:
        """Open a call of any kind; see `trxds.Method.open`."""
        async with ContextBridge(self._hand_over, partial(self._wrapped.open, request, **options)) as call:
            opened = Call(self._hand_over, call)
            # It has all public methods of a `trxds.Call`.
            yield cast(trxds.Call[Req, Res], opened)
            await opened._wait_sent()


class MethodFactory(trxds.MethodFactory, View[HandOver, trxds.MethodFactory]):
    """A `MethodFactory` makes methods that asyncio tasks can call: it is a channel, or a session of one.

    Stubs that `trxds generate` writes for Trio take it too.
    """

    def _method(
        self,
        path: str,
        request_type: Any,
        response_type: Any,
        client_streaming: bool = False,
        server_streaming: bool = False,
    ) -> trxds.Method[Any, Any]:
        streaming = {"client_streaming": client_streaming, "server_streaming": server_streaming}
        method = Method(self._hand_over, self._wrapped.method(path, request_type, response_type, **streaming))
        # It has all public methods of a `trxds.Method`, and so type checkers know its types as they do in Trio.
        return cast(trxds.Method[Any, Any], method)
