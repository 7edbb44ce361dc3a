"""This file has the calls and methods of a channel for threads: those of `trxds` without the `await`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any, Generic, Protocol, Self, TypeVar, Unpack, cast, overload

import trxds
from trxds.client.call_protocol import CallOptions
from trxds.client.method import check_requests, receive_only_reply, swallowed_error
from trxds.portal.receive_buffer import ReceiveBuffer
from trxds.portal.send_buffer import SendBuffer, send_buffer
from trxds.portal.views import CallView, View

from .hand_over import ContextBridge, HandOver

Req = TypeVar("Req")
Res = TypeVar("Res")


class ResponseStream(CallView[HandOver], Generic[Res]):
    """The receiving side of an open call; see `trxds.Call`. Every method raises `RpcError` when the call has failed."""

    def __init__(self, hand_over: HandOver, call: trxds.Call[Any, Res]) -> None:
        super().__init__(hand_over, call)
        self._received: ReceiveBuffer[Res] = ReceiveBuffer(call)

    def receive(self) -> Res | None:
        """Wait for the next message and return it; None when the server has ended the call with OK."""
        received = self._received
        while received.is_empty:
            received.ask(self._hand_over.start)
            self._hand_over.wait_for(received)
        return received.take()

    def wait_initial_metadata(self) -> trxds.Metadata:
        """Wait for the server's initial metadata; empty for a trailers-only response."""
        return self._hand_over.wait(self._wrapped.wait_initial_metadata)

    def cancel(self) -> bool:
        """End the call with CANCELLED, also for threads that wait for it; see `trxds.Call.cancel`."""

        # In Trio's thread, because a call is not safe for threads.
        async def cancel() -> bool:
            is_cancelled = self._wrapped.cancel()
            if is_cancelled:  # a call that has ended keeps the messages that came before its end
                self._received.cancel()
            return is_cancelled

        return self._hand_over.wait(cancel)

    def __iter__(self) -> Iterator[Res]:
        return self

    def __next__(self) -> Res:
        reply = self.receive()
        if reply is None:
            raise StopIteration
        return reply


class Call(ResponseStream[Res], Generic[Req, Res]):
    """An open call that can send and receive. One thread may send while another receives."""

    def __init__(self, hand_over: HandOver, call: trxds.Call[Req, Res]) -> None:
        super().__init__(hand_over, call)
        self._outgoing: SendBuffer[Req] | None = send_buffer(call)

    def send(self, request: Req, *, compress: bool = True) -> bool:
        """Send one message; return False if the server has ended the call with OK and reads nothing any more.

        It waits while flow control or the socket's buffer has no room. While they have, up to 64 small messages are on
        their way to Trio's thread, where they leave together. With `compress=False` the message is sent uncompressed,
        whatever the call's compression.
        """
        outgoing = self._outgoing
        if outgoing is None:
            return self._hand_over.wait(partial(self._wrapped.send, request, compress=compress))
        self._hand_over.check_can_wait()
        # In this thread, because the caller may change the message after this.
        serialized = outgoing.serialize(request)
        if not outgoing.put(serialized, compress=compress):
            return self._hand_over.wait(partial(outgoing.send, serialized, compress=compress))
        outgoing.call(self._hand_over.start_task)
        return True

    def done_sending(self) -> None:
        """Close this side of the call: no more messages follow."""
        self._hand_over.check_can_wait()
        if self._outgoing is None:
            # In Trio's thread, because a call is not safe for threads.
            return self._hand_over.call_soon(self._wrapped.done_sending)
        self._outgoing.end()
        self._outgoing.call(self._hand_over.start_task)

    def _wait_sent(self) -> None:
        """Wait until windows and buffer have taken all messages, before the call's block is left."""
        if self._outgoing is not None and not self._outgoing.is_empty:
            with suppress(Exception):  # the channel's end: the block is left as it is without messages
                self._hand_over.wait(self._outgoing.wait_taken)

    def _receive_only_reply(self) -> tuple[Res, trxds.CompletedCall]:
        return self._hand_over.wait(partial(receive_only_reply, self._wrapped))


