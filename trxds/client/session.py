"""A `Session` is what programs see of `channel.session()`: its calls, its hosts, their events, and moves on purpose."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager

from trxds.core.metadata import Pairs
from trxds.lb.override_host.repin_reason import RepinReason
from trxds.resolver.route_explanation import Explanation
from trxds.session_affinity.session_events import SessionDraining
from trxds.session_affinity.session_hosts import CookieKey, SessionHost
from trxds.session_affinity.session_token import Key, SessionTokenError

from .call_explanation import explain_call
from .channel_state import ChannelState
from .interceptors import Interceptor
from .move import BoundSession, move_session
from .open_session import OpenSession
from .session_event_stream import SessionEvents
from .session_pool import SessionTable
from .stub import CallerMethodFactory


class BoundCalls(CallerMethodFactory):
    """Calls that go to one host of a session and to no other: each of the two that `Session.moving` gives.

    If the host cannot be used, they fail with UNAVAILABLE.
    """

    _session: BoundSession

    @property
    def host(self) -> str:
        """Return the host as `ip:port` or `unix:PATH`."""
        return self._session.host.host

    @property
    def cluster(self) -> str:
        """Return the host's cluster; for a target without a control plane, the target."""
        return self._session.host.cluster

    def __repr__(self) -> str:
        return f"<BoundCalls to {self.host}>"


class Session(CallerMethodFactory):
    """The calls of one session: they share a cookie jar, and so meet one host while it can be used (A55).

    Made by `Channel.session` and `SessionPool.session`; usable from any task while that block is open.
    """

    _session: OpenSession

    # -- what can be seen of it

    @property
    def hosts(self) -> Mapping[CookieKey, SessionHost]:
        """Return the host and cluster that each cookie of the session names, by the cookie's name and path.

        Empty before the first response. There are several if routes have session filters with different cookies.
        """
        return self._session.hosts

    @property
    def host(self) -> str | None:
        """Return the session's host as `ip:port` or `unix:PATH`, None before the first response.

        Raises `ValueError` if the session has several hosts.
        """
        only = self._session.only_host
        return None if only is None else only.host

    @property
    def cluster(self) -> str | None:
        """Return the cluster of the session's host, None before the first response.

        For a target without a control plane it is the target. Raises `ValueError` if the session has several hosts.
        """
        only = self._session.only_host
        return None if only is None else only.cluster

    @property
    def since(self) -> float:
        """Return when the session was opened, in seconds on Trio's clock."""
        return self._session.cookies.since

    @property
    def calls(self) -> int:
        """Return how many calls have begun in the session."""
        return self._session.cookies.calls

    def events(self) -> SessionEvents:
        """Return an async iterator of the session's events from now on; it ends with the session.

        The events are `SessionPinned`, `SessionMoved`, `SessionDraining` and `SessionHostLost`. At most 100 events wait
        for the reader; `SessionEventsLost` counts the ones after them. Each step is always a checkpoint. Raises
        `trio.ClosedResourceError` if the session has ended.
        """
        self._session.check_open()
        return self._state.sessions.pinned.subscribe(self._session.cookies)

    async def wait_draining(self) -> SessionDraining:
        """Wait until the control plane declares the session's host DRAINING; return the event, which names the cookie.

        Return at once if a host of the session is DRAINING already. Targets without a control plane never declare it.
        Raises `trio.ClosedResourceError` if the session ends first. Always a checkpoint.
        """
        self._session.check_open()
        pinned, cookies = self._state.sessions.pinned, self._session.cookies
        events = pinned.subscribe(cookies, with_status=True)
        try:
            async for event in events:
                if isinstance(event, SessionDraining):
                    return event
        finally:
            pinned.unsubscribe(cookies, events)
        raise self._session.not_open_error()

    def export(self, *, key: Key | None = None) -> str:
        """Return the session as a token, with which `Channel.session` continues it elsewhere or later.

        The token is one line of printable ASCII, at most 8192 characters. It has the cookies and headers of session
        filters and their expiry, and nothing else of the session; before the first response it has none. It is a
        credential: whoever has it is this session for the backend. With `key` it is signed (HMAC-SHA256); sign every
        token that passes through a user's hands. Of several keys the first one signs. Also usable after the block.

        Raises `ValueError` for a key of less than 16 bytes, and if the token would be too long; `TypeError` for a key
        of another type than bytes.
        """
        return self._session.export(key)

    # -- where it goes

    async def explain(self, method: str, metadata: Pairs = (), timeout: float | None = None) -> Explanation:
        """Explain where a call of the session would go now, with the cookies that it would send.

        The rest is as in `Channel.explain`. Raises `trio.ClosedResourceError` after the session's end.
        """
        self._session.check_open()
        return await explain_call(self._state, method, metadata, timeout, self._session)

    @asynccontextmanager
    async def moving(self, cookie: CookieKey | None = None) -> AsyncIterator[tuple[BoundCalls, BoundCalls]]:
        """Move the session to another host: the block gets calls to its host and to a new one, to hand state over.

        The new host is picked as for a new session, and is another than the old one. Leaving the block switches all
        later calls of the session to it; calls under way stay where they are. After an exception in the block the
        session stays where it was. Within the block its calls go on as before, and a host that is lost meanwhile fails
        the calls that are bound to it.

        `cookie` says which host is to be left, if the session has several. Raises `ValueError` if there is no such
        host, before the first response, and in an imported session that has not used the cookie yet; `RpcError` if
        there is no other host; `RuntimeError` if the session is moving already; and `trio.ClosedResourceError` after
        the session's end. Entering is always a checkpoint, and leaving is none.
        """
        self._session.check_open()
        key = self._session.check_cookie(cookie)
        async with move_session(self._state, self._session, key) as (old, new):
            yield BoundCalls(self._state, self._interceptors, old), BoundCalls(self._state, self._interceptors, new)

    def release(self, cookie: CookieKey | None = None) -> None:
        """Give up the session's host, so that the next call chooses anew, as the first one did. Synchronous.

        Calls under way stay where they are. `cookie` says which host is given up, if the session has several. Raises
        `ValueError` if there is no such host, and `trio.ClosedResourceError` after the session's end. A session without
        any host is left as it is.
        """
        self._session.check_open()
        if self._session.hosts or cookie is not None:
            self._session.cookies.release(self._session.check_cookie(cookie), RepinReason.RELEASED)

    def __repr__(self) -> str:
        return repr(self._session)


