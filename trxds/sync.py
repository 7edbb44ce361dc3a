"""trxds for threads: the same channels, sessions, methods and calls, in programs that do not run Trio.

    with trxds.sync.open_channel("xds:///greeter") as channel:
        say_hello = channel.method("/helloworld.Greeter/SayHello")
        print(say_hello(b"you", timeout=2))

Trio runs in a thread of its own (`trio_thread.py`) as long as the block lasts. A call is a task there and a future
here; a thread that stops waiting, as Ctrl-C makes it, cancels its call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from functools import partial, wraps
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

import trio
from google.protobuf.descriptor import ServiceDescriptor

import trxds
from trxds.channel.call_protocol import CallOptions, Pairs
from trxds.channel.method import only_reply
from trxds.channel.stub import FromBytes, ToBytes
from trxds.hand_over import ContextBridge, HandOver
from trxds.trio_thread import TrioThread

T = TypeVar("T")
Req = TypeVar("Req")
Res = TypeVar("Res")
P = ParamSpec("P")


class Replies(Generic[Res]):
    """What comes back of an open call; see `trxds.Call`. Every method raises `RpcError` when the call has failed."""

    def __init__(self, hand_over: HandOver, call: trxds.Call[Any, Res]) -> None:
        self._hand_over = hand_over
        self._call = call

    def receive(self) -> Res | None:
        """The next message; None when the server has ended the call with OK."""
        return self._hand_over.wait(self._call.receive)

    def headers(self) -> trxds.Metadata:
        """Wait for the server's initial metadata; empty if it sends a status and nothing else."""
        return self._hand_over.wait(self._call.headers)

    def __iter__(self) -> Iterator[Res]:
        return self

    def __next__(self) -> Res:
        reply = self.receive()
        if reply is None:
            raise StopIteration
        return reply

    @property
    def initial_metadata(self) -> trxds.Metadata | None:
        """The server's initial metadata; None until it has come."""
        return self._call.initial_metadata

    @property
    def trailing_metadata(self) -> trxds.Metadata:
        """What came with the status; empty before the call's end."""
        return self._call.trailing_metadata

    @property
    def status(self) -> trxds.Status | None:
        """How the call ended; None until `receive` has found out. Of a method with one reply that is known with it."""
        return self._call.status

    @property
    def peer(self) -> str:
        """The address of the host that has the call."""
        return self._call.peer

    def __repr__(self) -> str:
        return f"<trxds.sync {self._call!r}>"


class Call(Replies[Res], Generic[Req, Res]):
    """An open call, for both sides. One thread may send while another receives."""

    def send(self, request: Req, *, compress: bool = True) -> bool:
        """Send one message; False if the server has ended the call with OK and reads nothing any more.

        With `compress=False` the message goes as it is, whatever the call's compression.
        """
        return self._hand_over.wait(partial(self._call.send, request, compress=compress))

    def done_sending(self) -> None:
        """There are no more messages from this side."""

        async def done() -> None:
            self._call.done_sending()

        self._hand_over.wait(done)

    def _only(self) -> tuple[Res, trxds.CompletedCall]:
        return self._hand_over.wait(partial(only_reply, self._call))