class Method(View[HandOver, trxds.Method[Req, Res]]):
    """One method of a service: `trxds.Method` without the `await`."""

    def __init__(self, hand_over: HandOver, method: trxds.Method[Req, Res]) -> None:
        super().__init__(hand_over, method)
        self.path = method.path
        self.client_streaming = method.client_streaming
        self.server_streaming = method.server_streaming

    def __call__(self, request: Req | Iterable[Req], **options: Unpack[CallOptions]) -> Res:
        """Make the call and return its one reply. Streamed requests are taken from their iterable in this thread."""
        self._check_one_reply()
        if self.client_streaming:
            return self._collect(cast("Iterable[Req]", request), options)[0]
        return self._hand_over.wait(partial(self._wrapped, request, **options))

    def with_call(
        self, request: Req | Iterable[Req], **options: Unpack[CallOptions]
    ) -> tuple[Res, trxds.CompletedCall]:
        """Make the call and return its one reply, and metadata, status and peer; see `trxds.Method.with_call`."""
        self._check_one_reply()
        if self.client_streaming:
            return self._collect(cast("Iterable[Req]", request), options)
        return self._hand_over.wait(partial(self._wrapped.with_call, request, **options))

    def future(self, request: Req, **options: Unpack[CallOptions]) -> Future[Res]:
        """Start a unary call and return the future of its reply; cancelling the future cancels the call."""
        self._check_one_reply()
        # The future's call runs in Trio's thread, which an iterator of the caller could block.
        if self.client_streaming:
            raise TypeError(f"{self.path} streams requests, and its iterable needs a thread; call it in one")
        future: Future[Res] = Future()
        self._hand_over.start(future, partial(self._wrapped, request, **options))
        return future

    def on(self, host: trxds.Host) -> Method[Req, Res]:
        """Return the method for calls that go to this host; see `trxds.Method.on`."""
        return Method(self._hand_over, self._wrapped.on(host))

    @contextmanager
    def open(self, request: Req | None = None, **options: Unpack[CallOptions]) -> Iterator[Call[Req, Res]]:
        """Open a call of any kind; see `trxds.Method.open`."""
        with ContextBridge(self._hand_over, partial(self._wrapped.open, request, **options)) as call:
            opened: Call[Req, Res] = Call(self._hand_over, call)
            yield opened
            opened._wait_sent()

    def _check_one_reply(self) -> None:
        if self.server_streaming:
            raise TypeError(f"{self.path} streams its replies; use `with method.open(...) as call`")

    def _collect(self, requests: Iterable[Req], options: CallOptions) -> tuple[Res, trxds.CompletedCall]:
        check_requests(self.path, requests, kind=(Iterable,))
        with self.open(**options) as call:
            # The caller's iterator runs in the caller's thread, because it may block.
            for request in requests:
                if not call.send(request):
                    break
            call.done_sending()
            return call._receive_only_reply()
        raise swallowed_error(self.path)


class _OneRequest(Protocol[Req, Res]):
    def on(self, host: trxds.Host) -> Self: ...

    @overload
    def open(self, request: Req, **options: Unpack[CallOptions]) -> AbstractContextManager[ResponseStream[Res]]: ...
    @overload
    def open(self, request: None = None, **options: Unpack[CallOptions]) -> AbstractContextManager[Call[Req, Res]]: ...


class _ManyRequests(Protocol[Req, Res]):
    def on(self, host: trxds.Host) -> Self: ...

    def open(
        self, request: Req | None = None, **options: Unpack[CallOptions]
    ) -> AbstractContextManager[Call[Req, Res]]: ...


class UnaryUnary(_OneRequest[Req, Res], Protocol[Req, Res]):
    """A method with one request and one reply: `reply = method(request)`."""

    def __call__(self, request: Req, **options: Unpack[CallOptions]) -> Res: ...
    def with_call(self, request: Req, **options: Unpack[CallOptions]) -> tuple[Res, trxds.CompletedCall]:
        """Make the call; return its reply, and its metadata, status and peer."""
        ...

    def future(self, request: Req, **options: Unpack[CallOptions]) -> Future[Res]:
        """Start the call; return the future of its reply. Cancelling the future cancels the call."""
        ...


class UnaryStream(_OneRequest[Req, Res], Protocol[Req, Res]):
    """A method with one request and many replies: `with method.open(request) as call: for reply in call`."""


class StreamUnary(_ManyRequests[Req, Res], Protocol[Req, Res]):
    """A method with many requests and one reply: `reply = method(requests)`, or `open` to send one by one."""

    def __call__(self, request: Iterable[Req], **options: Unpack[CallOptions]) -> Res: ...
    def with_call(self, request: Iterable[Req], **options: Unpack[CallOptions]) -> tuple[Res, trxds.CompletedCall]:
        """Make the call; return its reply, and its metadata, status and peer."""
        ...


class StreamStream(_ManyRequests[Req, Res], Protocol[Req, Res]):
    """A method with many requests and replies, in any order: `with method.open() as call`."""
