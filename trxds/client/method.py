"""A `Method` is one method of a service, and makes its calls."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Generic, Self, TypeVar, Unpack, cast

import trio

from trxds.core import metadata as md
from trxds.core.arguments import check_type
from trxds.core.metadata import Pairs
from trxds.core.status import OK, RpcError, Status
from trxds.transport.compression import Compression, parse_encoding
from trxds.transport.response import NO_REPLY, SECOND_REPLY

from .call import Call, has_arrived_message
from .call_credentials import CallCredentials
from .call_protocol import CallOptions, CallProtocol
from .channel_state import ChannelState
from .completed_call import CompletedCall
from .hosts import Host
from .open_session import OpenSession
from .pinned_call import PinnedRpc
from .replay_buffer import ReplayBuffer
from .rpc import Rpc

Req = TypeVar("Req")
Res = TypeVar("Res")

_PATH = re.compile(r"/[!-.0-~]+/[!-.0-~]+\Z")  # printable ASCII without spaces


def checked_path(path: str) -> str:
    """Return the path; `ValueError` if it is not of the form /package.Service/Method."""
    check_type("method path", path, str, "a text such as /package.Service/Method")
    if not _PATH.match(path):
        raise ValueError(f"method path {path!r} is not of the form /package.Service/Method")
    return path


class Method(Generic[Req, Res]):
    """One method of a service: call it, `await method(request)`, for a single reply, or use `open` for any kind.

    `registered`: its messages are protobuf classes, so its path is one of the program's methods, and metrics may have
    it as a label (A66).
    """

    def __init__(
        self,
        state: ChannelState,
        session: OpenSession | None,
        path: str,
        serialize: Callable[[Req], bytes],
        deserialize: Callable[[bytes], Res],
        client_streaming: bool,
        server_streaming: bool,
        registered: bool = True,
    ) -> None:
        self.path = path
        self.registered = registered
        self._state = state
        self._session = session
        self._serialize = serialize
        self._deserialize = deserialize
        self.client_streaming = client_streaming
        self.server_streaming = server_streaming
        self._settings = replace(state.defaults, one_reply=not server_streaming)
        self._make_rpc: Callable[..., Rpc] = Rpc
        self._last_metadata = md.EMPTY

    async def __call__(
        self,
        request: Req | Iterable[Req] | AsyncIterable[Req],
        *,
        timeout: float | None = None,
        metadata: Pairs = (),
        wait_for_ready: bool | None = None,
        compression: Compression | None = None,
        credentials: CallCredentials | None = None,
        authority: str | None = None,
    ) -> Res:
        """Make the call and return its one reply. Always a checkpoint.

        Args:
            request: The message, or an iterable of messages for a client-streaming method. An async one is left as soon
                as the call ends, and closed if it is a generator.
            timeout: Seconds from now, over all attempts. The caller's own Trio deadline applies as well.
            metadata: Pairs of key and value; the value of a key that ends in `-bin` is bytes.
            wait_for_ready: Wait for a host instead of failing while there is none; None leaves that to the service
                config.
            compression: Of the requests: `gzip`, `deflate` or `identity`, in place of the channel's.
            credentials: They are used in addition to the channel's.
            authority: The `:authority`, in place of the channel's and of a control plane's; it chooses neither the
                route nor the host. With TLS the host's certificate has to prove it (A81).

        Raises:
            RpcError: The call did not end with OK.
            TypeError: The method streams its replies.
            ValueError: No header can carry the metadata or the authority, or the compression is unknown.
            trio.ClosedResourceError: The channel or the session is closed.
        """
        if self.server_streaming:
            raise streams_replies_error(self.path)
        if self.client_streaming:
            options = CallOptions(
                timeout=timeout,
                metadata=metadata,
                wait_for_ready=wait_for_ready,
                compression=compression,
                credentials=credentials,
                authority=authority,
            )
            reply, _ = await self._collect(self._open(None, **options), request)
            return reply
        # Serialized before the call begins, so that a request of the wrong type does not count as a call (A14).
        payload = self._serialize(request)  # type: ignore[arg-type]  # no iterable, for the method takes one request
        rpc = self._rpc(timeout, metadata, wait_for_ready, compression, credentials, authority)
        try:
            return await rpc.unary(payload, self._deserialize)
        finally:
            rpc.close()

    async def with_call(
        self, request: Req | Iterable[Req] | AsyncIterable[Req], **options: Unpack[CallOptions]
    ) -> tuple[Res, CompletedCall]:
        """Make the call and return its one reply, and its initial and trailing metadata, status and peer.

        Options and errors are those of calling the method. Always a checkpoint.
        """
        if self.server_streaming:
            raise streams_replies_error(self.path)
        if self.client_streaming:
            return await self._collect(self._open(None, **options), request)
        payload = self._serialize(request)  # type: ignore[arg-type]  # as in `__call__`
        rpc = self._rpc(**options)
        try:
            reply = await rpc.unary(payload, self._deserialize)
            # Without an attempt there would have been an error and no reply.
            assert rpc.attempt is not None
            return reply, rpc.attempt.completed()
        finally:
            rpc.close()

    def open(
        self,
        request: Req | None = None,
        *,
        timeout: float | None = None,
        metadata: Pairs = (),
        wait_for_ready: bool | None = None,
        compression: Compression | None = None,
        credentials: CallCredentials | None = None,
        authority: str | None = None,
    ) -> AbstractAsyncContextManager[Call[Req, Res]]:
        """Open a call of any kind. A `request` is sent as the first message; if requests do not stream, it is the last.

        Entering waits until the call has a stream and the `request` is sent. It raises `RpcError` if the call cannot
        have a stream, or fails before that and no message has come. Entering is always a checkpoint, and leaving is
        none (that of a hedged call is). The options are those of calling the method.
        """
        return self._open(
            partial(self._begin, request=request),
            timeout=timeout,
            metadata=metadata,
            wait_for_ready=wait_for_ready,
            compression=compression,
            credentials=credentials,
            authority=authority,
        )

    def on(self, host: Host) -> Self:
        """Return the method for calls that go to this host of `Channel.hosts`, whatever the policies would choose.

        Such a call connects the host if need be, as long as the call lasts, and is retried there only. It fails with
        UNAVAILABLE if the host has left the channel's hosts or cannot be reached; with `wait_for_ready` it waits. It is
        made outside of any session: it takes no cookie along and moves none. Circuit breakers and load reports count
        it. `TypeError` for anything but a host.
        """
        _check_host(host)
        pinned = copy(self)
        pinned._session, pinned._make_rpc = None, partial(PinnedRpc, host)
        return pinned

    @asynccontextmanager
    async def _open(
        self, begin: Callable[[Call[Req, Res]], Awaitable[None]] | None, **options: Unpack[CallOptions]
    ) -> AsyncIterator[Call[Req, Res]]:
        """Open a call; without `begin` entering may be no checkpoint, for callers that send at once."""
        rpc, replay = self._rpc(**options), ReplayBuffer()
        try:
            problem = await rpc.open(replay)
            if problem is not None:
                raise await rpc.failure(problem)
            call = Call(
                rpc,
                replay,
                self._state.now,
                self._serialize,
                self._deserialize,
                one_request=not self.client_streaming,
                one_reply=not self.server_streaming,
            )
            async with nullcontext() if rpc.hedging is None else rpc.hedging.run_in_background(rpc.scope):
                if begin is not None:
                    await begin(call)
                yield call
        finally:
            rpc.close()
            for mirror in replay.mirrors:
                mirror.leave()

    def _rpc(
        self,
        timeout: float | None = None,
        metadata: Pairs = (),
        wait_for_ready: bool | None = None,
        compression: Compression | None = None,
        credentials: CallCredentials | None = None,
        authority: str | None = None,
    ) -> Rpc:
        # Before there is a call, so that metadata that no header can carry does not count as a call (A14).
        checked = self._check_metadata(metadata) if metadata else md.EMPTY
        settings = self._settings
        if wait_for_ready is not None or compression is not None or credentials is not None or authority:
            encoding = parse_encoding(compression) if compression is not None else None
            settings = settings.for_call(wait_for_ready, encoding, credentials, authority)
        rpc = self._make_rpc(self._state, self.path, checked, settings, timeout, self._session)
        # Without an observer a call pays for this test, and for no telemetry.
        if self._state.observers.of_calls:
            rpc.attach_telemetry(self.registered)
        return rpc

    def _check_metadata(self, metadata: Pairs) -> md.Metadata:
        """Return the metadata after a check, which is skipped if the method's last call had the same."""
        # To compare two short tuples is much cheaper than to check their keys and values.
        try:
            pairs = tuple(metadata)
        except TypeError:
            md.check(metadata)
            raise  # the error of a generator of the caller's
        if pairs != self._last_metadata:
            self._last_metadata = md.check(pairs)
        return self._last_metadata

    async def _begin(self, call: Call[Req, Res], request: Req | None) -> None:
        """Send the request, if there is one."""
        if request is not None:
            try:
                await call.send(request)
            except RpcError:
                # A server need not wait for the request. What it has sent comes before its status, which follows then.
                if not has_arrived_message(call):
                    raise
        else:
            await trio.lowlevel.checkpoint()

    async def _collect(
        self, opened: AbstractAsyncContextManager[Call[Req, Res]], requests: Any
    ) -> tuple[Res, CompletedCall]:
        check_requests(self.path, requests)
        async with opened as call:
            if isinstance(requests, AsyncIterable):
                return await _receive_while_sending(call, requests)
            await send_all(call, requests)
            return await receive_only_reply(call)
        raise swallowed_error(self.path)

    def __repr__(self) -> str:
        return f"<Method {self.path}>"


