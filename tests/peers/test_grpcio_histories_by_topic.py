"""Random histories of a mesh in which also something else changes, by topic (`support/history_topics.py`).

TRXDS_SEEDS=100-109 draws other histories than usual.
"""

import os

import pytest
from support.history import history
from support.history_authorities import Authority
from support.history_faults import Faults
from support.history_outliers import Outliers, SuccessRates
from support.history_topics import Fallback, Limits, Loads, Names, Rings, Silence

pytestmark = pytest.mark.long

TOPICS = [
    [Rings],
    [Outliers],
    [SuccessRates],
    [Limits],
    [Faults],
    [Silence],
    [Names],
    [Loads],
    [Authority],
    [Fallback],
    [Authority, Fallback],
]
STEPS = 8
FIRST, _, LAST = os.environ.get("TRXDS_SEEDS", "0").partition("-")
SEEDS = range(int(FIRST), int(LAST or FIRST) + 1)


@pytest.mark.parametrize("topics", TOPICS, ids=lambda topics: "+".join(topic.__name__ for topic in topics))
@pytest.mark.parametrize("seed", SEEDS)
async def test_both_do_the_same_after_each_change(topics, seed, monkeypatch):
    async with history(seed, monkeypatch, *(topic() for topic in topics)) as made:
        await made.agree()
        for _ in range(STEPS):
            await made.step()
    assert made.met, "two clients that do nothing would agree"
