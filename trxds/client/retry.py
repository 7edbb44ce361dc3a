"""This file decides whether a failed attempt is retried, and when (A6, A44)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from trxds.core.backoff import Backoff
from trxds.core.metadata import Metadata
from trxds.core.status import Status
from trxds.resolver.method_config import MethodConfig
from trxds.resources.retry_policy import RetryPolicy

from .call_settings import MAX_ATTEMPTS
from .retry_throttle import RetryThrottle

_PUSHBACK = "grpc-retry-pushback-ms"
_MAX_PUSHBACK = 2**31 - 1  # milliseconds: a signed 32-bit number (A6)
_INTEGER = re.compile(r"[+-]?[0-9]{1,10}")  # with a limit for int(), which is quadratic in the digits


class PendingRetry(NamedTuple):
    """The attempt that follows `failure` at the time `due`, on Trio's clock."""

    failure: Status
    due: float


@dataclass(slots=True, eq=False, repr=False)
class RetryState:
    """A `RetryState` counts the attempts of one call under its retry policy, from the first failure on.

    It allows as many as the policy, and at most `max_attempts`.

    `pending` lasts through a backoff, however often the caller cancels its wait for it.
    """

    _policy: RetryPolicy
    _random: Random
    _throttle: RetryThrottle | None = None
    _max_attempts: int = MAX_ATTEMPTS
    attempts_made: int = 0
    pending: PendingRetry | None = None
    _backoff: Backoff = field(init=False)

    def __post_init__(self) -> None:
        self._backoff = self._new_backoff()

    def next_delay(self, status: Status, trailing: Metadata, timed_out: bool = False) -> float | None:
        """Return the seconds until the next attempt, or None if `status` is final.

        An attempt that `timed_out` by its own timeout may be repeated whatever its status.
        """
        # A6: the last attempt is reported to the throttle too, because it takes a token like any other.
        self.attempts_made += 1
        retryable = (timed_out and self._policy.repeats_timeouts) or status.code in self._policy.codes
        delay = pushback(trailing)
        may_follow = may_repeat(retryable, delay, self._throttle)
        if not may_follow or self.attempts_made >= min(self._policy.max_attempts, self._max_attempts):
            return None
        if delay is None:
            return self._backoff.next()
        # A6: a pushback resets the backoff.
        self._backoff = self._new_backoff()
        return delay

    def _new_backoff(self) -> Backoff:
        policy = self._policy
        first = min(policy.base_interval, policy.max_interval)  # A6 allows an initialBackoff above maxBackoff
        # A6: the jitter may take a delay beyond the maximum.
        return Backoff(self._random, first, policy.multiplier, policy.max_interval)


def pushback(trailing: Metadata) -> float | None:
    """Return the server's pushback in seconds: None if it sent none, `inf` for no further attempt (A6)."""
    texts = trailing.all(_PUSHBACK)
    if not texts:
        return None
    # A6: a value that is no number of milliseconds means that no further attempt may be made. Several are none either.
    text = texts[0] if len(texts) == 1 else ""
    # A number may have a sign, and -0 is 0, as for C-core, grpc-go and grpc-java.
    milliseconds = int(text) if isinstance(text, str) and _INTEGER.fullmatch(text) else -1
    return milliseconds / 1000 if 0 <= milliseconds <= _MAX_PUSHBACK else math.inf


def may_repeat(retryable: bool, delay: float | None, throttle: RetryThrottle | None) -> bool:
    """Return whether policy, server and throttle allow another attempt; a failure takes a token of the throttle."""
    if throttle is not None and (retryable or delay == math.inf):
        throttle.record_failure()
    return retryable and delay != math.inf and (throttle is None or throttle.allows_retry)


def record_end(throttle: RetryThrottle, status: Status, config: MethodConfig, is_counted: bool) -> None:
    """Report the end of a call to the throttle: a success returns a part of a token, a failure takes one (A6).

    A failure `is_counted` already if it has been asked whether another attempt follows. That is not asked for a
    committed call, which fails like any other.
    """
    policy = config.retry or config.hedging
    if status.ok:
        throttle.record_success()
    elif policy is not None and not is_counted:
        codes = policy.codes if isinstance(policy, RetryPolicy) else policy.non_fatal
        if status.code in codes:
            throttle.record_failure()