def _check_host(host: object) -> None:
    if not isinstance(host, Host):
        raise TypeError(f"on takes a trxds.Host, as channel.hosts() yields them, not {host!r}")


def check_requests(path: str, requests: object, *, kind: tuple[type, ...] = (Iterable, AsyncIterable)) -> None:
    """Raise `TypeError` unless these are many requests. A text and bytes are not, though they can be iterated."""
    if isinstance(requests, str | bytes | bytearray | memoryview) or not isinstance(requests, kind):
        name = type(requests).__name__
        raise TypeError(f"{path} takes an iterable of requests, not {name}; for one write [request]")


def streams_replies_error(path: str) -> TypeError:
    """Return the error for calling a method with streamed replies like a function."""
    return TypeError(f"{path} streams its replies; use `async with method.open(...) as call`")


def swallowed_error(path: str) -> RuntimeError:
    """Return the error for an interceptor that caught its call's exception and raised none, so there is no reply."""
    return RuntimeError(f"{path}: an interceptor swallowed the exception of its call; raise it again, or an RpcError")


async def send_all(call: CallProtocol[Req, Any], requests: Iterable[Req] | AsyncIterable[Req]) -> None:
    """Send every request, until the server reads nothing any more, and `done_sending`. It runs on any event loop."""
    # `aclosing`: a server that ends the call early leaves the generator suspended, and it may hold resources.
    async with aclosing(_iterate(requests)) as each:
        async for request in each:
            if not await call.send(request):
                break
    call.done_sending()


