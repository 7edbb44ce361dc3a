"""Random certificates of hosts and rules for them, of which other clients and ours must accept the same (A29, A87).

TRXDS_SEEDS=100-109 draws others than usual.
"""

import os
from random import Random

import pytest
from support.random_bundle_maps import BundleMaps
from support.random_certificates import Certificates, differences

pytestmark = pytest.mark.long

FIRST, _, LAST = os.environ.get("TRXDS_SEEDS", "0").partition("-")
each_seed = pytest.mark.parametrize("seed", range(int(FIRST), int(LAST or FIRST) + 1))


@each_seed
async def test_grpcio_accepts_the_same_certificates(seed, tmp_path):
    assert await differences(seed, Certificates(tmp_path), "grpcio") == []


@each_seed
@pytest.mark.usefixtures("go_programs")
async def test_grpc_go_accepts_the_same_certificates(seed, tmp_path):
    assert await differences(seed, Certificates(tmp_path), "grpc-go") == []


@each_seed
@pytest.mark.usefixtures("java_programs")
async def test_grpc_java_accepts_the_same_certificates(seed, tmp_path):
    assert await differences(seed, Certificates(tmp_path), "grpc-java") == []


@each_seed
async def test_grpcio_accepts_the_same_certificates_by_spiffe_bundle_maps(seed, tmp_path):
    assert await differences(seed, BundleMaps(tmp_path, Random(f"maps of {seed}")), "grpcio") == []


@each_seed
@pytest.mark.usefixtures("java_programs")
async def test_grpc_java_accepts_the_same_certificates_by_spiffe_bundle_maps(seed, tmp_path):
    assert await differences(seed, BundleMaps(tmp_path, Random(f"maps of {seed}")), "grpc-java") == []
