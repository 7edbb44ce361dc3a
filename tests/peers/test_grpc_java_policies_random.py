"""Random drops, limits, outliers and weights, with which grpc-java's client and ours must do and report the same.

TRXDS_SEEDS=100-109 draws others than usual.
"""

import os

import pytest
from support import random_policies

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("java_programs")]

FIRST, _, LAST = os.environ.get("TRXDS_SEEDS", "0").partition("-")
each_seed = pytest.mark.parametrize("seed", range(int(FIRST), int(LAST or FIRST) + 1))


@each_seed
async def test_both_count_the_calls_of_all_channels_for_the_limit_of_a_cluster(seed):
    ours, theirs = await random_policies.circuit_breakers(seed, "grpc-java")
    assert ours == theirs
    assert {"UNAVAILABLE", "OK"} <= set(", ".join(ours).split(", "))


@each_seed
async def test_both_drop_the_same_calls_and_report_the_same_load(seed):
    (our_ends, ours), (their_ends, theirs) = await random_policies.loads(seed, "grpc-java")
    assert our_ends == their_ends
    assert ours == theirs != {}


@each_seed
async def test_both_eject_the_same_hosts_and_take_them_back(seed):
    in_time, different = await random_policies.outliers(seed, "grpc-java")
    assert different == []
    if not in_time:
        pytest.skip("the machine is too busy to compare times")


@each_seed
async def test_both_send_each_host_its_share_by_its_load_reports(seed):
    assert random_policies.unlike(await random_policies.weights(seed, "grpc-java")) == []


@each_seed
async def test_both_send_each_host_its_share_by_its_load_reports_out_of_band(seed):
    assert random_policies.unlike(await random_policies.weights(seed, "grpc-java", is_out_of_band=True)) == []
