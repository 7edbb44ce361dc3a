"""A delay for NACKs that repeat an earlier NACK.

go-control-plane sends a rejected resource again as soon as it gets the NACK. Without a delay that makes thousands of
NACKs a second until somebody repairs the resource. So the first NACK goes at once, and those that repeat it wait, each
longer than the last. NACKs are compared by resource: the order of the resources in a response, and with it the index
in the error's text, may differ each time.
"""

from __future__ import annotations

import math

from .discovery_response import ParsedResponse

MIN_DELAY = 0.1  # seconds between a NACK and the first one that repeats it; doubled for each one after
MAX_DELAY = 1.0

AT_ONCE = -math.inf


class NackPacing:
    """The delay of NACKs for one type of resource on one stream."""

    __slots__ = ("_delay", "_due", "_rejected")

    def __init__(self) -> None:
        self._rejected: dict[str | None, tuple[str, ...]] = {}  # the errors of earlier NACKs, by resource
        self._delay = MIN_DELAY
        self._due = AT_ONCE  # when the last NACK may go or went

    def due(self, response: ParsedResponse, now: float) -> float:
        """Return when the answer to this response may go out. NACKs that wait already share that time with it."""
        # A resource that was valid in between and is rejected again is news: somebody has tried to repair it.
        for item in response.items if self._rejected else ():
            if not item.parsed.errors:
                self._rejected.pop(item.parsed.name, None)
        refused = response.rejected
        if not refused:
            return AT_ONCE
        is_new = any(self._rejected.get(name) != errors for name, errors in refused.items())
        self._rejected |= refused
        if is_new:
            self._delay, self._due = MIN_DELAY, now
        # A NACK that waits already keeps its time, or responses that come faster would delay it for ever.
        elif self._due <= now:
            self._due, self._delay = max(now, self._due + self._delay), min(2 * self._delay, MAX_DELAY)
        return self._due if self._due > now else AT_ONCE
