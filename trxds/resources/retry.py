"""When and how often a route retries (A44)."""

from __future__ import annotations

from dataclasses import dataclass

from trxds.ground.status import StatusCode


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`max_attempts` counts the first one too; the intervals are seconds."""

    codes: frozenset[StatusCode]
    max_attempts: int = 2
    base_interval: float = 0.025
    max_interval: float = 0.25
