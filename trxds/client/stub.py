"""This file makes callable methods from a path, or from a service's protobuf descriptor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from .channel_state import ChannelState
from .intercepted import InterceptedMethod
from .interceptors import Interceptor
from .messages import deserializer, is_message, serializer
from .method import Method, checked_path
from .method_types import StreamStream, StreamUnary, UnaryStream, UnaryUnary
from .open_session import OpenSession

if TYPE_CHECKING:
    from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
    from google.protobuf.message import Message

Req = TypeVar("Req")
Res = TypeVar("Res")
M = TypeVar("M", bound="Message | bytes")
ToBytes: TypeAlias = Callable[[Req], bytes]
FromBytes: TypeAlias = type[Res] | Callable[[bytes], Res]  # a class is `bytes` or one of protobuf's


class Stub:
    """A stub has the methods of one service as attributes."""

    def __init__(self, service: ServiceDescriptor, caller: MethodFactory) -> None:
        self._service = service
        for method in service.methods:
            # Made once for all calls: a method has the message classes and the settings of its calls ready.
            setattr(self, method.name, _method_of(method, caller))

    def __getattr__(self, name: str) -> Any:
        known = ", ".join(method.name for method in self._service.methods)
        raise AttributeError(f"{self._service.full_name} has no method {name}; it has {known}")

    def __repr__(self) -> str:
        return f"<Stub {self._service.full_name}>"


def _method_of(method: MethodDescriptor, caller: MethodFactory) -> Method[Any, Any]:
    from google.protobuf.message_factory import GetMessageClass

    return caller.method(
        f"/{method.containing_service.full_name}/{method.name}",
        GetMessageClass(method.input_type),
        GetMessageClass(method.output_type),
        client_streaming=method.client_streaming,
        server_streaming=method.server_streaming,
    )


class MethodFactory(ABC):
    """A `MethodFactory` makes methods that can be called: it is a channel, or a session of one."""

    def stub(self, service: ServiceDescriptor) -> Any:
        """Return the methods of a service, as attributes; `TypeError` for anything but its protobuf descriptor."""
        # Imported late: a program that sends bytes does not need protobuf.
        from google.protobuf.descriptor import ServiceDescriptor

        if not isinstance(service, ServiceDescriptor):
            raise TypeError(
                f'stub takes a ServiceDescriptor, as in pb2.DESCRIPTOR.services_by_name["Greeter"], not {service!r}'
            )
        return Stub(service, self)

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
        """Return one method by its path, `/package.Service/Method`; `ValueError` for another form.

        The types are protobuf classes, or functions (from request to bytes, from bytes to reply), or `bytes`, which is
        also the default. Type checkers know the method by them, as a `Method[Request, Reply]`.
        """
        return self._method(path, request_type, response_type, client_streaming, server_streaming)

    # -- the same by kind: type checkers allow only the calls of that kind. A class as `request_type` has an overload of
    # its own, because `bytes` is a function to bytes too, of much more than bytes.

    @overload
    def unary_unary(self, path: str, request_type: type[M], response_type: FromBytes[Res]) -> UnaryUnary[M, Res]: ...
    @overload
    def unary_unary(
        self, path: str, request_type: ToBytes[Req], response_type: FromBytes[Res]
    ) -> UnaryUnary[Req, Res]: ...
    def unary_unary(self, path: str, request_type: Any, response_type: Any) -> Any:
        """Return a method with one request and one reply; see `method`."""
        return self._method(path, request_type, response_type)

    @overload
    def unary_stream(self, path: str, request_type: type[M], response_type: FromBytes[Res]) -> UnaryStream[M, Res]: ...
    @overload
    def unary_stream(
        self, path: str, request_type: ToBytes[Req], response_type: FromBytes[Res]
    ) -> UnaryStream[Req, Res]: ...
    def unary_stream(self, path: str, request_type: Any, response_type: Any) -> Any:
        """Return a method with one request and a stream of replies; see `method`."""
        return self._method(path, request_type, response_type, server_streaming=True)

    @overload
    def stream_unary(self, path: str, request_type: type[M], response_type: FromBytes[Res]) -> StreamUnary[M, Res]: ...
    @overload
    def stream_unary(
        self, path: str, request_type: ToBytes[Req], response_type: FromBytes[Res]
    ) -> StreamUnary[Req, Res]: ...
    def stream_unary(self, path: str, request_type: Any, response_type: Any) -> Any:
        """Return a method with a stream of requests and one reply; see `method`."""
        return self._method(path, request_type, response_type, client_streaming=True)

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
        return self._method(path, request_type, response_type, client_streaming=True, server_streaming=True)

    @abstractmethod
    def _method(
        self,
        path: str,
        request_type: Any,
        response_type: Any,
        client_streaming: bool = False,
        server_streaming: bool = False,
    ) -> Method[Any, Any]: ...


class CallerMethodFactory(MethodFactory):
    """A `CallerMethodFactory` makes methods whose calls run in the Trio task of their caller."""

    def __init__(
        self,
        state: ChannelState,
        interceptors: Sequence[Interceptor] = (),
        session: OpenSession | None = None,
    ) -> None:
        self._state = state
        self._interceptors = interceptors
        self._session = session

    def _method(
        self,
        path: str,
        request_type: Any,
        response_type: Any,
        client_streaming: bool = False,
        server_streaming: bool = False,
    ) -> Method[Any, Any]:
        kind = partial(InterceptedMethod, self._interceptors) if self._interceptors else Method
        return kind(
            self._state,
            self._session,
            checked_path(path),
            serializer(request_type, path),
            deserializer(response_type, is_streamed=server_streaming),
            client_streaming,
            server_streaming,
            is_message(request_type),
        )