class SessionPool:
    """A `SessionPool` keeps a session for each user of a program, up to a maximum. Made by `Channel.sessions`.

    `len` is the number of sessions that it has.
    """

    def __init__(self, state: ChannelState, interceptors: Sequence[Interceptor], sessions: SessionTable) -> None:
        self._state = state
        self._interceptors = interceptors
        self._sessions = sessions

    @asynccontextmanager
    async def session(
        self, user: Hashable, /, token: str | None = None, *, key: Key | None = None
    ) -> AsyncIterator[Session]:
        """Open the session of a user, for a block of calls; a new one if the pool has none, or that of `token`.

        `user` is any hashable value, a text or bytes of at most 1024. Any number of blocks may have the same session at
        a time. A session stays in the pool after its blocks, but calls that are under way end with their block, as in
        `Channel.session`, which also describes `token` and `key`. A token is always checked, and used only if the pool
        has no session of the user.

        If all of the pool's sessions are in use, it waits for one of them, in the order of arrival, or raises
        `RpcError` with RESOURCE_EXHAUSTED, as `when_full` of `Channel.sessions` says. Raises
        `trio.ClosedResourceError` once the pool's block is over. Entering is always a checkpoint, and leaving is none.
        """
        imported = self._state.sessions.read(token, key)
        del token, key  # credentials: no traceback of what follows has them
        if isinstance(imported, SessionTokenError):
            raise imported
        async with self._sessions.session(user, imported) as session:
            yield Session(self._state, self._interceptors, session)

    def __len__(self) -> int:
        return len(self._sessions)

    def __repr__(self) -> str:
        return f"<SessionPool of {self._state.lifecycle.target}: {self._sessions}>"
