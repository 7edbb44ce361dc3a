"""This file opens channels for asyncio, and runs the `trxds.Channel` of each in a Trio thread of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial, wraps
from typing import Any, Literal, ParamSpec, TypeVar

import trxds
from trxds.core.metadata import Pairs
from trxds.portal import hand_over as portal
from trxds.portal.hand_over import channel_thread, run_sync
from trxds.portal.views import ChannelView
from trxds.session_affinity.session_token import Key

from .calls import MethodFactory
from .hand_over import ContextBridge, HandOver, Steps, start, stop
from .session import Session, SessionPool

T = TypeVar("T")
P = ParamSpec("P")


class Channel(ChannelView[HandOver], MethodFactory):
    """A channel makes calls to one target, in any event loop, while the block of its `open_channel` lasts."""

    async def wait_for_state_change(self, last: trxds.Connectivity | None) -> trxds.Connectivity | None:
        """Wait until the state is not `last`, and return it; see `trxds.Channel.wait_for_state_change`."""
        return await self._hand_over.wait_while_open(partial(self._wrapped.wait_for_state_change, last))

    def states(self) -> AsyncIterator[trxds.Connectivity]:
        """Return an async iterator of the present state and each later one; see `trxds.Channel.states`."""
        return Steps(self._hand_over, partial(anext, self._wrapped.states(), None))

    def hosts(self, *, watch: bool = False) -> AsyncIterator[trxds.Host]:
        """Return an async iterator of the present hosts, and with `watch` of changes; see `trxds.Channel.hosts`."""
        return Steps(self._hand_over, partial(anext, self._wrapped.hosts(watch=watch), None), watch=watch)

    async def try_to_connect(self) -> None:
        """Make the channel connect without a call, if it is IDLE."""
        await self._hand_over.wait(partial(run_sync, self._wrapped.try_to_connect))

    @asynccontextmanager
    async def session(
        self,
        token: str | None = None,
        *,
        key: Key | None = None,
        wait_for_first: bool = True,
        first_within: float = 5.0,
        require: bool = False,
    ) -> AsyncIterator[Session]:
        """Open a session: all calls in the block share one cookie jar, and so one host; see `trxds.Channel.session`."""
        bridge = ContextBridge(
            self._hand_over,
            partial(
                self._wrapped.session,
                token,
                key=key,
                wait_for_first=wait_for_first,
                first_within=first_within,
                require=require,
            ),
        )
        del token, key  # credentials: no traceback of what follows has them
        async with bridge as session:
            yield Session(self._hand_over, session)

    @asynccontextmanager
    async def sessions(
        self,
        *,
        max: int,
        idle: float | None = None,
        when_full: Literal["wait", "fail"] = "wait",
        wait_for_first: bool = True,
        first_within: float = 5.0,
        require: bool = False,
    ) -> AsyncIterator[SessionPool]:
        """Open a pool of sessions, one for each user; see `trxds.Channel.sessions`."""
        opening = partial(
            self._wrapped.sessions,
            max=max,
            idle=idle,
            when_full=when_full,
            wait_for_first=wait_for_first,
            first_within=first_within,
            require=require,
        )
        async with ContextBridge(self._hand_over, opening) as pool:
            yield SessionPool(self._hand_over, pool)

    @asynccontextmanager
    async def rebalance_sessions(
        self, *, per_second: float, idle_for: float, tolerance: float = 0.1
    ) -> AsyncIterator[None]:
        """Release idle sessions of hosts with more than their fair share; see `trxds.Channel.rebalance_sessions`."""
        opening = partial(
            self._wrapped.rebalance_sessions, per_second=per_second, idle_for=idle_for, tolerance=tolerance
        )
        async with ContextBridge(self._hand_over, opening):
            yield

    async def explain(self, method: str, metadata: Pairs = (), timeout: float | None = None) -> trxds.Explanation:
        """Explain where a call of `method` would go now; see `trxds.Channel.explain`."""
        return await self._hand_over.wait(partial(self._wrapped.explain, method, metadata, timeout))

    async def submit(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run `await function(channel, *args)` in Trio's thread, with the `trxds.Channel` there; return its result.

        Use it for many calls or messages at once that need nothing of asyncio: they change threads only once.
        Cancelling the task cancels the function, and so does closing the channel.
        """
        return await self._hand_over.wait(partial(function, self._wrapped, *args))


def _for_asyncio(
    opening: Callable[P, AbstractAsyncContextManager[trxds.Channel]],
) -> Callable[P, AbstractAsyncContextManager[Channel]]:
    @asynccontextmanager
    @wraps(opening)
    async def opened(*args: P.args, **kwargs: P.kwargs) -> AsyncIterator[Channel]:
        thread = channel_thread(portal.HandOver, opening, *args, **kwargs)
        hand_over = await start(thread)
        try:
            yield Channel(hand_over, hand_over.trio.channel)
        finally:
            await stop(thread)

    return opened


open_channel = _for_asyncio(trxds.open_channel)
