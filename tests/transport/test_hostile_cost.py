"""The CPU cost of hostile frames, on both engines: it is the same however many calls are open, and small for each step.

The measure is lines of our code and h2's that run, and not seconds: it is the same on a busy machine. `make bench` has
seconds.
"""

from __future__ import annotations

import pytest
from support.hostile.cost import KINDS, READ, Lines, measure

LONGEST = 230_000
"""Lines in one step. So many take 7 ms where header fields are decoded, which takes longest; elsewhere 1 to 4."""

READS = {"lean": READ, "h2": READ // 4}  # h2 has six times as many lines, and to count them takes longer than they do


@pytest.mark.parametrize(
    "engine", [pytest.param("lean", marks=pytest.mark.slow), pytest.param("h2", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("name", KINDS)
def test_a_frame_costs_the_same_however_many_calls_are_open(name: str, engine: str) -> None:
    kind = KINDS[name]
    alone, many = (measure(kind, calls, Lines(), lean=engine == "lean", size=READS[engine]) for calls in (1, 1000))
    assert max(alone.longest, many.longest) < LONGEST
    if kind.once:
        assert many.total / 1000 < alone.total
    else:
        most = 4 if kind.sends else 1.5
        assert many.total / many.size < most * alone.total / alone.size
