"""Random histories of a mesh: after each change grpc-java's client and ours must do the same.

TRXDS_SEEDS=100-109 draws other histories than usual.
"""

import os

import pytest
from support.history import history
from support.history_peers import GRPC_JAVA

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("java_programs")]

STEPS = 12
FIRST, _, LAST = os.environ.get("TRXDS_SEEDS", "0-1").partition("-")
SEEDS = range(int(FIRST), int(LAST or FIRST) + 1)


@pytest.mark.parametrize("seed", SEEDS)
async def test_both_do_the_same_after_each_change(seed, monkeypatch):
    async with history(seed, monkeypatch, peer=GRPC_JAVA) as made:
        await made.agree()
        for _ in range(STEPS):
            await made.step()
    assert made.met, "two clients that do nothing would agree"
