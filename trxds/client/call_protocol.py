"""This file types an open call as users and interceptors see it, and the options of a call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, TypedDict, TypeVar

from trxds.core.metadata import Metadata, Pairs
from trxds.core.status import Status
from trxds.transport.compression import Compression

from .call_credentials import CallCredentials

Req_contra = TypeVar("Req_contra", contravariant=True)
Res_co = TypeVar("Res_co", covariant=True)


class CallOptions(TypedDict, total=False):
    """The options that every call takes besides its request; see `Method.__call__`."""

    timeout: float | None
    """Seconds from the call's start, over all attempts."""

    metadata: Pairs
    """Pairs of key and value."""

    wait_for_ready: bool | None
    """Wait for a host instead of failing while there is none."""

    compression: Compression | None
    """Of the requests."""

    credentials: CallCredentials | None
    """They are used in addition to the channel's."""

    authority: str | None
    """The `:authority`, in place of the channel's and of a control plane's."""


class ResponseStream(Protocol[Res_co]):
    """The receiving side of an open call whose request has been sent: `async for reply in call`, or `receive`."""

    async def receive(self) -> Res_co | None:
        """Return the next message; None when the server has ended the call with OK. Raises `RpcError` if it failed."""

    async def wait_initial_metadata(self) -> Metadata:
        """Wait for the server's initial metadata; empty for a trailers-only response.

        Raises `RpcError` if the call has ended without a response.
        """

    def cancel(self) -> bool:
        """End the call with CANCELLED; return False, and change nothing, if it has a `status` already."""

    @property
    def initial_metadata(self) -> Metadata | None:
        """The server's initial metadata; None until it has arrived, empty for a trailers-only response."""

    @property
    def trailing_metadata(self) -> Metadata:
        """The metadata that came with the status; empty before the call's end."""

    @property
    def status(self) -> Status | None:
        """The call's status; None until its end has been received, or its block left."""

    @property
    def peer(self) -> str:
        """The address of the host that has the call; empty while there is none."""

    def __aiter__(self) -> AsyncIterator[Res_co]:
        return self

    async def __anext__(self) -> Res_co:
        reply = await self.receive()
        if reply is None:
            raise StopAsyncIteration
        return reply


class CallProtocol(ResponseStream[Res_co], Protocol[Req_contra, Res_co]):
    """An open call with the methods of `Call`: a `Call`, or the object that an interceptor puts in its place."""

    async def send(self, request: Req_contra, *, compress: bool = True) -> bool:
        """Send one message; return False if the server has already ended the call with OK."""

    def done_sending(self) -> None:
        """Close this side of the call: no more messages follow."""
