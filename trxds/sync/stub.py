"""This file makes methods for threads, of a channel or a session."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from google.protobuf.descriptor import ServiceDescriptor

import trxds
from trxds.client.stub import FromBytes, M, ToBytes
from trxds.portal.views import View

from .calls import Method, StreamStream, StreamUnary, UnaryStream, UnaryUnary
from .hand_over import HandOver

Req = TypeVar("Req")
Res = TypeVar("Res")


class MethodFactory(View[HandOver, trxds.MethodFactory]):
    """A `MethodFactory` makes methods that any thread can call: it is a channel, or a session of one."""

    def stub(self, service: ServiceDescriptor) -> Any:
        """Return the methods of a service, as attributes; `TypeError` for anything but its protobuf descriptor."""
        stub = self._wrapped.stub(service)
        # The values are replaced during the iteration, which a dict allows, because its keys stay.
        for name, method in vars(stub).items():
            if isinstance(method, trxds.Method):
                setattr(stub, name, Method(self._hand_over, method))
        return stub

    @overload
    def method(
        self,
        path: str,
        request_type: None = None,
        response_type: None = None,
        *,
        client_streaming: bool = False,
        server_streaming: bool = False,
    ) -> Method[bytes, bytes]: ...
    @overload
    def method(
        self,
        path: str,
        request_type: type[M],
        response_type: FromBytes[Res],
        *,
        client_streaming: bool = False,
        server_streaming: bool = False,
    ) -> Method[M, Res]: ...
    @overload
    def method(
        self,
        path: str,
        request_type: ToBytes[Req],
        response_type: FromBytes[Res],
        *,
        client_streaming: bool = False,
        server_streaming: bool = False,
    ) -> Method[Req, Res]: ...
    @overload
    def method(
        self,
        path: str,
        request_type: type[Any] | ToBytes[Any] | None = None,
        response_type: FromBytes[Any] | None = None,
        *,
        client_streaming: bool = False,
        server_streaming: bool = False,
    ) -> Method[Any, Any]: ...
    def method(
        self,
        path: str,
        request_type: Any = None,
        response_type: Any = None,
        *,
        client_streaming: bool = False,
        server_streaming: bool = False,
    ) -> Method[Any, Any]:
        """Return one method by its path, `/package.Service/Method`; see `trxds.Channel.method`."""
        streaming = {"client_streaming": client_streaming, "server_streaming": server_streaming}
        return Method(self._hand_over, self._wrapped.method(path, request_type, response_type, **streaming))

    @overload
    def unary_unary(self, path: str, request_type: type[M], response_type: FromBytes[Res]) -> UnaryUnary[M, Res]: ...
    @overload
    def unary_unary(
        self, path: str, request_type: ToBytes[Req], response_type: FromBytes[Res]
    ) -> UnaryUnary[Req, Res]: ...
    def unary_unary(self, path: str, request_type: Any, response_type: Any) -> Any:
        """Return a method with one request and one reply; see `method`."""
        return self.method(path, request_type, response_type)

    @overload
    def unary_stream(self, path: str, request_type: type[M], response_type: FromBytes[Res]) -> UnaryStream[M, Res]: ...
    @overload
    def unary_stream(
        self, path: str, request_type: ToBytes[Req], response_type: FromBytes[Res]
    ) -> UnaryStream[Req, Res]: ...
    def unary_stream(self, path: str, request_type: Any, response_type: Any) -> Any:
        """Return a method with one request and a stream of replies; see `method`."""
        return self.method(path, request_type, response_type, server_streaming=True)

    @overload
    def stream_unary(self, path: str, request_type: type[M], response_type: FromBytes[Res]) -> StreamUnary[M, Res]: ...
    @overload
    def stream_unary(
        self, path: str, request_type: ToBytes[Req], response_type: FromBytes[Res]
    ) -> StreamUnary[Req, Res]: ...
    def stream_unary(self, path: str, request_type: Any, response_type: Any) -> Any:
        """Return a method with a stream of requests and one reply; see `method`."""
        return self.method(path, request_type, response_type, client_streaming=True)

    @overload
    def stream_stream(
        self, path: str, request_type: type[M], response_type: FromBytes[Res]
    ) -> StreamStream[M, Res]: ...
    @overload
    def stream_stream(
        self, path: str, request_type: ToBytes[Req], response_type: FromBytes[Res]
    ) -> StreamStream[Req, Res]: ...
    def stream_stream(self, path: str, request_type: Any, response_type: Any) -> Any:
        """Return a method with a stream of requests and a stream of replies; see `method`."""
        return self.method(path, request_type, response_type, client_streaming=True, server_streaming=True)
