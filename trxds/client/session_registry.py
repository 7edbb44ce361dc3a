"""A `SessionRegistry` holds the open sessions of a channel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from trxds.core.determinism import wall_clock
from trxds.core.observers import Observers
from trxds.resolver.target_uri import is_xds
from trxds.session_affinity.session import SessionCookies
from trxds.session_affinity.session_token import Key, SessionToken, SessionTokenError, checked_keys, decode_token

from .dataplane import LiveDataPlane
from .lifecycle import ChannelLifecycle
from .open_session import OpenSession, UnstickyMethods, check_first_within
from .pinned_sessions import PinnedSessions


class SessionRegistry:
    """The registry numbers sessions, and reports them to observers."""

    def __init__(
        self, observers: Observers, lifecycle: ChannelLifecycle, data_plane: LiveDataPlane, now: Callable[[], float]
    ) -> None:
        self.open: dict[SessionCookies, set[OpenSession]] = {}  # with the blocks that make calls in them
        self.pinned = PinnedSessions(lifecycle.target, observers, data_plane, now)
        self.unsticky = UnstickyMethods(lifecycle.target)
        self.epoch: Callable[[], float] = wall_clock()
        self.lifecycle = lifecycle
        self._now = now
        self._numbers = count(1)
        # Without a control plane the target is the cluster, and cookies do not name it.
        self._cluster = "" if is_xds(lifecycle.target) else lifecycle.target
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
        return None if token is None else decode_token(token, self.lifecycle.canonical_target, keys)

    def add(self, wait_for_first: bool, token: SessionToken | None = None) -> SessionCookies:
        """Open a session, or continue that of a token, until `remove`."""
        cookies = SessionCookies(wait_for_first, next(self._numbers), self.epoch, self.pinned)
        self.open[cookies] = set()
        self._observers.session_opened(cookies.number)
        if token is not None:
            cookies.restore(token, self._cluster)
        return cookies

    def remove(self, cookies: SessionCookies) -> None:
        """End a session. Idempotent."""
        if self.open.pop(cookies, None) is not None:
            self.pinned.close(cookies)
            self._observers.session_closed(cookies.number)

    @contextmanager
    def block(self, cookies: SessionCookies, first_within: float, *, required: bool) -> Iterator[OpenSession]:
        """Let calls be made in a session; those that are open when the block ends are cancelled."""
        session = OpenSession(
            cookies, self.lifecycle, self.unsticky, self._now, required=required, first_within=first_within
        )
        blocks = self.open[cookies]
        blocks.add(session)
        try:
            yield session
        finally:
            blocks.discard(session)
            session.end()
