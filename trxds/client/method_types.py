"""The four kinds of method as a type checker sees them: what each takes, and what it gives back.

There is one `Method`, for all kinds. Which of its ways make sense for a method is a matter of
types, so the kinds are Protocols that a `Method` fulfils: `channel.unary_stream(...)`, and the stubs that
`trxds generate` writes, are a `Method` seen through one of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar, Unpack, overload

from .call import Call
from .call_protocol import CallOptions, ResponseStream
from .completed_call import CompletedCall

Req = TypeVar("Req")
Res = TypeVar("Res")


class _OneRequest(Protocol[Req, Res]):
    """With its request, a call is open for its replies; without, for both sides."""

    @property
    def path(self) -> str: ...

    @overload
    def open(
        self, request: Req, **options: Unpack[CallOptions]
    ) -> AbstractAsyncContextManager[ResponseStream[Res]]: ...
    @overload
    def open(
        self, request: None = None, **options: Unpack[CallOptions]
    ) -> AbstractAsyncContextManager[Call[Req, Res]]: ...


class _ManyRequests(Protocol[Req, Res]):
    """A first request may go along; the call is open for both sides."""

    @property
    def path(self) -> str: ...

    def open(
        self, request: Req | None = None, **options: Unpack[CallOptions]
    ) -> AbstractAsyncContextManager[Call[Req, Res]]: ...


class UnaryUnary(_OneRequest[Req, Res], Protocol[Req, Res]):
    """One request, one reply: `reply = await method(request)`."""

    async def __call__(self, request: Req, **options: Unpack[CallOptions]) -> Res: ...
    async def with_call(self, request: Req, **options: Unpack[CallOptions]) -> tuple[Res, CompletedCall]: ...


class UnaryStream(_OneRequest[Req, Res], Protocol[Req, Res]):
    """One request, many replies: `async with method.open(request) as call: async for reply in call`."""


class StreamUnary(_ManyRequests[Req, Res], Protocol[Req, Res]):
    """Many requests, one reply: `reply = await method(requests)`, or `open` to send them one by one."""

    async def __call__(self, request: Iterable[Req] | AsyncIterable[Req], **options: Unpack[CallOptions]) -> Res: ...
    async def with_call(
        self, request: Iterable[Req] | AsyncIterable[Req], **options: Unpack[CallOptions]
    ) -> tuple[Res, CompletedCall]: ...


class StreamStream(_ManyRequests[Req, Res], Protocol[Req, Res]):
    """Many of both, in any order: `async with method.open() as call`."""
