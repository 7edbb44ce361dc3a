"""A `SessionRegistry` holds the open sessions of a channel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from trxds.core.observers import Observers
from trxds.session_affinity.session import SessionCookies

from .dataplane import LiveDataPlane
from .lifecycle import ChannelLifecycle
from .open_session import OpenSession, UnstickyMethods, check_first_within
from .pinned_sessions import PinnedSessions


class SessionRegistry:
    """The registry numbers sessions, and reports them to observers."""

    def __init__(
        self, observers: Observers, lifecycle: ChannelLifecycle, data_plane: LiveDataPlane, now: Callable[[], float]
    ) -> None:
        self.open: dict[SessionCookies, OpenSession] = {}
        self.pinned = PinnedSessions(lifecycle.target, observers, data_plane, now)
        self.unsticky = UnstickyMethods(lifecycle.target)
        self._lifecycle = lifecycle
        self._now = now
        self._numbers = count(1)
        self._observers = observers

    @contextmanager
    def session(self, wait_for_first: bool, first_within: float, *, required: bool) -> Iterator[OpenSession]:
        """Open a session for as long as the block lasts."""
        check_first_within(first_within)
        cookies = SessionCookies(wait_for_first, next(self._numbers), listener=self.pinned)
        session = OpenSession(
            cookies, self._lifecycle, self.unsticky, self._now, required=required, first_within=first_within
        )
        self.open[cookies] = session
        self._observers.session_opened(cookies.number)
        try:
            yield session
        finally:
            session.end()
            self.open.pop(cookies, None)
            self.pinned.close(cookies)
            self._observers.session_closed(cookies.number)
