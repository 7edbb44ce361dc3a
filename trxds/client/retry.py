"""Whether a failed attempt is made again, and when (A6, A44)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random

from trxds.core.backoff import Backoff
from trxds.core.metadata import Metadata
from trxds.core.status import Status
from trxds.resources.retry_policy import RetryPolicy

from .retry_throttle import RetryThrottle

_PUSHBACK = "grpc-retry-pushback-ms"
_MAX_PUSHBACK = 10  # digits of a 32-bit number, which it is


@dataclass(slots=True, eq=False, repr=False)
class RetryState:
    """The attempts of one call under its method's policy, from the first failure on."""

    _policy: RetryPolicy
    _random: Random
    _throttle: RetryThrottle | None = None
    _made: int = 0
    _backoff: Backoff = field(init=False)

    def __post_init__(self) -> None:
        self._backoff = self._fresh()

    def after(self, status: Status, trailing: Metadata) -> float | None:
        """Seconds until the next attempt, or None if that was the last."""
        # A6: what server and throttle say is asked for the last attempt too, for it takes its token like any other.
        self._made += 1
        asked, named = pushback(trailing), status.code in self._policy.codes
        if not may_repeat(named, asked, self._throttle) or self._made >= self._policy.max_attempts:
            return None
        if asked is None:
            return self._backoff.next()
        # A6: after a pushback the backoff begins anew.
        self._backoff = self._fresh()
        return asked

    def _fresh(self) -> Backoff:
        policy = self._policy
        first = min(policy.base_interval, policy.max_interval)  # a service config may have them so (A6)
        return Backoff(self._random, first, policy.multiplier, 0.2, policy.max_interval)


def pushback(trailing: Metadata) -> float | None:
    """When the server wants the next attempt, in seconds: None if it does not say, `inf` for never."""
    text = trailing.first(_PUSHBACK)
    if text is None:
        return None
    # A number of milliseconds, and anything else means never.
    waits = isinstance(text, str) and text.isdecimal() and len(text) <= _MAX_PUSHBACK
    return int(text) / 1000 if waits else math.inf


def may_repeat(named: bool, asked: float | None, throttle: RetryThrottle | None) -> bool:
    """Whether policy (it names the status), server and throttle allow another attempt; the throttle is told."""
    if throttle is not None and (named or asked == math.inf):
        throttle.failed()
    return named and asked != math.inf and (throttle is None or throttle.allows)
