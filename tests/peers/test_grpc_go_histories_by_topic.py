"""Random histories beside grpc-go's client in which something else changes too, by topic (`support/history_topics.py`).

TRXDS_SEEDS=100-109 draws other histories than usual.
"""

import os

import pytest
from support.history import history
from support.history_authorities import Authority
from support.history_faults import Faults
from support.history_outliers import Outliers
from support.history_peers import GRPC_GO
from support.history_topics import Limits, Names, Silence

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("go_programs")]

STEPS = 8
FIRST, _, LAST = os.environ.get("TRXDS_SEEDS", "0").partition("-")
SEEDS = range(int(FIRST), int(LAST or FIRST) + 1)


@pytest.mark.parametrize("topic", [Outliers, Limits, Faults, Silence, Names, Authority])
@pytest.mark.parametrize("seed", SEEDS)
async def test_both_do_the_same_after_each_change(topic, seed, monkeypatch):
    async with history(seed, monkeypatch, topic(), peer=GRPC_GO) as made:
        await made.agree()
        for _ in range(STEPS):
            await made.step()
    assert made.met, "two clients that do nothing would agree"
