"""A `FirstCall` lets the calls of a session wait for the first one, which brings the session's cookie.

Twenty calls begun at once, before any of them has a cookie, would go to twenty hosts. So the
others wait until the first one has response headers or has ended.
"""

from __future__ import annotations

import trio


class FirstCall:
    """The first call of a session without a host, and the calls that wait for it; without `waits` no call does."""

    def __init__(self, waits: bool) -> None:
        self._is_taken = False
        self._over = trio.Event()
        # Whether it has brought headers or has ended, so that no call waits for it; plain, because each call reads it.
        self.is_over = not waits

    def take(self) -> bool:
        """Return whether the caller is the first one, which has to `end` it."""
        is_first, self._is_taken = not self._is_taken, True
        return is_first

    def end(self) -> None:
        """Let the waiting calls go on."""
        self.is_over = True
        self._over.set()

    async def wait_until_over(self) -> None:
        """Wait until the first call has response headers or has ended. Do not call it if `is_over`."""
        await self._over.wait()
