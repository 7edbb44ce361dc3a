"""A `SessionRegistry` holds the open sessions of a channel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from trxds.core.observers import Observers
from trxds.session_affinity.session import SessionCookies


class SessionRegistry:
    """The registry numbers sessions, and reports them to observers."""

    def __init__(self, observers: Observers) -> None:
        self.open: set[SessionCookies] = set()
        self._numbers = count(1)
        self._observers = observers

    @contextmanager
    def session(self, wait_for_first: bool) -> Iterator[SessionCookies]:
        """Open a session for as long as the block lasts."""
        session = SessionCookies(wait_for_first, next(self._numbers))
        self.open.add(session)
        self._observers.session_opened(session.number)
        try:
            yield session
        finally:
            self.open.discard(session)
            self._observers.session_closed(session.number)
