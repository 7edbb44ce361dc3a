"""A `FirstCall` lets the calls of a session wait for the first one, which brings the session's cookie.

Twenty calls begun at once, before any of them has a cookie, would go to twenty hosts. So the
others wait until the first one has response headers or has ended.
"""

from __future__ import annotations

import trio


class FirstCall:
    """The first call of a session, and the calls that wait for it; without `waits` no call does."""

    def __init__(self, waits: bool) -> None:
        self._waits = waits
        self._is_next = True
        self._over = trio.Event()
        if not waits:
            self._over.set()

    @property
    def is_over(self) -> bool:
        """Whether it has brought headers or has ended, so that no call waits for it."""
        return self._over.is_set()

    def begin_call(self) -> bool:
        """Return whether the call that begins is the first one."""
        is_first, self._is_next = self._is_next, False
        return is_first

    def end(self) -> None:
        """Let the waiting calls go on."""
        self._over.set()

    async def wait_until_over(self) -> None:
        """Wait until the first call has response headers or has ended."""
        if not self._over.is_set():
            await self._over.wait()

    def start_over(self) -> None:
        """Make the next call the first one: the session has no host any more."""
        if self._waits:
            self._is_next, self._over = True, trio.Event()
