"""This file has the calls and methods of a channel for asyncio: those of `trxds`, handed over to Trio's thread."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar, Unpack, cast

import trxds
from trxds.client.call_protocol import CallOptions
from trxds.client.method import receive_only_reply, send_all, streams_replies_error, swallowed_error
from trxds.core.status import CANCELLED
from trxds.portal.receive_buffer import ReceiveBuffer, receive_batch
from trxds.portal.views import CallView, View

from .hand_over import ContextBridge, HandOver, NextValue

Req = TypeVar("Req")
Res = TypeVar("Res")


class Call(CallView, trxds.CallProtocol[Req, Res]):
    """An open call; see `trxds.Call`. One task may send while another receives, in the loop that opened the call.

    A task that is cancelled in `receive` loses no message: the next `receive` returns it.
    """

    def __init__(self, hand_over: HandOver, call: trxds.Call[Req, Res]) -> None:
        super().__init__(call)
        self._hand_over = hand_over
        self._call = call
        self._received: ReceiveBuffer[Res] = ReceiveBuffer()
        self._next_batch = NextValue(hand_over, partial(receive_batch, call))
        self._is_cancelled = False

    async def send(self, request: Req, *, compress: bool = True) -> bool:
        """Send one message; return False if the server has ended the call; see `trxds.Call.send`."""
        return await self._hand_over.wait(partial(self._call.send, request, compress=compress))

    def done_sending(self) -> None:
        """Close this side of the call: no more messages follow."""
        self._hand_over.call_soon(self._call.done_sending)

    async def receive(self) -> Res | None:
        """Return the next message; None when the server has ended the call with OK; see `trxds.Call.receive`."""
        if self._received.is_empty:
            batch = await self._next_batch.take()
            if batch is None:
                return None
            self._received.put(batch)
        return self._received.take()

    async def wait_initial_metadata(self) -> trxds.Metadata:
        """Wait for the server's initial metadata; empty for a trailers-only response."""
        return await self._hand_over.wait(self._call.wait_initial_metadata)

    def cancel(self) -> bool:
        """End the call with CANCELLED; return False, and change nothing, if it has a `status` already.

        A status that Trio's thread receives at the same moment may still come before it. See `trxds.Call.cancel`.
        """
        if self._is_cancelled or self._call.status is not None:
            return False
        self._is_cancelled = True
        self._next_batch.discard()
        self._received.discard()
        self._hand_over.call_soon(self._call.cancel)
        return True

    @property
    def status(self) -> trxds.Status | None:
        """Return the call's status; None until `receive` has returned None, or the only reply, or until `cancel`."""
        return self._call.status or (CANCELLED if self._is_cancelled else None)


class Method(View[trxds.Method[Req, Res]]):
    """One method of a service: `trxds.Method` for asyncio."""

    def __init__(self, hand_over: HandOver, method: trxds.Method[Req, Res]) -> None:
        super().__init__(method)
        self.path = method.path
        self.client_streaming = method.client_streaming
        self.server_streaming = method.server_streaming
        self._hand_over = hand_over
        self._method = method

    async def __call__(self, request: Req | Iterable[Req] | AsyncIterable[Req], **options: Unpack[CallOptions]) -> Res:
        """Make the call and return its one reply; see `trxds.Method`. Streamed requests are taken in this task."""
        if self.client_streaming:
            reply, _ = await self.with_call(request, **options)
            return reply
        return await self._hand_over.wait(partial(self._method, request, **options))

    async def with_call(
        self, request: Req | Iterable[Req] | AsyncIterable[Req], **options: Unpack[CallOptions]
    ) -> tuple[Res, trxds.CompletedCall]:
        """Make the call and return its one reply, and metadata, status and peer; see `trxds.Method.with_call`."""
        if self.server_streaming:
            raise streams_replies_error(self.path)
        if not self.client_streaming:
            return await self._hand_over.wait(partial(self._method.with_call, request, **options))
        async with ContextBridge(self._hand_over, partial(self._method.open, **options)) as call:
            await send_all(Call(self._hand_over, call), cast("Iterable[Req] | AsyncIterable[Req]", request))
            return await self._hand_over.wait(partial(receive_only_reply, call))
        raise swallowed_error(self.path)

    def on(self, host: trxds.Host) -> Method[Req, Res]:
        """Return the method for calls that go to this host; see `trxds.Method.on`."""
        return Method(self._hand_over, self._method.on(host))

    @asynccontextmanager
    async def open(
        self, request: Req | None = None, **options: Unpack[CallOptions]
    ) -> AsyncIterator[trxds.Call[Req, Res]]:
        """Open a call of any kind; see `trxds.Method.open`."""
        async with ContextBridge(self._hand_over, partial(self._method.open, request, **options)) as call:
            # It has all public methods of a `trxds.Call`.
            yield cast(trxds.Call[Req, Res], Call(self._hand_over, call))


class MethodFactory(trxds.MethodFactory):
    """A `MethodFactory` makes methods that asyncio tasks can call: it is a channel, or a session of one.

    Stubs that `trxds generate` writes for Trio take it too.
    """

    def __init__(self, hand_over: HandOver, caller: trxds.MethodFactory) -> None:
        self._hand_over = hand_over
        self._caller = caller

    def _method(
        self,
        path: str,
        request_type: Any,
        response_type: Any,
        client_streaming: bool = False,
        server_streaming: bool = False,
    ) -> trxds.Method[Any, Any]:
        streaming = {"client_streaming": client_streaming, "server_streaming": server_streaming}
        method = Method(self._hand_over, self._caller.method(path, request_type, response_type, **streaming))
        # It has all public methods of a `trxds.Method`, and so type checkers know its types as they do in Trio.
        return cast(trxds.Method[Any, Any], method)
