"""Random histories beside grpc-java's client in which something else changes too (`support/history_topics.py`).

TRXDS_SEEDS=100-109 draws other histories than usual.
"""

import os

import pytest
from support.history import history
from support.history_authorities import Authority
from support.history_faults import Faults
from support.history_outliers import Outliers, SuccessRates
from support.history_peers import GRPC_JAVA
from support.history_topics_for_java import LimitsForJava, LoadsForJava, RingsForJava

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("java_programs")]

TOPICS = [RingsForJava, Outliers, SuccessRates, LimitsForJava, Faults, LoadsForJava, Authority]
STEPS = 8
FIRST, _, LAST = os.environ.get("TRXDS_SEEDS", "0").partition("-")
SEEDS = range(int(FIRST), int(LAST or FIRST) + 1)


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("seed", SEEDS)
async def test_both_do_the_same_after_each_change(topic, seed, monkeypatch):
    async with history(seed, monkeypatch, topic(), peer=GRPC_JAVA) as made:
        await made.agree()
        for _ in range(STEPS):
            await made.step()
    assert made.met, "two clients that do nothing would agree"
