"""Retry policies (A6), and how a route configures them (A44)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from trxds.core.status import StatusCode

from .units import parse_optional_duration, wrapped_number_or
from .validation_errors import ValidationErrors

_RETRYABLE = {
    "cancelled": StatusCode.CANCELLED,
    "deadline-exceeded": StatusCode.DEADLINE_EXCEEDED,
    "internal": StatusCode.INTERNAL,
    "resource-exhausted": StatusCode.RESOURCE_EXHAUSTED,
    "unavailable": StatusCode.UNAVAILABLE,
}
_TIMEOUT_CONDITIONS = frozenset({"5xx", "gateway-error"})
DEFAULT_BASE_INTERVAL = 0.025
DEFAULT_MAX_INTERVAL = 0.25
# A44: an interval below a millisecond counts as one.
MIN_INTERVAL = 0.001


class RetryPolicy(Struct, frozen=True):
    """A retry policy. `max_attempts` includes the first; the channel may allow less.

    Intervals are in seconds, each `multiplier` times the last. An attempt without a response after `attempt_timeout`
    seconds is given up. If `repeats_timeouts`, the next one follows, whatever the codes; otherwise only if the codes
    have DEADLINE_EXCEEDED.
    """

    codes: frozenset[StatusCode]
    max_attempts: int = 2
    base_interval: float = DEFAULT_BASE_INTERVAL
    max_interval: float = DEFAULT_MAX_INTERVAL
    multiplier: float = 2.0
    attempt_timeout: float | None = None
    repeats_timeouts: bool = True


def parse_retry_policy(parent: Any, problems: ValidationErrors, per_try_timeout: bool = False) -> RetryPolicy | None:
    """Return the `retry_policy` of a route action or a virtual host; None also if no condition of it is gRPC's.

    With `per_try_timeout` that field is read.
    """
    if not parent.HasField("retry_policy"):
        return None
    message, at = parent.retry_policy, problems.at("retry_policy")
    # A44: Envoy's HTTP conditions ("5xx", "reset") do not apply to gRPC and are ignored.
    codes = frozenset(_RETRYABLE[word] for word in _words(message.retry_on) if word in _RETRYABLE)
    retries = wrapped_number_or(1, message, "num_retries")
    if retries < 1:
        at.at("num_retries").add("must be greater than 0")
    # Validated even if no condition applies: A44 rejects a bad policy in any case.
    base, max_interval = _intervals(message, at)
    # A44 ignores per_try_timeout. Where it is switched on it has Envoy's meaning, and 0 is none, as there.
    timeout = parse_optional_duration(message, "per_try_timeout", at) if per_try_timeout else None
    if not codes:
        return None
    # Envoy repeats an attempt that took too long only under these conditions: a host may still be executing it.
    repeats = not _TIMEOUT_CONDITIONS.isdisjoint(_words(message.retry_on))
    return RetryPolicy(
        codes,
        retries + 1,  # A44: num_retries does not include the first attempt
        base,
        max_interval,
        attempt_timeout=timeout or None,
        repeats_timeouts=repeats or not timeout,
    )


def _words(conditions: str) -> list[str]:
    # Blanks are stripped as in grpc-go; the C++ client ignores a word with a blank before it.
    return [word.strip().lower() for word in conditions.split(",")]


def _intervals(message: Any, problems: ValidationErrors) -> tuple[float, float]:
    if not message.HasField("retry_back_off"):
        return DEFAULT_BASE_INTERVAL, DEFAULT_MAX_INTERVAL
    back_off, at = message.retry_back_off, problems.at("retry_back_off")
    base = _interval(back_off, "base_interval", at)
    max_interval = _interval(back_off, "max_interval", at)
    at.has_field(back_off, "base_interval")
    if base is not None and max_interval is not None and max_interval < base:
        at.at("max_interval").add("must not be less than base_interval")
    # A44: an unset max_interval is ten times the base interval, and 250 ms without any retry_back_off.
    base = max(base or 0.0, MIN_INTERVAL)
    return base, max(max_interval or 0.0, MIN_INTERVAL) if back_off.HasField("max_interval") else 10 * base


def _interval(back_off: Any, field: str, problems: ValidationErrors) -> float | None:
    seconds = parse_optional_duration(back_off, field, problems)
    if seconds == 0:
        problems.at(field).add("must be greater than 0")
    return seconds
