"""One session: a cookie jar for the calls of one scope, and the gate that its first call opens.

Twenty calls begun at once, before any of them has a cookie, would meet twenty hosts. So the
others wait until the first one has brought headers or has ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import trio

from trxds.core.metadata import EMPTY, Metadata, Value, is_value
from trxds.lb.pick import PickArgs

from ..lb.override_host.repin_reason import Repin, reason_of
from .cookie import MAX_SIZE
from .cookie_jar import CookieJar
from .session_hosts import CookieKey, SessionHost, hosts_of


class SessionCookies:
    """`number` names it among those of its channel. `host` and `cluster` are empty while it has no cookie.

    Of where it was only the last move is remembered: that costs nothing but when it happens.
    """

    def __init__(self, wait_for_first: bool = True, number: int = 0, epoch: Callable[[], float] = time.time) -> None:
        self.number = number
        self.since = trio.current_time()
        self.calls = 0
        self.host = self.cluster = ""
        self.moves = 0
        self.last_move: Repin | None = None
        self._epoch = epoch
        self._jar = CookieJar()
        self._headers: dict[str, Value] = {}  # of session filters that use a header of their own
        self._filled = EMPTY, "", EMPTY  # what was filled last, with which cookies, and what that came to
        self._first_over = trio.Event()
        if not wait_for_first:
            self._first_over.set()

    def begin_call(self) -> bool:
        """Is this the session's first call? The others `wait`; it says `over` at its end."""
        self.calls += 1
        return self.calls == 1

    @property
    def has_first_response(self) -> bool:
        """Whether the first call has brought headers or has ended, so that no call waits for it."""
        return self._first_over.is_set()

    async def wait_for_first_response(self) -> None:
        """Until the first call has brought headers or has ended."""
        if not self._first_over.is_set():
            await self._first_over.wait()

    def fill(self, metadata: Metadata, path: str) -> Metadata:
        """The call's metadata with one Cookie header: the jar's cookies, then the caller's own."""
        kept = [(name, value) for name, value in self._headers.items() if metadata.first(name) is None]
        metadata = Metadata((*metadata, *kept)) if kept else metadata
        jar = self._jar.header(path, trio.current_time())
        if not jar:
            return metadata
        given, held, filled = self._filled
        if metadata is not given or jar != held:
            own = [value for value in metadata.all("cookie") if isinstance(value, str)]
            rest = [(key, value) for key, value in metadata if key != "cookie"]
            filled = Metadata((*rest, ("cookie", "; ".join((jar, *own)))))
            self._filled = metadata, jar, filled
        return filled

    def record_response(self, metadata: Metadata, call: PickArgs | None) -> None:
        """A call of this session has response headers: keep their cookies, and what else its filters write."""
        told = False
        for name in call.session_headers if call is not None else ():
            value = metadata.first(name)
            if isinstance(value, str) and len(value) <= MAX_SIZE and is_value(value):
                self._headers[name], told = value, True
        for value in metadata.all("set-cookie"):
            if isinstance(value, str):
                self._jar.take(value, trio.current_time(), self._epoch())
                told = True
        if told and call is not None:
            self._place(call)
        self._first_over.set()

    def _place(self, call: PickArgs) -> None:
        """There may be another host in what came: a filter writes only what is new."""
        override = call.override
        if override is None or not override.actual_address_list:
            return
        host, same_cluster = override.actual_address_list.partition(",")[0], call.cluster == self.cluster
        if host == self.host and same_cluster:
            return
        if self.host:
            self.moves += 1
            self.last_move = Repin(trio.current_time(), self.host, host, reason_of(override, same_cluster))
        self.host, self.cluster = host, call.cluster

    def hosts(self, now: float) -> Mapping[CookieKey, SessionHost]:
        """Return the host and cluster that each cookie, or session header, names now."""
        cookies = [(CookieKey(name, path), value) for name, path, value in self._jar.live(now)]
        for name, value in dict(self._headers).items():
            if isinstance(value, str):
                cookies.append((CookieKey(name, ""), value))
        return hosts_of(cookies, self.cluster)

    def end_first(self) -> None:
        """The first call has ended, perhaps without headers."""
        self._first_over.set()

    def __repr__(self) -> str:
        return f"<SessionCookies {self.number} on {self.host or 'no host'}, {self._jar!r}>"
