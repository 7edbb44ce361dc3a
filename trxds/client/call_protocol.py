"""This file types an open call as users and interceptors see it, and the options of a call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Protocol, TypeAlias, TypedDict, TypeVar

from trxds.core.metadata import Metadata, Value
from trxds.core.status import Status
from trxds.transport.compression import Compression

from .call_credentials import CallCredentials

Req_contra = TypeVar("Req_contra", contravariant=True)
Res_co = TypeVar("Res_co", covariant=True)
Pairs: TypeAlias = Iterable[tuple[str, Value]]


class CallOptions(TypedDict, total=False):
    """The options that every call takes besides its request; see `Method.__call__`."""

    timeout: float | None
    metadata: Pairs
    wait_for_ready: bool | None
    compression: Compression | None
    credentials: CallCredentials | None


class ResponseStream(Protocol[Res_co]):
    """The receiving side of an open call whose request has been sent; see `Call`."""

    async def receive(self) -> Res_co | None: ...
    async def wait_initial_metadata(self) -> Metadata: ...
    def cancel(self) -> bool: ...
    @property
    def initial_metadata(self) -> Metadata | None: ...
    @property
    def trailing_metadata(self) -> Metadata: ...
    @property
    def status(self) -> Status | None: ...
    @property
    def peer(self) -> str: ...

    def __aiter__(self) -> AsyncIterator[Res_co]:
        return self

    async def __anext__(self) -> Res_co:
        reply = await self.receive()
        if reply is None:
            raise StopAsyncIteration
        return reply


class CallProtocol(ResponseStream[Res_co], Protocol[Req_contra, Res_co]):
    """An open call with the methods of `Call`: a `Call`, or the object that an interceptor puts in its place."""

    async def send(self, request: Req_contra, *, compress: bool = True) -> bool: ...
    def done_sending(self) -> None: ...
