"""The part of a service config for a method's calls: limits, retries and hedging (A6).

Attempts are bounded by the channel, whatever a config says: a client with a hundred attempts for each call would bring
down the server that it waits for.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from trxds.core.json_reader import JsonNode
from trxds.core.status import StatusCode
from trxds.resources.retry_policy import RetryPolicy

# The client makes it from a route's mirror policies; it is opaque here.
RouteMirrors: TypeAlias = Any

MIN_ATTEMPTS = 2  # including the first (A6)

_CODES = {code.name: code for code in StatusCode}


class HedgingPolicy(Struct, frozen=True):
    """A policy to send up to `max_attempts` of a call, one each `delay` seconds, and take the first response (A6).

    A status in `non_fatal` leaves the other attempts running and sends the next at once; any other ends the call. An
    attempt without a response after `attempt_timeout` seconds is given up, which ends no other.
    """

    max_attempts: int
    delay: float = 0.0
    non_fatal: frozenset[StatusCode] = frozenset()
    attempt_timeout: float | None = None


class MethodConfig(Struct, frozen=True):
    """The configuration of a method. `timeout` is in seconds and sizes are in bytes; None is unset.

    A caller's value goes before `wait_for_ready`; of two timeouts or sizes the smaller counts. `mirrors` copy
    calls; only a route has some.
    """

    timeout: float | None = None
    wait_for_ready: bool | None = None
    max_request_size: int | None = None
    max_response_size: int | None = None
    retry: RetryPolicy | None = None
    hedging: HedgingPolicy | None = None
    mirrors: RouteMirrors | None = None

    @property
    def attempt_timeout(self) -> float | None:
        """The seconds after which an attempt without a response is given up; None for no such limit."""
        policy = self.retry or self.hedging
        return policy.attempt_timeout if policy is not None else None


NO_METHOD_CONFIG = MethodConfig()


def parse_method_config(node: JsonNode) -> MethodConfig:
    """Read one entry of `methodConfig`; errors are noted, and the fields that have them are left out."""
    timeout, ready = node.member("timeout"), node.member("waitForReady")
    retry, hedging = node.member("retryPolicy"), node.member("hedgingPolicy")
    # A6: at most one of them, since both decide when the next attempt begins.
    if retry.value is not None and hedging.value is not None:
        hedging.error("is set beside retryPolicy; a method may have only one of them")
    return MethodConfig(
        timeout.duration(0.0) if timeout.value is not None else None,
        ready.boolean() if ready.value is not None else None,
        _size(node.member("maxRequestMessageBytes")),
        _size(node.member("maxResponseMessageBytes")),
        parse_retry_policy(retry) if retry.has_object() else None,
        parse_hedging_policy(hedging) if hedging.has_object() else None,
    )


def _size(node: JsonNode) -> int | None:
    return node.integer(0) if node.value is not None else None


def parse_retry_policy(node: JsonNode) -> RetryPolicy:
    multiplier = node.member("backoffMultiplier")
    factor = multiplier.number(0.0)
    # A6 leaves a multiplier below 1 valid: then the delays shrink.
    if factor <= 0:
        multiplier.error("must be more than 0; write for example 2")
    return RetryPolicy(
        _codes(node.member("retryableStatusCodes"), at_least_one=True),
        _attempts(node.member("maxAttempts")),
        _backoff(node.member("initialBackoff"), "0.1s"),
        _backoff(node.member("maxBackoff"), "1s"),
        factor,
        _attempt_timeout(node),
    )


def parse_hedging_policy(node: JsonNode) -> HedgingPolicy:
    return HedgingPolicy(
        _attempts(node.member("maxAttempts")),
        node.member("hedgingDelay").duration(0.0),
        _codes(node.member("nonFatalStatusCodes"), at_least_one=False),
        _attempt_timeout(node),
    )


def _attempt_timeout(parent: JsonNode) -> float | None:
    node = parent.member("perAttemptRecvTimeout")
    return node.seconds(1.0) if node.value is not None else None


def _attempts(node: JsonNode) -> int:
    # A missing number counts as 0 here, so it is reported once; JsonNode reports a value that is no number.
    count = node.integer(0 if node.value is None else MIN_ATTEMPTS)
    if count < MIN_ATTEMPTS:
        node.error(f"must be at least {MIN_ATTEMPTS}, including the first attempt")
    return count  # A6: more than a channel allows are no error


def _backoff(node: JsonNode, example: str) -> float:
    if node.value is None:
        node.error(f'is missing; write for example "{example}"')
    return node.seconds(1.0)


def _codes(node: JsonNode, *, at_least_one: bool) -> frozenset[StatusCode]:
    missing = "needs at least one status code" if at_least_one else ""
    return frozenset(_code(item) for item in node.items(missing, 'for example ["UNAVAILABLE"]'))


def _code(node: JsonNode) -> StatusCode:
    """Read a status code: a name in upper or lower case, or a number (A6)."""
    value = node.value
    if isinstance(value, str) and value.upper() in _CODES:
        return _CODES[value.upper()]
    if isinstance(value, int) and not isinstance(value, bool) and value in _CODES.values():
        return StatusCode(value)
    node.error(f'is {value!r}, which is no status code; write a name such as "UNAVAILABLE", or its number')
    return StatusCode.UNKNOWN
