"""The statistics of the xDS test client: of all RPCs, and of those that a driver watches."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trxds import Metadata, StatusCode
from trxds.interop.protos import LoadBalancerStatsResponse
from trxds.interop.rpc_config import RpcType
from trxds.interop.rpc_stats import RpcResult, RpcStats

EMPTY, UNARY = RpcType.EMPTY_CALL, RpcType.UNARY_CALL
INITIAL, TRAILING = LoadBalancerStatsResponse.INITIAL, LoadBalancerStatsResponse.TRAILING


def result(hostname="", code=StatusCode.OK, initial=(), trailing=()):
    return RpcResult(code, hostname, Metadata(initial), Metadata(trailing))


def add(stats, *results, type=UNARY):
    """RPCs that start and end, one after the other."""
    for each in results:
        stats.end(stats.start(type), type, each)


async def watched(stats, *results, type=UNARY, keys=()):
    """What a driver is told of these RPCs."""
    responses = []

    async def watch():
        responses.append(await stats.watch(len(results), 60, keys))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await wait_all_tasks_blocked()
        add(stats, *results, type=type)
    return responses[0]


def entries(message):
    return [(each.key, each.value, each.type) for each in message.metadata]


def test_the_accumulated_stats_count_starts_and_results_by_method():
    stats = RpcStats()
    add(stats, result("blue"), result(code=StatusCode.UNAVAILABLE), result("red"))
    add(stats, result("blue", StatusCode.DATA_LOSS), type=EMPTY)
    stats.start(UNARY)
    response = stats.accumulated()
    unary, empty = (response.stats_per_method[name] for name in ("UNARY_CALL", "EMPTY_CALL"))
    assert (unary.rpcs_started, dict(unary.result)) == (4, {0: 2, 14: 1})
    assert (empty.rpcs_started, dict(empty.result)) == (1, {15: 1})
    assert response.num_rpcs_started_by_method == {"UNARY_CALL": 4, "EMPTY_CALL": 1}
    assert response.num_rpcs_succeeded_by_method == {"UNARY_CALL": 2, "EMPTY_CALL": 0}
    assert response.num_rpcs_failed_by_method == {"UNARY_CALL": 1, "EMPTY_CALL": 1}


def test_a_method_that_was_never_called_has_no_accumulated_stats():
    stats = RpcStats()
    add(stats, result("blue"))
    assert list(stats.accumulated().stats_per_method) == ["UNARY_CALL"]


async def test_a_watcher_counts_by_host_and_by_method(autojump_clock):
    response = await watched(RpcStats(), result("blue"), result("red"), result("blue"), type=EMPTY)
    assert response.rpcs_by_peer == {"blue": 2, "red": 1}
    assert response.rpcs_by_method["EmptyCall"].rpcs_by_peer == {"blue": 2, "red": 1}
    assert list(response.rpcs_by_method) == ["EmptyCall"]
    assert response.num_failures == 0


async def test_a_watcher_is_for_the_rpcs_that_start_after_it_and_not_for_those_that_end(autojump_clock):
    stats = RpcStats()
    before = stats.start(UNARY)
    responses = []

    async def watch():
        responses.append(await stats.watch(1, 60))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await wait_all_tasks_blocked()
        watched, after = stats.start(UNARY), stats.start(UNARY)
        for number, host in ((before, "before"), (after, "after"), (watched, "watched")):
            stats.end(number, UNARY, result(host))
    assert responses[0].rpcs_by_peer == {"watched": 1}


async def test_an_rpc_that_reaches_no_host_is_a_failure(autojump_clock):
    response = await watched(RpcStats(), result("blue"), result(code=StatusCode.UNAVAILABLE), result())
    assert (response.rpcs_by_peer, response.num_failures) == ({"blue": 1}, 2)


async def test_an_rpc_that_a_host_fails_counts_for_the_host(autojump_clock):
    response = await watched(RpcStats(), result("blue", StatusCode.UNKNOWN))
    assert (response.rpcs_by_peer, response.num_failures) == ({"blue": 1}, 0)


async def test_rpcs_that_do_not_end_in_time_are_failures(autojump_clock):
    stats = RpcStats()
    begun = trio.current_time()

    async def send():
        await trio.sleep(1)
        add(stats, result("blue"))
        stats.start(UNARY)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        response = await stats.watch(3, 5)
    assert trio.current_time() - begun == pytest.approx(5)
    assert (response.rpcs_by_peer, response.num_failures) == ({"blue": 1}, 2)


@pytest.mark.parametrize(("count", "timeout", "failures"), [(0, 60, 0), (2, 0, 2), (2, -1, 2)])
async def test_a_watch_of_no_rpcs_or_of_no_time_ends_at_once(count, timeout, failures, autojump_clock):
    begun = trio.current_time()
    response = await RpcStats().watch(count, timeout)
    assert (trio.current_time() - begun, response.num_failures) == (0, failures)


async def test_a_watch_that_its_driver_gives_up_is_forgotten(autojump_clock):
    stats = RpcStats()
    with trio.move_on_after(1):
        await stats.watch(1, 60)
    assert not stats._watchers


# -- metadata


async def test_a_watcher_has_the_wanted_metadata_of_each_rpc(autojump_clock):
    rpcs = [
        result("blue", initial=[("set-cookie", "a=1"), ("other", "x")], trailing=[("load", "7")]),
        result("red", initial=[("other", "x")]),
    ]
    response = await watched(RpcStats(), *rpcs, keys=[" Set-Cookie", "LOAD"])
    [blue] = response.metadatas_by_peer["blue"].rpc_metadata
    [red] = response.metadatas_by_peer["red"].rpc_metadata
    assert entries(blue) == [("set-cookie", "a=1", INITIAL), ("load", "7", TRAILING)]
    assert entries(red) == []


async def test_an_asterisk_is_all_metadata(autojump_clock):
    rpc = result("blue", initial=[("hostname", "blue"), ("trace-bin", b"\xff\x00")], trailing=[("load", "7")])
    response = await watched(RpcStats(), rpc, keys=["*"])
    [blue] = response.metadatas_by_peer["blue"].rpc_metadata
    assert entries(blue) == [("hostname", "blue", INITIAL), ("trace-bin", "/wA", INITIAL), ("load", "7", TRAILING)]


@pytest.mark.parametrize("keys", [(), ("absent",)])
async def test_without_wanted_metadata_no_host_is_listed_for_it(keys, autojump_clock):
    response = await watched(RpcStats(), result("blue", initial=[("hostname", "blue")]), keys=keys)
    assert not response.metadatas_by_peer
