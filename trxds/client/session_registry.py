"""A `SessionRegistry` holds the open sessions of a channel."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from trxds.core.observers import Observers
from trxds.resolver.target_uri import canonical
from trxds.session_affinity.session import SessionCookies
from trxds.session_affinity.session_token import Key, SessionToken, SessionTokenError, checked_keys, decode_token

from .lifecycle import ChannelLifecycle
from .open_session import OpenSession, UnstickyMethods, check_first_within


class SessionRegistry:
    """The registry numbers sessions, and reports them to observers."""

    def __init__(self, observers: Observers, lifecycle: ChannelLifecycle, now: Callable[[], float]) -> None:
        self.open: set[SessionCookies] = set()
        self.unsticky = UnstickyMethods(lifecycle.target)
        self.epoch: Callable[[], float] = time.time
        self._lifecycle = lifecycle
        self._now = now
        self._numbers = count(1)
        self._observers = observers

    @contextmanager
    def session(
        self, wait_for_first: bool, first_within: float, *, required: bool, token: SessionToken | None = None
    ) -> Iterator[OpenSession]:
        """Open a session, or continue that of a token, for as long as the block lasts."""
        check_first_within(first_within)
        cookies = self.add(wait_for_first, token)
        try:
            with self.block(cookies, first_within, required=required) as session:
                yield session
        finally:
            self.remove(cookies)

    def read(self, token: str | None, key: Key | None) -> SessionToken | SessionTokenError | None:
        """Return what a token holds, or the error of one that cannot be used here."""
        keys = checked_keys(key)
        return None if token is None else decode_token(token, canonical(self._lifecycle.target), keys)

    def add(self, wait_for_first: bool, token: SessionToken | None = None) -> SessionCookies:
        """Open a session, or continue that of a token, until `remove`."""
        cookies = SessionCookies(wait_for_first, next(self._numbers), self.epoch)
        if token is not None:
            cookies.restore(token)  # before it is reported: it may have its host already
        self.open.add(cookies)
        self._observers.session_opened(cookies.number)
        return cookies

    def remove(self, cookies: SessionCookies) -> None:
        """End a session. Idempotent."""
        if cookies in self.open:
            self.open.discard(cookies)
            self._observers.session_closed(cookies.number)

    @contextmanager
    def block(self, cookies: SessionCookies, first_within: float, *, required: bool) -> Iterator[OpenSession]:
        """Let calls be made in a session; those that are open when the block ends are cancelled."""
        session = OpenSession(
            cookies, self._lifecycle, self.unsticky, self._now, required=required, first_within=first_within
        )
        try:
            yield session
        finally:
            session.end()