class Method(Generic[Req, Res]):
    """One method of a service: `trxds.Method` without the `await`."""

    def __init__(self, hand_over: HandOver, method: trxds.Method[Req, Res]) -> None:
        self.path = method.path
        self._hand_over = hand_over
        self._method = method

    def __call__(self, request: Req | Iterable[Req], **options: Unpack[CallOptions]) -> Res:
        """The server's one reply. The requests of a client-streaming method are taken in this thread."""
        self._check_one_reply()
        if self._method.client_streaming:
            return self._collect(cast("Iterable[Req]", request), options)[0]
        return self._hand_over.wait(partial(self._method, request, **options))

    def with_call(
        self, request: Req | Iterable[Req], **options: Unpack[CallOptions]
    ) -> tuple[Res, trxds.CompletedCall]:
        """The server's one reply, and the call it came by; see `trxds.Method.with_call`."""
        self._check_one_reply()
        if self._method.client_streaming:
            return self._collect(cast("Iterable[Req]", request), options)
        return self._hand_over.wait(partial(self._method.with_call, request, **options))

    def future(self, request: Req, **options: Unpack[CallOptions]) -> Future[Res]:
        """The reply of a unary method, to come; to cancel the future is to cancel the call."""
        self._check_one_reply()
        if self._method.client_streaming:
            raise TypeError(f"{self.path} takes many requests, which a thread has to give; call it in one of yours")
        future: Future[Res] = Future()
        self._hand_over.start(future, partial(self._method, request, **options))
        return future

    @contextmanager
    def open(self, request: Req | None = None, **options: Unpack[CallOptions]) -> Iterator[Call[Req, Res]]:
        """A call of any kind; see `trxds.Method.open`."""
        with ContextBridge(self._hand_over, partial(self._method.open, request, **options)) as call:
            yield Call(self._hand_over, call)

    def _check_one_reply(self) -> None:
        if self._method.server_streaming:
            raise TypeError(f"{self.path} streams its replies; use `with method.open(...) as call`")

    def _collect(self, requests: Iterable[Req], options: CallOptions) -> tuple[Res, trxds.CompletedCall]:
        with self.open(**options) as call:
            for request in requests:
                if not call.send(request):
                    break
            call.done_sending()
            return call._only()

    def __repr__(self) -> str:
        return f"<trxds.sync {self._method!r}>"


class _OneRequest(Protocol[Req, Res]):
    @overload
    def open(self, request: Req, **options: Unpack[CallOptions]) -> AbstractContextManager[Replies[Res]]: ...
    @overload
    def open(self, request: None = None, **options: Unpack[CallOptions]) -> AbstractContextManager[Call[Req, Res]]: ...


class _ManyRequests(Protocol[Req, Res]):
    def open(
        self, request: Req | None = None, **options: Unpack[CallOptions]
    ) -> AbstractContextManager[Call[Req, Res]]: ...


class UnaryUnary(_OneRequest[Req, Res], Protocol[Req, Res]):
    """One request, one reply: `reply = method(request)`."""

    def __call__(self, request: Req, **options: Unpack[CallOptions]) -> Res: ...
    def with_call(self, request: Req, **options: Unpack[CallOptions]) -> tuple[Res, trxds.CompletedCall]: ...
    def future(self, request: Req, **options: Unpack[CallOptions]) -> Future[Res]: ...


class UnaryStream(_OneRequest[Req, Res], Protocol[Req, Res]):
    """One request, many replies: `with method.open(request) as call: for reply in call`."""


class StreamUnary(_ManyRequests[Req, Res], Protocol[Req, Res]):
    """Many requests, one reply: `reply = method(requests)`, or `open` to send them one by one."""

    def __call__(self, request: Iterable[Req], **options: Unpack[CallOptions]) -> Res: ...
    def with_call(self, request: Iterable[Req], **options: Unpack[CallOptions]) -> tuple[Res, trxds.CompletedCall]: ...


class StreamStream(_ManyRequests[Req, Res], Protocol[Req, Res]):
    """Many of both, in any order: `with method.open() as call`."""


class Caller:
    """What can make calls, from any thread: a channel, or a session of it."""

    def __init__(self, hand_over: HandOver, caller: trxds.Caller) -> None:
        self._hand_over = hand_over
        self._caller = caller

    def stub(self, service: ServiceDescriptor) -> Any:
        """The methods of a service, as attributes, from its protobuf descriptor."""
        stub = self._caller.stub(service)
        for name, method in vars(stub).items():
            if isinstance(method, trxds.Method):
                setattr(stub, name, Method(self._hand_over, method))
        return stub

    def method(
        self,
        path: str,
        request_type: Any = None,
        response_type: Any = None,
        *,
        client_streaming: bool = False,
        server_streaming: bool = False,
    ) -> Method[Any, Any]:
        """One method by its path, `/package.Service/Method`; see `trxds.Channel.method`."""
        streaming = {"client_streaming": client_streaming, "server_streaming": server_streaming}
        return Method(self._hand_over, self._caller.method(path, request_type, response_type, **streaming))

    def unary_unary(self, path: str, request_type: ToBytes[Req], response_type: FromBytes[Res]) -> UnaryUnary[Req, Res]:
        """A method with one request and one reply; see `method`."""
        return self.method(path, request_type, response_type)

    def unary_stream(
        self, path: str, request_type: ToBytes[Req], response_type: FromBytes[Res]
    ) -> UnaryStream[Req, Res]:
        """A method with one request and a stream of replies; see `method`."""
        return self.method(path, request_type, response_type, server_streaming=True)

    def stream_unary(
        self, path: str, request_type: ToBytes[Req], response_type: FromBytes[Res]
    ) -> StreamUnary[Req, Res]:
        """A method with a stream of requests and one reply; see `method`."""
        return self.method(path, request_type, response_type, client_streaming=True)

    def stream_stream(
        self, path: str, request_type: ToBytes[Req], response_type: FromBytes[Res]
    ) -> StreamStream[Req, Res]:
        """A method with a stream of requests and a stream of replies; see `method`."""
        return self.method(path, request_type, response_type, client_streaming=True, server_streaming=True)


