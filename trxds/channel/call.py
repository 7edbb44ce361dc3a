"""An open call, as its user holds it: any of the four kinds, message by message."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Generic, TypeVar

from trxds.ground.metadata import Metadata
from trxds.ground.status import Status
from trxds.wire.stream import ClientStream

from .rpc import Rpc

Req = TypeVar("Req")
Res = TypeVar("Res")


class Call(Generic[Req, Res]):
    """What `async with method.open(...)` gives. One task may send while another receives.

    Leaving the block resets the stream if it has not ended by then. Every method raises
    `RpcError` when the call has failed.
    """

    def __init__(self, rpc: Rpc, serialize: Callable[[Req], bytes], deserialize: Callable[[bytes], Res]) -> None:
        self._rpc = rpc
        self._serialize = serialize
        self._deserialize = deserialize
        self._sends = 0
        self._opening: bytes | None = None  # the first message, for another attempt
        self._done = False
        self._status: Status | None = None

    async def send(self, request: Req) -> bool:
        """Send one message; waits while the server or the socket takes no more.

        False if the server has already ended the call with OK and reads nothing any more.
        """
        payload = self._serialize(request)
        stream = self._stream
        self._sends += 1
        self._opening = payload if self._sends == 1 else None
        if await self._rpc.within(partial(stream.send, payload)) or stream.refused:
            return True  # refused: `receive` says it again elsewhere, or raises
        assert stream.status is not None
        if not stream.status.ok:
            await self._check(self._settle())
        return False

    def done_sending(self) -> None:
        """There are no more messages from this side. Plain and idempotent."""
        self._done = True
        self._stream.end()

    async def receive(self) -> Res | None:
        """The next message; None when the server has ended the call with OK."""
        payload = self._stream.receive_nowait()
        if payload is None and self._status is None:
            payload = await self._rpc.within(self._receive)
        if payload is not None:
            return self._rpc.parse(payload, self._deserialize)
        await self._check(self._settle())
        return None

    def __aiter__(self) -> AsyncIterator[Res]:
        return self

    async def __anext__(self) -> Res:
        reply = await self.receive()
        if reply is None:
            raise StopAsyncIteration
        return reply

    async def headers(self) -> Metadata:
        """Wait for the server's initial metadata; empty if it sends a status and nothing else."""
        if self.initial_metadata is None and self._stream.status is None:
            await self._rpc.within(self._stream.wait_headers)
        return self.initial_metadata or Metadata()

    @property
    def initial_metadata(self) -> Metadata | None:
        """The server's initial metadata; None until it has come."""
        return self._rpc.initial

    @property
    def trailing_metadata(self) -> Metadata:
        """What came with the status; empty before the call's end."""
        return self._rpc.trailing

    @property
    def status(self) -> Status | None:
        """How the call ended; None until `receive` has found out."""
        return self._status

    @property
    def peer(self) -> str:
        """The address of the host that has the call."""
        return self._stream.peer

    # -- underneath

    @property
    def _stream(self) -> ClientStream:
        assert self._rpc.stream is not None
        return self._rpc.stream

    async def _receive(self) -> bytes | None:
        while True:
            stream = self._stream
            payload = await stream.receive()
            if payload is not None or not (stream.refused and self._repeatable and self._rpc.may_go_again()):
                return payload
            problem = await self._rpc.open()
            if problem is not None:
                raise await self._rpc.failure(problem)
            if self._opening is not None:
                await self._stream.send(self._opening)
            if self._done:
                self._stream.end()

    @property
    def _repeatable(self) -> bool:
        return self._sends <= 1

    def _settle(self) -> Status:
        if self._status is None:
            self._status = self._rpc.settle()
        return self._status

    async def _check(self, status: Status) -> None:
        if not status.ok:
            raise await self._rpc.failure(status)

    def __repr__(self) -> str:
        return f"<Call {self._rpc!r}>"
