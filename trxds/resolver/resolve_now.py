"""When a name is resolved again: on request, but not within 30 seconds of the last time, or on a schedule."""

from __future__ import annotations

import math

import trio

from trxds.core.arguments import check_number

# As in the C++ client and in grpc-go: a failing fleet requests a look-up with each lost connection.
MIN_RESOLUTION_INTERVAL = 30.0  # seconds between two resolutions that succeed, unless a schedule is shorter
MIN_REFRESH = 1.0  # seconds


def checked_refresh(refresh: float | None) -> float:
    """Return the schedule in seconds, `inf` for None; `ValueError` below one second."""
    if refresh is None:
        return math.inf
    form = f"a number of seconds from {MIN_REFRESH:g}, or None for no schedule"
    check_number("refresh", refresh, lambda seconds: seconds >= MIN_REFRESH, form)
    return float(refresh)


class ResolveNow:
    """The requests to resolve one name again (`ResolveNow` of grpc-go); `refresh` is the schedule in seconds."""

    def __init__(self, refresh: float = math.inf) -> None:
        self._refresh = refresh
        self._requested = trio.Event()
        self._began = trio.current_time()
        self._retry_at = math.inf

    def begin(self) -> None:
        """Note that a resolution begins now."""
        self._began, self._retry_at = trio.current_time(), math.inf

    def request(self) -> None:
        """Ask for another resolution soon. Synchronous."""
        self._requested.set()

    def retry_after(self, delay: float) -> None:
        """Have the next resolution begin after so many seconds, because this one gave no host; `inf`: it gave some."""
        self._retry_at = trio.current_time() + delay

    async def wait(self) -> None:
        """Wait until another resolution is due, and note that it begins."""
        await trio.lowlevel.checkpoint()
        # A request during the resolution was about the addresses before it.
        self._requested = trio.Event()
        with trio.move_on_at(min(self._began + self._refresh, self._retry_at)):
            await self._requested.wait()
            # In the same scope, so that a shorter schedule, or a retry, does not wait for the 30 seconds.
            await trio.sleep_until(self._began + MIN_RESOLUTION_INTERVAL)
        self.begin()
