"""This file has the sessions of a channel for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from functools import partial

import trxds
from trxds.core.metadata import Pairs
from trxds.portal.hand_over import run_sync
from trxds.portal.views import BoundCallsView, SessionPoolView, SessionView
from trxds.session_affinity.session_token import Key

from .calls import MethodFactory
from .hand_over import ContextBridge, HandOver, Steps


class SessionEvents(Steps[trxds.SessionEvent]):
    """The async iterator of `Session.events`; see `trxds.SessionEvents`. A cancelled step loses no event."""

    def __init__(self, hand_over: HandOver, session: trxds.Session) -> None:
        self._session = session
        subscription = _Subscription(session)
        super().__init__(hand_over, subscription.receive)
        hand_over.call_soon(subscription.begin)

    def __repr__(self) -> str:
        return f"<trxds.aio events of {self._session!r}>"


class _Subscription:
    """The part of `SessionEvents` in Trio's thread. It does not refer to it, so a step there does not keep it."""

    def __init__(self, session: trxds.Session) -> None:
        self._session = session
        self._events: trxds.SessionEvents | None = None
        self._error: Exception | None = None

    def begin(self) -> None:
        try:
            self._events = self._session.events()
        except Exception as error:
            self._error = error

    async def receive(self) -> trxds.SessionEvent | None:
        if self._events is None:
            assert self._error is not None
            raise self._error
        return await anext(self._events, None)


class BoundCalls(BoundCallsView[HandOver], MethodFactory):
    """Calls that go to one host of a session and to no other; see `trxds.BoundCalls`."""


class Session(SessionView[HandOver], MethodFactory):
    """The calls of one session, from any asyncio task; see `trxds.Session`."""

    def events(self) -> SessionEvents:
        """Return an async iterator of the session's events from now on; see `trxds.Session.events`.

        Its first step raises `trio.ClosedResourceError` if the session has ended.
        """
        return SessionEvents(self._hand_over, self._wrapped)

    async def wait_draining(self) -> trxds.SessionDraining:
        """Wait until the session's host is declared DRAINING; see `trxds.Session.wait_draining`."""
        event = await self._hand_over.wait_while_open(self._wrapped.wait_draining)
        if event is None:
            raise self._hand_over.trio.closed_error()
        return event

    @asynccontextmanager
    async def moving(self, cookie: trxds.CookieKey | None = None) -> AsyncIterator[tuple[BoundCalls, BoundCalls]]:
        """Move the session to another host, with a block to hand state over; see `trxds.Session.moving`."""
        async with ContextBridge(self._hand_over, partial(self._wrapped.moving, cookie)) as (old, new):
            yield BoundCalls(self._hand_over, old), BoundCalls(self._hand_over, new)

    async def release(self, cookie: trxds.CookieKey | None = None) -> None:
        """Give up the session's host, so that the next call chooses anew; see `trxds.Session.release`."""
        await self._hand_over.wait(partial(run_sync, self._wrapped.release, cookie))

    async def explain(self, method: str, metadata: Pairs = (), timeout: float | None = None) -> trxds.Explanation:
        """Explain where a call of the session would go now; see `trxds.Session.explain`."""
        return await self._hand_over.wait(partial(self._wrapped.explain, method, metadata, timeout))


class SessionPool(SessionPoolView[HandOver]):
    """A session for each user, from any asyncio task; see `trxds.SessionPool`."""

    @asynccontextmanager
    async def session(
        self, user: Hashable, /, token: str | None = None, *, key: Key | None = None
    ) -> AsyncIterator[Session]:
        """Open the session of a user, for a block of calls; see `trxds.SessionPool.session`."""
        bridge = ContextBridge(self._hand_over, partial(self._wrapped.session, user, token, key=key))
        del user, token, key  # they may be credentials: no traceback of what follows has them
        async with bridge as session:
            yield Session(self._hand_over, session)
