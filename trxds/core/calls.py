"""How many calls there were and what came of them, added up when somebody asks (A14).

They are counted where it happens anyway or where it is rare: a call that goes well is one that was
begun, is not open any more, and did not fail.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Calls:
    """How many, and when the last began, on Trio's clock. Those that are open neither succeeded nor failed."""

    started: int = 0
    succeeded: int = 0
    failed: int = 0
    last_started: float = -math.inf

    def __add__(self, other: Calls) -> Calls:
        return Calls(
            self.started + other.started,
            self.succeeded + other.succeeded,
            self.failed + other.failed,
            max(self.last_started, other.last_started),
        )
