"""This file has the four kinds of methods as Protocols, for type checkers.

At run time there is one class, `Method`, for all kinds. `channel.unary_stream(...)` and the stubs that `trxds generate`
writes type it as one of these Protocols, so that a type checker accepts only the calls that the kind supports.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, Self, TypeVar, Unpack, overload

from .call import Call
from .call_protocol import CallOptions, ResponseStream
from .completed_call import CompletedCall
from .hosts import Host

Req = TypeVar("Req")
Res = TypeVar("Res")


class _AnyMethod(Protocol):
    """What a method of each kind has."""

    @property
    def path(self) -> str: ...

    def on(self, host: Host) -> Self:
        """Return the method for calls that go to this host; see `Method.on`."""


class _OneRequest(_AnyMethod, Protocol[Req, Res]):
    """`open` with the request returns a call for its replies; without it, a call for both sides."""

    @overload
    def open(
        self, request: Req, **options: Unpack[CallOptions]
    ) -> AbstractAsyncContextManager[ResponseStream[Res]]: ...
    @overload
    def open(
        self, request: None = None, **options: Unpack[CallOptions]
    ) -> AbstractAsyncContextManager[Call[Req, Res]]: ...


class _ManyRequests(_AnyMethod, Protocol[Req, Res]):
    """`open` takes an optional first request, and returns a call for both sides."""

    def open(
        self, request: Req | None = None, **options: Unpack[CallOptions]
    ) -> AbstractAsyncContextManager[Call[Req, Res]]: ...


class UnaryUnary(_OneRequest[Req, Res], Protocol[Req, Res]):
    """A method with one request and one reply: `reply = await method(request)`."""

    async def __call__(self, request: Req, **options: Unpack[CallOptions]) -> Res: ...
    async def with_call(self, request: Req, **options: Unpack[CallOptions]) -> tuple[Res, CompletedCall]:
        """Make the call; return its reply, and its metadata, status and peer."""


class UnaryStream(_OneRequest[Req, Res], Protocol[Req, Res]):
    """A method with one request and many replies.

    `async with method.open(request) as call: async for reply in call`.
    """


class StreamUnary(_ManyRequests[Req, Res], Protocol[Req, Res]):
    """A method with many requests and one reply: `reply = await method(requests)`, or `open` to send one by one."""

    async def __call__(self, request: Iterable[Req] | AsyncIterable[Req], **options: Unpack[CallOptions]) -> Res: ...
    async def with_call(
        self, request: Iterable[Req] | AsyncIterable[Req], **options: Unpack[CallOptions]
    ) -> tuple[Res, CompletedCall]:
        """Make the call; return its reply, and its metadata, status and peer."""


class StreamStream(_ManyRequests[Req, Res], Protocol[Req, Res]):
    """A method with many requests and replies, in any order: `async with method.open() as call`."""
