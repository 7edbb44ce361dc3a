"""This file has the sessions of a channel for threads."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import trxds
from trxds.client.call_protocol import Pairs
from trxds.session_affinity.session_token import Key

from .hand_over import ContextBridge, HandOver
from .stub import MethodFactory


class SessionEvents:
    """The iterator of `Session.events`; each step waits for the next event. See `trxds.SessionEvents`."""

    def __init__(self, hand_over: HandOver, events: trxds.SessionEvents) -> None:
        self._hand_over = hand_over
        self._events = events

    def __iter__(self) -> SessionEvents:
        return self

    def __next__(self) -> trxds.SessionEvent:
        event = self._hand_over.wait(self._next)
        if event is None:
            raise StopIteration
        return event

    async def _next(self) -> trxds.SessionEvent | None:
        return await anext(self._events, None)

    def __repr__(self) -> str:
        return f"<trxds.sync {self._events!r}>"


class BoundCalls(MethodFactory):
    """Calls that go to one host of a session and to no other; see `trxds.BoundCalls`."""

    def __init__(self, hand_over: HandOver, calls: trxds.BoundCalls) -> None:
        super().__init__(hand_over, calls)
        self._calls = calls

    @property
    def host(self) -> str:
        """Return the host as `ip:port`."""
        return self._calls.host

    @property
    def cluster(self) -> str:
        """Return the host's cluster."""
        return self._calls.cluster

    def __repr__(self) -> str:
        return f"<trxds.sync {self._calls!r}>"


class Session(MethodFactory):
    """The calls of one session, from any thread; see `trxds.Session`."""

    def __init__(self, hand_over: HandOver, session: trxds.Session) -> None:
        super().__init__(hand_over, session)
        self._session = session

    @property
    def hosts(self) -> Mapping[trxds.CookieKey, trxds.SessionHost]:
        """Return the host and cluster that each cookie names; see `trxds.Session.hosts`."""
        return self._session.hosts

    @property
    def host(self) -> str | None:
        """Return the session's host, None before the first response; see `trxds.Session.host`."""
        return self._session.host

    @property
    def cluster(self) -> str | None:
        """Return the cluster of the session's host; see `trxds.Session.cluster`."""
        return self._session.cluster

    @property
    def since(self) -> float:
        """Return when the session was opened, in seconds on Trio's clock, which `Channel.submit` can read."""
        return self._session.since

    @property
    def calls(self) -> int:
        """Return how many calls have begun in the session."""
        return self._session.calls

    def events(self) -> SessionEvents:
        """Return an iterator of the session's events from now on; see `trxds.Session.events`."""

        async def subscribe() -> trxds.SessionEvents:
            return self._session.events()

        return SessionEvents(self._hand_over, self._hand_over.wait(subscribe))

    def wait_draining(self) -> trxds.SessionDraining:
        """Wait until the session's host is declared DRAINING; see `trxds.Session.wait_draining`."""
        return self._hand_over.wait(self._session.wait_draining)

    @contextmanager
    def moving(self, cookie: trxds.CookieKey | None = None) -> Iterator[tuple[BoundCalls, BoundCalls]]:
        """Move the session to another host, with a block to hand state over; see `trxds.Session.moving`."""
        with ContextBridge(self._hand_over, partial(self._session.moving, cookie)) as (old, new):
            yield BoundCalls(self._hand_over, old), BoundCalls(self._hand_over, new)

    def release(self, cookie: trxds.CookieKey | None = None) -> None:
        """Give up the session's host, so that the next call chooses anew; see `trxds.Session.release`."""

        async def release() -> None:
            self._session.release(cookie)

        self._hand_over.wait(release)

    def explain(self, method: str, metadata: Pairs = (), timeout: float | None = None) -> trxds.Explanation:
        """Explain where a call of the session would go now; see `trxds.Session.explain`."""
        return self._hand_over.wait(partial(self._session.explain, method, metadata, timeout))

    def export(self, *, key: Key | None = None) -> str:
        """Return the session as a token, a credential; see `trxds.Session.export`."""
        return self._session.export(key=key)

    def __repr__(self) -> str:
        return f"<trxds.sync {self._session!r}>"


class SessionPool:
    """A session for each user, from any thread; see `trxds.SessionPool`."""

    def __init__(self, hand_over: HandOver, pool: trxds.SessionPool) -> None:
        self._hand_over = hand_over
        self._pool = pool

    @contextmanager
    def session(self, user: Hashable, /, token: str | None = None, *, key: Key | None = None) -> Iterator[Session]:
        """Open the session of a user, for a block of calls; see `trxds.SessionPool.session`."""
        bridge = ContextBridge(self._hand_over, partial(self._pool.session, user, token, key=key))
        del user, token, key  # they may be credentials: no traceback of what follows has them
        with bridge as session:
            yield Session(self._hand_over, session)

    def __len__(self) -> int:
        return len(self._pool)

    def __repr__(self) -> str:
        return f"<trxds.sync {self._pool!r}>"
