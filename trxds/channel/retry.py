"""Whether a failed attempt is made again, and when (A6, A44)."""

from __future__ import annotations

from random import Random

from trxds.ground.backoff import Backoff
from trxds.ground.metadata import Metadata
from trxds.ground.status import Status
from trxds.resources.retry import RetryPolicy

_PUSHBACK = "grpc-retry-pushback-ms"
_LONGEST = 10  # digits of a 32-bit number, which it is


class Retries:
    """The attempts of one call under its route's policy. `made` counts those that have ended."""

    __slots__ = ("_backoff", "_policy", "_random", "made")

    def __init__(self, policy: RetryPolicy, random: Random) -> None:
        self.made = 0
        self._policy = policy
        self._random = random
        self._backoff = self._fresh()

    def after(self, status: Status, trailing: Metadata) -> float | None:
        """Seconds until the next attempt, or None if that was the last."""
        self.made += 1
        if status.code not in self._policy.codes or self.made >= self._policy.max_attempts:
            return None
        pushback = trailing.first(_PUSHBACK)
        if pushback is None:
            return self._backoff.next()
        # The server decides: a number of milliseconds, and anything else means never.
        self._backoff = self._fresh()
        waits = isinstance(pushback, str) and pushback.isdecimal() and len(pushback) <= _LONGEST
        return int(pushback) / 1000 if waits else None

    def _fresh(self) -> Backoff:
        policy = self._policy
        first = min(policy.base_interval, policy.max_interval)  # a service config may have them so (A6)
        return Backoff(self._random, first, policy.multiplier, 0.2, policy.max_interval)
