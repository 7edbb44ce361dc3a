"""One session: a cookie jar for the calls of one scope, and the gate that its first call opens.

Twenty calls begun at once, before any of them has a cookie, would meet twenty hosts. So the
others wait until the first one has brought headers or has ended.
"""

from __future__ import annotations

import trio

from trxds.ground.metadata import Metadata, Value

from .jar import CookieJar


class SessionCookies:
    def __init__(self, wait_for_first: bool = True) -> None:
        self._jar = CookieJar()
        self._headers: dict[str, Value] = {}  # of session filters that use a header of their own
        self._begun = False
        self._first_over = trio.Event()
        if not wait_for_first:
            self._first_over.set()

    def claim(self) -> bool:
        """Is this the session's first call? The others `wait`; it says `over` at its end."""
        first, self._begun = not self._begun, True
        return first

    async def wait(self) -> None:
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
        own = [value for value in metadata.all("cookie") if isinstance(value, str)]
        rest = [(key, value) for key, value in metadata if key != "cookie"]
        return Metadata((*rest, ("cookie", "; ".join((jar, *own)))))

    def heard(self, metadata: Metadata, headers: tuple[str, ...] = ()) -> None:
        """A call of this session has response headers: keep their cookies, and those of `headers` that are there."""
        for name in headers:
            value = metadata.first(name)
            if value is not None:
                self._headers[name] = value
        for value in metadata.all("set-cookie"):
            if isinstance(value, str):
                self._jar.take(value, trio.current_time())
        self._first_over.set()

    def over(self) -> None:
        """The first call has ended, perhaps without headers."""
        self._first_over.set()

    def __repr__(self) -> str:
        return f"<SessionCookies {self._jar!r}>"
