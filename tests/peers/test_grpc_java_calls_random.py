"""Random answers of a server to calls of grpc-java's client and of ours, which must make the same of them.

TRXDS_SEEDS=100-109 draws others than usual. A difference has what both saw, and the server's script.
"""

import os

import pytest
from support import random_calls
from support.random_hedging import hedging

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("java_programs")]

FIRST, _, LAST = os.environ.get("TRXDS_SEEDS", "0").partition("-")
each_seed = pytest.mark.parametrize("seed", range(int(FIRST), int(LAST or FIRST) + 1))


@each_seed
async def test_both_make_the_same_of_what_a_server_answers_under_a_retry_policy(seed):
    assert await random_calls.retries(seed, "grpc-java") == []


@each_seed
async def test_both_retry_alike_by_the_policies_of_routes(seed):
    assert await random_calls.retries_of_routes(seed, "grpc-java") == []


@each_seed
async def test_both_throttle_the_same_retries(seed):
    assert await random_calls.throttling(seed, "grpc-java") == []


@each_seed
async def test_both_read_and_send_the_same_messages_and_refuse_the_same_ones(seed):
    assert await random_calls.messages(seed, "grpc-java") == []


@each_seed
async def test_both_send_and_show_the_same_metadata(seed):
    assert await random_calls.metadata(seed, "grpc-java") == []


@each_seed
async def test_both_tell_the_server_how_much_of_the_callers_time_is_left(seed):
    assert await random_calls.times(seed, "grpc-java") == []


@each_seed
async def test_both_hedge_alike(seed):
    assert await hedging(seed, "grpc-java") == []
