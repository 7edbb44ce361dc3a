"""An open call that is hedged, until one of its attempts is chosen; from there on it is like any other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import trio

from trxds.ground.metadata import Metadata
from trxds.ground.status import Status, TrxdsInternalError

from .beside import beside
from .call import Call
from .hedging import Hedges
from .rpc import Rpc

Req = TypeVar("Req")
Res = TypeVar("Res")


class HedgedCall(Call[Req, Res]):
    """What is said before there is a choice is kept and said on every attempt."""

    def __init__(
        self,
        rpc: Rpc,
        hedges: Hedges,
        serialize: Callable[[Req], bytes],
        deserialize: Callable[[bytes], Res],
        one_reply: bool = False,
    ) -> None:
        super().__init__(rpc, serialize, deserialize, one_reply)
        self._said = None  # by this call: the hedges keep it
        self._hedges = hedges

    async def send(self, request: Req, *, compress: bool = True) -> bool:
        self._check_unfinished()
        if self._hedges.decided.is_set():
            return await self._sent_by_the_chosen(request, compress)
        payload = self._rpc.outgoing(self._serialize(request), compressed=compress)
        if isinstance(payload, Status):
            raise await self._unsendable(payload)
        self._hedges.say(payload)
        if self._hedges.full:
            await self._rpc.within(self._hedges.choose_any)
        await trio.lowlevel.checkpoint()
        return True

    async def _sent_by_the_chosen(self, request: Req, compress: bool) -> bool:
        await self._decided()
        return await super().send(request, compress=compress)

    def done_sending(self) -> None:
        self._done = True
        if self._hedges.decided.is_set():
            if self._hedges.problem is None:
                super().done_sending()
        else:
            self._hedges.done_saying()

    async def receive(self) -> Res | None:
        await self._decided()
        return await super().receive()

    async def headers(self) -> Metadata:
        await self._decided()
        return await super().headers()

    @property
    def peer(self) -> str:
        """The address of the host that was chosen; empty before."""
        return self._rpc.stream.peer if self._rpc.stream is not None else ""

    async def _decided(self) -> None:
        if not self._hedges.decided.is_set():
            await self._rpc.within(self._hedges.decided.wait)
        if self._hedges.problem is not None:
            self._status = self._hedges.problem
            raise await self._rpc.failure(self._hedges.problem)


@asynccontextmanager
async def hedged(
    rpc: Rpc,
    hedges: Hedges,
    serialize: Callable[[Req], bytes],
    deserialize: Callable[[bytes], Res],
    one_reply: bool = False,
) -> AsyncIterator[Call[Req, Res]]:
    """The attempts run beside the caller's block, and end with it at the latest."""
    crashes: list[BaseException] = []

    def close(crash: BaseException | None) -> None:
        hedges.stop()
        if crash is not None:
            crashes.append(crash)

    async with beside(f"the hedged call to {rpc.path}", {"hedges": hedges.run}, close):
        await rpc.within(hedges.begun)
        yield HedgedCall(rpc, hedges, serialize, deserialize, one_reply)
    if crashes:
        raise TrxdsInternalError(f"a bug in trxds ended the call to {rpc.path}; please report it") from crashes[0]