class Session(Caller):
    """Calls that share one cookie jar, and so meet one host while it can be reached (A55)."""


class Channel(Caller):
    """A way to a service, usable from any thread while the block of its `open_channel` lasts."""

    @property
    def target(self) -> str:
        """What the channel was opened to."""
        return self._hand_over.channel.target

    @property
    def state(self) -> trxds.Connectivity | None:
        """Where the channel stands; see `trxds.Channel.state`."""
        return self._hand_over.channel.state

    def wait_for_state_change(self, last: trxds.Connectivity | None) -> trxds.Connectivity | None:
        """The state, as soon as it is another one than `last`; see `trxds.Channel.wait_for_state_change`."""
        return self._hand_over.wait(partial(self._hand_over.channel.wait_for_state_change, last))

    def try_to_connect(self) -> None:
        """If the channel is IDLE, have it connect without a call."""

        async def ask() -> None:
            self._hand_over.channel.try_to_connect()

        self._hand_over.wait(ask)

    @contextmanager
    def session(self, *, wait_for_first: bool = True) -> Iterator[Session]:
        """One scope, one cookie jar, one host for all calls in it; see `trxds.Channel.session`."""
        with ContextBridge(
            self._hand_over, partial(self._hand_over.channel.session, wait_for_first=wait_for_first)
        ) as session:
            yield Session(self._hand_over, session)

    def explain(self, method: str, metadata: Pairs = (), timeout: float | None = None) -> trxds.Explanation:
        """Where a call of `method` would go now, and why; see `trxds.Channel.explain`."""
        return self._hand_over.wait(partial(self._hand_over.channel.explain, method, metadata, timeout))

    def submit(self, function: Callable[..., Awaitable[T]], *args: Any) -> Future[T]:
        """Run `await function(channel, *args)` in Trio's thread, with the `trxds.Channel` that lives there.

        For what a thread cannot do as well: several calls at once, or a stream that is to be left to itself. To cancel
        the future is to cancel the function, and so is to close the channel.
        """
        future: Future[T] = Future()
        self._hand_over.start(future, partial(function, self._hand_over.channel, *args))
        return future

    def __repr__(self) -> str:
        return f"<trxds.sync {self._hand_over.channel!r}>"


def _for_threads(
    opening: Callable[P, AbstractAsyncContextManager[trxds.Channel]],
) -> Callable[P, AbstractContextManager[Channel]]:
    @contextmanager
    @wraps(opening)
    def opened(*args: P.args, **kwargs: P.kwargs) -> Iterator[Channel]:
        if kwargs.get("xds") is not None:
            raise ValueError("xds= is a client in another thread's Trio; leave it out, this channel has its own")
        # Not TrioThread[HandOver](...): typing imports a module for that, which fails when the interpreter ends.
        thread: TrioThread[HandOver] = TrioThread(partial(_serve, partial(opening, *args, **kwargs)))
        hand_over = thread.start()
        try:
            yield Channel(hand_over, hand_over.channel)
        finally:
            thread.leave()

    return opened


async def _serve(
    opening: Callable[[], AbstractAsyncContextManager[trxds.Channel]],
    leaving: trio.Event,
    *,
    task_status: trio.TaskStatus[HandOver],
) -> None:
    async with opening() as channel, trio.open_nursery() as nursery:
        hand_over = HandOver(channel, nursery)
        task_status.started(hand_over)
        try:
            await leaving.wait()
        finally:
            # What runs in here ends before the channel, with the error that ends a channel's calls.
            hand_over.closed = True
            nursery.cancel_scope.cancel(reason="the channel is closed")


open_channel = _for_threads(trxds.open_channel)
