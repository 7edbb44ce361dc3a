"""This file has the sessions of a channel for threads."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from functools import partial

import trxds
from trxds.core.metadata import Pairs
from trxds.portal.hand_over import run_sync
from trxds.portal.views import BoundCallsView, SessionPoolView, SessionView, View
from trxds.session_affinity.session_token import Key

from .hand_over import ContextBridge, HandOver, Steps
from .stub import MethodFactory


class SessionEvents(Steps[trxds.SessionEvent], View[HandOver, trxds.SessionEvents]):
    """The iterator of `Session.events`; each step waits for the next event. See `trxds.SessionEvents`."""

    def __init__(self, hand_over: HandOver, events: trxds.SessionEvents) -> None:
        Steps.__init__(self, hand_over, events)
        View.__init__(self, hand_over, events)


class BoundCalls(BoundCallsView[HandOver], MethodFactory):
    """Calls that go to one host of a session and to no other; see `trxds.BoundCalls`."""


class Session(SessionView[HandOver], MethodFactory):
    """The calls of one session, from any thread; see `trxds.Session`."""

    def events(self) -> SessionEvents:
        """Return an iterator of the session's events from now on; see `trxds.Session.events`."""
        return SessionEvents(self._hand_over, self._hand_over.wait(partial(run_sync, self._wrapped.events)))

    def wait_draining(self) -> trxds.SessionDraining:
        """Wait until the session's host is declared DRAINING; see `trxds.Session.wait_draining`."""
        event = self._hand_over.wait_while_open(self._wrapped.wait_draining)
        if event is None:
            raise self._hand_over.closed_error()
        return event

    @contextmanager
    def moving(self, cookie: trxds.CookieKey | None = None) -> Iterator[tuple[BoundCalls, BoundCalls]]:
        """Move the session to another host, with a block to hand state over; see `trxds.Session.moving`."""
        with ContextBridge(self._hand_over, partial(self._wrapped.moving, cookie)) as (old, new):
            yield BoundCalls(self._hand_over, old), BoundCalls(self._hand_over, new)

    def release(self, cookie: trxds.CookieKey | None = None) -> None:
        """Give up the session's host, so that the next call chooses anew; see `trxds.Session.release`."""
        self._hand_over.wait(partial(run_sync, self._wrapped.release, cookie))

    def explain(self, method: str, metadata: Pairs = (), timeout: float | None = None) -> trxds.Explanation:
        """Explain where a call of the session would go now; see `trxds.Session.explain`."""
        return self._hand_over.wait(partial(self._wrapped.explain, method, metadata, timeout))


class SessionPool(SessionPoolView[HandOver]):
    """A session for each user, from any thread; see `trxds.SessionPool`."""

    @contextmanager
    def session(self, user: Hashable, /, token: str | None = None, *, key: Key | None = None) -> Iterator[Session]:
        """Open the session of a user, for a block of calls; see `trxds.SessionPool.session`."""
        bridge = ContextBridge(self._hand_over, partial(self._wrapped.session, user, token, key=key))
        del user, token, key  # they may be credentials: no traceback of what follows has them
        with bridge as session:
            yield Session(self._hand_over, session)
