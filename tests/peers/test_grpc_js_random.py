"""Random hedging (A6), in which grpc-js and our client must do the same.

TRXDS_SEEDS=100-109 draws others than usual.
"""

import os
import shutil
from pathlib import Path

import pytest
from support.random_hedging import hedging

NODE_MODULES = Path(__file__).parents[2] / ".peers" / "node" / "node_modules"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("node") is None or not NODE_MODULES.exists(), reason="needs grpc-js: make peers"),
]

FIRST, _, LAST = os.environ.get("TRXDS_SEEDS", "0").partition("-")
each_seed = pytest.mark.parametrize("seed", range(int(FIRST), int(LAST or FIRST) + 1))


@each_seed
async def test_both_hedge_alike(seed):
    assert await hedging(seed, "grpc-js", NODE_PATH=str(NODE_MODULES)) == []
