"""Random certificates of hosts and rules for them, of which other clients and ours must accept the same (A29).

TRXDS_SEEDS=100-109 draws others than usual.
"""

import os

import pytest
from support.random_certificates import differences

pytestmark = pytest.mark.long

FIRST, _, LAST = os.environ.get("TRXDS_SEEDS", "0").partition("-")
each_seed = pytest.mark.parametrize("seed", range(int(FIRST), int(LAST or FIRST) + 1))


@each_seed
async def test_grpcio_accepts_the_same_certificates(seed, tmp_path):
    assert await differences(seed, tmp_path, "grpcio") == []


@each_seed
@pytest.mark.usefixtures("go_programs")
async def test_grpc_go_accepts_the_same_certificates(seed, tmp_path):
    assert await differences(seed, tmp_path, "grpc-go") == []


@each_seed
@pytest.mark.usefixtures("java_programs")
async def test_grpc_java_accepts_the_same_certificates(seed, tmp_path):
    assert await differences(seed, tmp_path, "grpc-java") == []
