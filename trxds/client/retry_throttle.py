"""When a server has failed so often that trying again would only add to its load (A6).

A bucket of tokens, for all calls of a channel to one server name. What a retry or a hedge costs is
known only by its outcome, so tokens are counted for outcomes, and no attempt is added while half of them
or more are gone.
"""

from __future__ import annotations

from trxds.resolver.service_config import RetryThrottling


class RetryThrottle:
    """`tokens` are what is left."""

    __slots__ = ("_rules", "tokens")

    def __init__(self, rules: RetryThrottling, before: RetryThrottle | None = None) -> None:
        self._rules = rules
        # With a new configuration the bucket is as full as the old one was, in its own size.
        share = before.tokens / before._rules.max_tokens if before is not None else 1.0
        self.tokens: float = share * rules.max_tokens

    @property
    def allows(self) -> bool:
        """Whether another attempt may be made now."""
        return self.tokens > self._rules.max_tokens / 2

    def failed(self) -> None:
        """An attempt ended with a status that its policy names, or the server wants no other."""
        self.tokens = max(self.tokens - 1, 0.0)

    def succeeded(self) -> None:
        """A call ended with OK."""
        self.tokens = min(self.tokens + self._rules.ratio, self._rules.max_tokens)

    def __repr__(self) -> str:
        return f"<Throttle {self.tokens:g} of {self._rules.max_tokens:g} tokens>"
