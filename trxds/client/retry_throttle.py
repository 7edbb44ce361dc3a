"""The `RetryThrottle` stops retries to a server that fails so often that they would only add to its load (A6).

It is a bucket of tokens for all calls of a channel to one server name. An attempt that fails takes a token, a call that
succeeds returns a part of one, and no retry or hedge is made while half of the tokens or more are gone.
"""

from __future__ import annotations

from trxds.resolver.service_config import RetryThrottling


class RetryThrottle:
    """A token bucket with the `retryThrottling` of a service config; `tokens` are those that are left."""

    __slots__ = ("_rules", "tokens")

    def __init__(self, rules: RetryThrottling, before: RetryThrottle | None = None) -> None:
        self._rules = rules
        # A6: with a new configuration the bucket keeps the share of tokens that the old one had.
        share = before.tokens / before._rules.max_tokens if before is not None else 1.0
        self.tokens: float = share * rules.max_tokens

    @property
    def allows_retry(self) -> bool:
        """Return whether another attempt may be made now."""
        return self.tokens > self._rules.max_tokens / 2

    def record_failure(self) -> None:
        """Take a token: an attempt ended with a retryable status, or a pushback that forbids another."""
        self.tokens = max(self.tokens - 1, 0.0)

    def record_success(self) -> None:
        """Return a part of a token, `tokenRatio`, because a call ended with OK."""
        self.tokens = min(self.tokens + self._rules.ratio, self._rules.max_tokens)

    def __repr__(self) -> str:
        return f"<RetryThrottle {self.tokens:g} of {self._rules.max_tokens:g} tokens>"
