"""An interceptor is user code around each call of a channel, with the same shape for all kinds of methods.

    @asynccontextmanager
    async def add_user(call, next):
        async with next(replace(call, metadata=[*call.metadata, ("user", "7")])) as stream:
            yield stream

Code before the inner `async with` runs before the call has a host, code after it when the call is over. `stream` is the
open call; the user gets the object that is yielded. A channel without interceptors does not use this file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from inspect import isasyncgenfunction, iscoroutinefunction
from typing import Any, Generic, TypeAlias, TypeVar

import trio

from trxds.core import metadata as md
from trxds.core.arguments import check_callable, check_type
from trxds.core.metadata import Metadata, Pairs
from trxds.core.status import CANCELLED, OK, RpcError, Status
from trxds.transport.compression import Compression

from .call_credentials import CallCredentials
from .call_protocol import CallProtocol, ResponseStream

Req = TypeVar("Req")
Res = TypeVar("Res")


@dataclass(frozen=True, slots=True)
class CallDetails:
    """The method and options of a call. `dataclasses.replace` changes them for `next`; `timeout` counts from there."""

    method: str
    """The path, such as `/shop.Cart/Add`."""

    metadata: Pairs = field(default=md.EMPTY, repr=False)  # a list would show its values
    timeout: float | None = None
    wait_for_ready: bool | None = None
    compression: Compression | None = None
    credentials: CallCredentials | None = None
    client_streaming: bool = False
    server_streaming: bool = False
    authority: str | None = None


Next: TypeAlias = Callable[[CallDetails], AbstractAsyncContextManager[CallProtocol[Any, Any]]]
"""The next step of a call: `async with next(call) as stream` makes it, and raises the `RpcError` of its failure."""

Interceptor: TypeAlias = Callable[[CallDetails, Next], AbstractAsyncContextManager[CallProtocol[Any, Any]]]
"""A function of a call and the next step; it returns an async context manager whose value is the call for its user."""


def check_interceptors(interceptors: Iterable[Interceptor]) -> tuple[Interceptor, ...]:
    """Return the interceptors; `TypeError` unless they are functions in a list, or in another iterable."""
    check_type("interceptors", interceptors, Iterable, "a list of functions, as in [add_user]")
    found = tuple(interceptors)
    for each in found:
        check_callable("each of interceptors", each, "a function of a call and the next step")
        if iscoroutinefunction(each) or isasyncgenfunction(each):
            raise TypeError(f"interceptor {name_of(each)} is a plain `async def`; put @asynccontextmanager before it")
    return found


def name_of(interceptor: Callable[..., object]) -> str:
    """Return the interceptor's name for errors."""
    return getattr(interceptor, "__qualname__", type(interceptor).__qualname__)


class ForwardingCall(ResponseStream[Res], Generic[Req, Res]):
    """A call that forwards to `call`, for interceptors that see or change messages; override the methods to change.

    Its coroutines are checkpoints where those of `call` are.
    """

    def __init__(self, call: CallProtocol[Req, Res]) -> None:
        self.call = call

    async def send(self, request: Req, *, compress: bool = True) -> bool:
        """Send one message; see `Call.send`."""
        return await self.call.send(request, compress=compress)

    def done_sending(self) -> None:
        """Close this side of the call; see `Call.done_sending`."""
        self.call.done_sending()

    async def receive(self) -> Res | None:
        """Return the next message; iteration calls this too."""
        return await self.call.receive()

    async def wait_initial_metadata(self) -> Metadata:
        return await self.call.wait_initial_metadata()

    def cancel(self) -> bool:
        return self.call.cancel()

    @property
    def initial_metadata(self) -> Metadata | None:
        return self.call.initial_metadata

    @property
    def trailing_metadata(self) -> Metadata:
        return self.call.trailing_metadata

    @property
    def status(self) -> Status | None:
        return self.call.status

    @property
    def peer(self) -> str:
        return self.call.peer

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.call!r}>"


class FixedResponseCall(ResponseStream[Res]):
    """A call that an interceptor answers without a server, with these replies and OK; to fail it, raise `RpcError`.

    Its coroutines are always checkpoints. Its status is set with the last reply, or by `cancel`.
    """

    def __init__(self, *replies: Res, initial_metadata: Pairs = (), trailing_metadata: Pairs = ()) -> None:
        self._replies = deque(replies)
        # Checked like a caller's metadata, so that a wrong pair raises in the interceptor that wrote it.
        self._initial = md.check(initial_metadata, is_sent=False)
        self._trailing = md.check(trailing_metadata, is_sent=False)
        self._status: Status | None = None

    async def send(self, request: Any, *, compress: bool = True) -> bool:
        """Discard the message and return False, as for a server that has ended the call already."""
        await trio.lowlevel.checkpoint()
        return False

    def done_sending(self) -> None:
        """Do nothing: there is no server."""

    def cancel(self) -> bool:
        """Drop the other replies and set CANCELLED; return False if all have been received."""
        if self._status is not None:
            return False
        self._status = CANCELLED
        return True

    async def receive(self) -> Res | None:
        """Return the next reply; None after the last one."""
        await trio.lowlevel.checkpoint()
        if self._status is CANCELLED:
            raise RpcError(CANCELLED, self._initial)
        reply = self._replies.popleft() if self._replies else None
        if not self._replies:
            self._status = OK
        return reply

    async def wait_initial_metadata(self) -> Metadata:
        await trio.lowlevel.checkpoint()
        return self._initial

    @property
    def initial_metadata(self) -> Metadata:
        return self._initial

    @property
    def trailing_metadata(self) -> Metadata:
        return self._trailing if self._status is OK else md.EMPTY

    @property
    def peer(self) -> str:
        return ""

    @property
    def status(self) -> Status | None:
        return self._status
