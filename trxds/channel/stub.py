"""From a service's descriptor to methods that can be called."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any, Generic, TypeAlias, TypeVar, cast

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from trxds.affinity.session import SessionCookies
from trxds.ground import metadata as md
from trxds.ground.status import RpcError, Status, StatusCode
from trxds.wire.compression import encoding_named

from .call import Call
from .call_credentials import CallCredentials
from .dataplane import ChannelState
from .kinds import Pairs, StreamStream, StreamUnary, UnaryStream, UnaryUnary
from .messages import deserializer, serializer
from .rpc import Rpc

Req = TypeVar("Req")
Res = TypeVar("Res")
ToBytes: TypeAlias = type[Req] | Callable[[Req], bytes]  # a class is one of protobuf's
FromBytes: TypeAlias = type[Res] | Callable[[bytes], Res]

_PATH = re.compile(r"/[!-.0-~]+/[!-.0-~]+\Z")  # printable ASCII without spaces


class Method(Generic[Req, Res]):
    """One method of a service. `await method(request)` for a single reply, `open` for any kind."""

    def __init__(
        self,
        state: ChannelState,
        session: SessionCookies | None,
        path: str,
        serialize: Callable[[Req], bytes],
        deserialize: Callable[[bytes], Res],
        client_streaming: bool,
        server_streaming: bool,
    ) -> None:
        self.path = path
        self._state = state
        self._session = session
        self._serialize = serialize
        self._deserialize = deserialize
        self._client_streaming = client_streaming
        self._server_streaming = server_streaming

    async def __call__(
        self,
        request: Req | Iterable[Req] | AsyncIterable[Req],
        *,
        timeout: float | None = None,
        metadata: Pairs = (),
        wait_for_ready: bool | None = None,
        compression: str | None = None,
        credentials: CallCredentials | None = None,
    ) -> Res:
        """The server's one reply. A client-streaming method takes an iterable of requests.

        `timeout` in seconds counts from now; the caller's own Trio deadline counts as well.
        `wait_for_ready` waits for a host instead of failing while there is none; None leaves that to the
        service config. `compression` of the requests, `gzip`, `deflate` or `identity`, takes the place of the
        channel's. `credentials` are shown beside the channel's. Raises `RpcError`.
        """
        if self._server_streaming:
            raise TypeError(f"{self.path} streams its replies; use `async with method.open(...) as call`")
        if self._client_streaming:
            call = self.open(
                timeout=timeout,
                metadata=metadata,
                wait_for_ready=wait_for_ready,
                compression=compression,
                credentials=credentials,
            )
            return await self._collect(call, request)
        payload = self._serialize(cast(Req, request))
        rpc = self._rpc(timeout, metadata, wait_for_ready, compression, credentials)
        try:
            reply = await rpc.ask(payload)
            if isinstance(reply, Status):
                raise await rpc.failure(reply)
            return rpc.parse(reply, self._deserialize)
        finally:
            rpc.finish()

    @asynccontextmanager
    async def open(
        self,
        request: Req | None = None,
        *,
        timeout: float | None = None,
        metadata: Pairs = (),
        wait_for_ready: bool | None = None,
        compression: str | None = None,
        credentials: CallCredentials | None = None,
    ) -> AsyncIterator[Call[Req, Res]]:
        """A call of any kind. With a `request` it is sent and, unless the method streams, it is the last.

        Entering waits until the call has a stream; it raises `RpcError` if there is none to be had.
        """
        rpc = self._rpc(timeout, metadata, wait_for_ready, compression, credentials)
        try:
            problem = await rpc.open()
            if problem is not None:
                raise await rpc.failure(problem)
            call = Call(rpc, self._serialize, self._deserialize)
            if request is not None:
                await call.send(request)
                if not self._client_streaming:
                    call.done_sending()
            yield call
        finally:
            rpc.finish()

    def _rpc(
        self,
        timeout: float | None,
        metadata: Pairs,
        wait_for_ready: bool | None,
        compression: str | None,
        credentials: CallCredentials | None,
    ) -> Rpc:
        checked = md.check(metadata) if metadata else md.EMPTY
        encoding = encoding_named(compression) if compression is not None else None
        return Rpc(self._state, self.path, checked, timeout, wait_for_ready, self._session, encoding, credentials)

    async def _collect(self, opened: AbstractAsyncContextManager[Call[Req, Res]], requests: Any) -> Res:
        async with opened as call:
            async with aclosing(_each(requests)) as each:
                async for request in each:
                    if not await call.send(request):
                        break
            call.done_sending()
            return await only_reply(self.path, call)

    def __repr__(self) -> str:
        return f"<Method {self.path}>"


async def only_reply(path: str, call: Call[Any, Res]) -> Res:
    """What a call has to say whose method has one reply, once its requests have been sent."""
    reply = await call.receive()
    if reply is None:
        raise RpcError(Status(StatusCode.INTERNAL, f"{path}: the server said OK, but sent no message"))
    if await call.receive() is not None:
        message = f"{path}: the server sent a second message where the method has one"
        raise RpcError(Status(StatusCode.INTERNAL, message))
    return reply


async def _each(requests: Iterable[Req] | AsyncIterable[Req]) -> AsyncGenerator[Req, None]:
    if isinstance(requests, AsyncIterable):
        async for request in requests:
            yield request
    else:
        for request in requests:
            yield request


class Stub:
    """The methods of one service, by name."""

    def __init__(self, service: ServiceDescriptor, caller: Caller) -> None:
        self._service = service
        for method in service.methods:
            setattr(self, method.name, _method_of(method, caller))

    def __getattr__(self, name: str) -> Any:
        known = ", ".join(method.name for method in self._service.methods)
        raise AttributeError(f"{self._service.full_name} has no method {name}; it has {known}")

    def __repr__(self) -> str:
        return f"<Stub {self._service.full_name}>"


def _method_of(method: MethodDescriptor, caller: Caller) -> Method[Any, Any]:
    return caller.method(
        f"/{method.containing_service.full_name}/{method.name}",
        GetMessageClass(method.input_type),
        GetMessageClass(method.output_type),
        client_streaming=method.client_streaming,
        server_streaming=method.server_streaming,
    )


def checked_path(path: str) -> str:
    """`ValueError` for what names no method."""
    if not _PATH.match(path):
        raise ValueError(f"method path {path!r} is not of the form /package.Service/Method")
    return path


class Caller:
    """What can make calls: a channel, or a session of it."""

    def __init__(self, state: ChannelState, session: SessionCookies | None = None) -> None:
        self._state = state
        self._session = session

    def stub(self, service: ServiceDescriptor) -> Any:
        """The methods of a service, as attributes, from its protobuf descriptor."""
        if not isinstance(service, ServiceDescriptor):
            raise TypeError(f"stub takes a ServiceDescriptor, as in pb2.DESCRIPTOR.services_by_name, not {service!r}")
        return Stub(service, self)

    def method(
        self,
        path: str,
        request_type: type[Message] | Callable[[Any], bytes] | None = None,
        response_type: type[Message] | Callable[[bytes], Any] | None = None,
        *,
        client_streaming: bool = False,
        server_streaming: bool = False,
    ) -> Method[Any, Any]:
        """One method by its path, `/package.Service/Method`.

        The types are protobuf classes, or any function from message to bytes and one back, or
        None for bytes as they are.
        """
        return self._method(path, request_type, response_type, client_streaming, server_streaming)

    # -- the same by kind, for type checkers

    def unary_unary(self, path: str, request_type: ToBytes[Req], response_type: FromBytes[Res]) -> UnaryUnary[Req, Res]:
        """A method with one request and one reply; see `method`."""
        return self._method(path, request_type, response_type)

    def unary_stream(
        self, path: str, request_type: ToBytes[Req], response_type: FromBytes[Res]
    ) -> UnaryStream[Req, Res]:
        """A method with one request and a stream of replies; see `method`."""
        return self._method(path, request_type, response_type, server_streaming=True)

    def stream_unary(
        self, path: str, request_type: ToBytes[Req], response_type: FromBytes[Res]
    ) -> StreamUnary[Req, Res]:
        """A method with a stream of requests and one reply; see `method`."""
        return self._method(path, request_type, response_type, client_streaming=True)

    def stream_stream(
        self, path: str, request_type: ToBytes[Req], response_type: FromBytes[Res]
    ) -> StreamStream[Req, Res]:
        """A method with a stream of requests and a stream of replies; see `method`."""
        return self._method(path, request_type, response_type, client_streaming=True, server_streaming=True)

    def _method(
        self,
        path: str,
        request_type: Any,
        response_type: Any,
        client_streaming: bool = False,
        server_streaming: bool = False,
    ) -> Method[Any, Any]:
        return Method(
            self._state,
            self._session,
            checked_path(path),
            serializer(request_type, path),
            deserializer(response_type),
            client_streaming,
            server_streaming,
        )
