"""Interceptors: code of the user's own around each call of a channel, in one shape for every kind of call.

    @asynccontextmanager
    async def who(call, next):
        async with next(replace(call, metadata=[*call.metadata, ("user", "7")])) as stream:
            yield stream

What is before the inner `async with` happens before the call has a host, what is behind it when the call is over;
`stream` is the call as its user will have it, and what is yielded in its place is what the user has. A channel
without interceptors makes its calls as if this file did not exist.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

import trio

from trxds.core import metadata as md
from trxds.core.metadata import Metadata
from trxds.core.status import OK, Status

from .call_credentials import CallCredentials
from .call_protocol import CallProtocol, Pairs, ResponseStream

Req = TypeVar("Req")
Res = TypeVar("Res")


@dataclass(frozen=True, slots=True)
class CallDetails:
    """What a call was given. `dataclasses.replace` makes another for `next`; `timeout` counts from there."""

    method: str
    """Such as `/shop.Cart/Add`."""

    metadata: Pairs = field(default=md.EMPTY, repr=False)  # perhaps a plain list, which would show its values
    timeout: float | None = None
    wait_for_ready: bool | None = None
    compression: str | None = None
    credentials: CallCredentials | None = None
    client_streaming: bool = False
    server_streaming: bool = False


Next: TypeAlias = Callable[[CallDetails], AbstractAsyncContextManager[CallProtocol[Any, Any]]]
Interceptor: TypeAlias = Callable[[CallDetails, Next], AbstractAsyncContextManager[CallProtocol[Any, Any]]]


class ForwardingCall(ResponseStream[Res], Generic[Req, Res]):
    """A call that is `call`, for interceptors that see or change messages: override what is to be different.

    Its coroutines are checkpoints where those of `call` are.
    """

    def __init__(self, call: CallProtocol[Req, Res]) -> None:
        self.call = call

    async def send(self, request: Req, *, compress: bool = True) -> bool:
        return await self.call.send(request, compress=compress)

    def done_sending(self) -> None:
        self.call.done_sending()

    async def receive(self) -> Res | None:
        """Iteration comes here too."""
        return await self.call.receive()

    async def wait_initial_metadata(self) -> Metadata:
        return await self.call.wait_initial_metadata()

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
    """A call that an interceptor answers by itself, with OK and these replies; for a failure it raises `RpcError`.

    Its coroutines are always checkpoints. Its status is there with the last reply.
    """

    def __init__(self, *replies: Res, initial_metadata: Pairs = (), trailing_metadata: Pairs = ()) -> None:
        self._replies = deque(replies)
        self._initial = md.check(initial_metadata)
        self._trailing = md.check(trailing_metadata)
        self._over = False

    async def send(self, request: Any, *, compress: bool = True) -> bool:
        """Nobody reads it, as with a server that has answered already."""
        await trio.lowlevel.checkpoint()
        return False

    def done_sending(self) -> None:
        pass

    async def receive(self) -> Res | None:
        await trio.lowlevel.checkpoint()
        reply = self._replies.popleft() if self._replies else None
        self._over = not self._replies
        return reply

    async def wait_initial_metadata(self) -> Metadata:
        await trio.lowlevel.checkpoint()
        return self._initial

    @property
    def initial_metadata(self) -> Metadata:
        return self._initial

    @property
    def trailing_metadata(self) -> Metadata:
        return self._trailing if self._over else md.EMPTY

    @property
    def peer(self) -> str:
        return ""

    @property
    def status(self) -> Status | None:
        return OK if self._over else None