async def _receive_while_sending(
    call: CallProtocol[Req, Res], requests: AsyncIterable[Req]
) -> tuple[Res, CompletedCall]:
    """Send every request, and return the call's result as soon as it is there, whatever the requests wait for."""
    sending = trio.CancelScope()
    results: list[tuple[Res, CompletedCall]] = []
    failure: BaseException | None = None

    async def receive() -> None:
        nonlocal failure
        try:
            results.append(await receive_only_reply(call))
        except Exception as error:
            failure = error
        sending.cancel(reason="the call is over")

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive, name="the reply to a stream of requests")
            with sending:
                await send_all(call, requests)
    except BaseExceptionGroup as group:
        # The task that receives raises nothing but `Cancelled`.
        failure = next((each for each in group.exceptions if not isinstance(each, trio.Cancelled)), group.exceptions[0])
    try:
        if failure is not None:
            raise failure  # out here, where it keeps its cause and context
    finally:
        del failure  # its traceback has this frame: without `del` they would be a cycle
    return results[0]


async def receive_only_reply(call: CallProtocol[Any, Res]) -> tuple[Res, CompletedCall]:
    """Return the one reply of a call whose requests have been sent, and the call's result.

    A `Call` counts its replies by itself; the object that an interceptor put in its place may not.
    """
    reply = await call.receive()
    # A `Call` without a reply has raised, so this None is what the program's deserializer has returned.
    if reply is None and not isinstance(call, Call):
        raise _reply_count_error(NO_REPLY, call)
    # statuscodes.md: no reply, or more than one, is UNIMPLEMENTED.
    if await call.receive() is not None:
        raise _reply_count_error(SECOND_REPLY, call)
    return cast(Res, reply), CompletedCall(
        call.status or OK, call.initial_metadata or md.EMPTY, call.trailing_metadata, call.peer
    )


def _reply_count_error(status: Status, call: CallProtocol[Any, Any]) -> RpcError:
    return RpcError(status, call.initial_metadata, call.trailing_metadata, call.peer)


async def _iterate(requests: Iterable[Req] | AsyncIterable[Req]) -> AsyncGenerator[Req, None]:
    if isinstance(requests, AsyncIterable):
        iterator = aiter(requests)
        try:
            async for request in iterator:
                yield request
        finally:
            # Nobody else closes a generator that is written into the call. Another iterator, such as the receiving end
            # of a memory channel, stays open.
            if isinstance(iterator, AsyncGenerator):
                await iterator.aclose()
    else:
        for request in requests:
            yield request
