"""This file opens channels for threads, and runs the `trxds.Channel` of each in a Trio thread of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from functools import partial, wraps
from typing import Any, Literal, ParamSpec, TypeVar

import trxds
from trxds.core.metadata import Pairs
from trxds.portal.hand_over import channel_thread, run_sync
from trxds.portal.views import ChannelView
from trxds.session_affinity.session_token import Key

from .hand_over import ContextBridge, HandOver, Steps
from .session import Session, SessionPool
from .stub import MethodFactory

T = TypeVar("T")
P = ParamSpec("P")


class Channel(ChannelView[HandOver], MethodFactory):
    """A channel makes calls to one target, in any thread, while the block of its `open_channel` lasts."""

    def wait_for_state_change(self, last: trxds.Connectivity | None) -> trxds.Connectivity | None:
        """Wait until the state is not `last`, and return it; see `trxds.Channel.wait_for_state_change`."""
        return self._hand_over.wait_while_open(partial(self._wrapped.wait_for_state_change, last))

    def hosts(self, *, watch: bool = False) -> Iterator[trxds.Host]:
        """Return an iterator of the present hosts, and with `watch` of changes; see `trxds.Channel.hosts`."""
        return Steps(self._hand_over, self._wrapped.hosts(watch=watch), watch=watch)

    def try_to_connect(self) -> None:
        """Make the channel connect without a call, if it is IDLE."""
        self._hand_over.wait(partial(run_sync, self._wrapped.try_to_connect))

    @contextmanager
    def session(
        self,
        token: str | None = None,
        *,
        key: Key | None = None,
        wait_for_first: bool = True,
        first_within: float = 5.0,
        require: bool = False,
    ) -> Iterator[Session]:
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
        with bridge as session:
            yield Session(self._hand_over, session)

    @contextmanager
    def sessions(
        self,
        *,
        max: int,
        idle: float | None = None,
        when_full: Literal["wait", "fail"] = "wait",
        wait_for_first: bool = True,
        first_within: float = 5.0,
        require: bool = False,
    ) -> Iterator[SessionPool]:
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
        with ContextBridge(self._hand_over, opening) as pool:
            yield SessionPool(self._hand_over, pool)

    @contextmanager
    def rebalance_sessions(self, *, per_second: float, idle_for: float, tolerance: float = 0.1) -> Iterator[None]:
        """Release idle sessions of hosts with more than their fair share; see `trxds.Channel.rebalance_sessions`."""
        opening = partial(
            self._wrapped.rebalance_sessions, per_second=per_second, idle_for=idle_for, tolerance=tolerance
        )
        with ContextBridge(self._hand_over, opening):
            yield

    def explain(self, method: str, metadata: Pairs = (), timeout: float | None = None) -> trxds.Explanation:
        """Explain where a call of `method` would go now; see `trxds.Channel.explain`."""
        return self._hand_over.wait(partial(self._wrapped.explain, method, metadata, timeout))

    def submit(self, function: Callable[..., Awaitable[T]], *args: Any) -> Future[T]:
        """Run `await function(channel, *args)` in Trio's thread, with the `trxds.Channel` there; return its future.

        Use it for work that needs a task rather than a thread: several calls at once, or a stream in the background.
        Cancelling the future cancels the function, and so does closing the channel.
        """
        future: Future[T] = Future()
        self._hand_over.start(future, partial(function, self._wrapped, *args))
        return future


def _for_threads(
    opening: Callable[P, AbstractAsyncContextManager[trxds.Channel]],
) -> Callable[P, AbstractContextManager[Channel]]:
    @contextmanager
    @wraps(opening)
    def opened(*args: P.args, **kwargs: P.kwargs) -> Iterator[Channel]:
        thread = channel_thread(HandOver, opening, *args, **kwargs)
        hand_over = thread.start()
        try:
            yield Channel(hand_over, hand_over.channel)
        finally:
            thread.stop()

    return opened


open_channel = _for_threads(trxds.open_channel)
"""Open a channel for as long as the block lasts: `with trxds.sync.open_channel(target) as channel`.

Entering starts a thread in which Trio runs, and leaving ends it. It takes the arguments of `trxds.open_channel` and
raises the same errors, but `xds` is a `ValueError`: each channel has an xDS client of its own.
"""
