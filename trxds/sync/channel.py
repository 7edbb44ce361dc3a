"""A channel for threads, its sessions, and Trio's thread behind it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

import trio
from google.protobuf.descriptor import ServiceDescriptor

import trxds
from trxds.client.call_protocol import Pairs
from trxds.client.stub import FromBytes, ToBytes

from .calls import Method, StreamStream, StreamUnary, UnaryStream, UnaryUnary
from .hand_over import ContextBridge, HandOver
from .trio_thread import TrioThread

T = TypeVar("T")
Req = TypeVar("Req")
Res = TypeVar("Res")
P = ParamSpec("P")


class MethodFactory:
    """What can make calls, from any thread: a channel, or a session of it."""

    def __init__(self, hand_over: HandOver, caller: trxds.MethodFactory) -> None:
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


class Session(MethodFactory):
    """The calls of one session, from any thread; see `trxds.Session`."""

    def __init__(self, hand_over: HandOver, session: trxds.Session) -> None:
        super().__init__(hand_over, session)
        self._session = session

    @property
    def hosts(self) -> Mapping[trxds.CookieKey, trxds.SessionHost]:
        """Return the host and cluster that each cookie names; see `trxds.Session.hosts`."""
        return self._session.hosts

    @property
    def host(self) -> str | None:
        """Return the session's host, None before the first response; see `trxds.Session.host`."""
        return self._session.host

    @property
    def cluster(self) -> str | None:
        """Return the cluster of the session's host; see `trxds.Session.cluster`."""
        return self._session.cluster

    @property
    def since(self) -> float:
        """Return when the session was opened, in seconds on Trio's clock."""
        return self._session.since

    @property
    def calls(self) -> int:
        """Return how many calls have begun in the session."""
        return self._session.calls

    def __repr__(self) -> str:
        return f"<trxds.sync {self._session!r}>"


class Channel(MethodFactory):
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
    def session(
        self, *, wait_for_first: bool = True, first_within: float = 5.0, require: bool = False
    ) -> Iterator[Session]:
        """One scope, one cookie jar, one host for all calls in it; see `trxds.Channel.session`."""
        opening = partial(
            self._hand_over.channel.session, wait_for_first=wait_for_first, first_within=first_within, require=require
        )
        with ContextBridge(self._hand_over, opening) as session:
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
