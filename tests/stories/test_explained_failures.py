"""`trxds explain` shows why an RPC fails over or fails, and so does the next RPC: the conformance scenarios.

The number in a test's name is that of its scenario; tests without a number have no scenario.
"""

from contextlib import suppress

import pytest
import trio
from support.explained import ANY, ONE, eds, line, lines, routes, situation
from support.foretold import Situation, check_failure, failure
from support.mesh import bidi
from support.sessions import answer

from trxds import RpcError, StatusCode
from trxds.testing import resources as xds

pytestmark = pytest.mark.slow

FAULT = "envoy.extensions.filters.http.fault.v3.HTTPFault"


def fault(**config):
    return {"name": "fault", "typed_config": {"@type": f"type.googleapis.com/{FAULT}", **config}}


def percent(numerator):
    return {"percentage": {"numerator": numerator, "denominator": "HUNDRED"}}


# -- failover


def three_priorities(*hosts):
    zones = (xds.locality(host, priority=number, zone=f"z{number}") for number, host in enumerate(hosts))
    return xds.endpoints("x", *zones)


async def test_48_an_explanation_shows_a_failover_to_the_next_priority(autojump_clock):
    resources = (routes(xds.route("x")), xds.cluster("x"), three_priorities)
    async with situation(3, *resources, down=[0, 1]) as (here, (_, _, third)):
        told = await here.told(ANY, hosts=[third])
        names = [f"{{cluster=x, child_number={number}}}" for number in range(3)]
        assert line(told, "priority sees") == (
            f"{names[0]} TRANSIENT_FAILURE, {names[1]} TRANSIENT_FAILURE, {names[2]} READY; "
            f"chooses {names[2]}: the first that is READY or IDLE"
        )


async def test_48_an_explanation_with_every_priority_down_has_the_error_of_the_last(autojump_clock):
    resources = (routes(xds.route("x")), xds.cluster("x"), three_priorities)
    async with situation(3, *resources, down=[0, 1, 2]) as (here, (_, _, third)):
        told, status = await here.told_it_fails(ANY)
        assert third in status.message
        assert line(told, "priority sees").endswith(": none can serve, and it is the last")
        assert line(told, "round_robin sees").endswith("1 TRANSIENT_FAILURE; chooses to fail: all have failed")


async def test_an_explanation_shows_a_failover_within_an_aggregate_and_a_missing_leaf(autojump_clock):
    clusters = (xds.aggregate("both", "nobody", "x", "y"), xds.cluster("x"), xds.cluster("y"))
    resources = (routes(xds.route("both")), *clusters, eds("x", 0), eds("y", 1))
    async with situation(2, *resources, down=[0], settle=60) as (here, (_, y)):
        told = await here.told(ANY, hosts=[y], within=60)
        saw = next(each for each in lines(told) if each.startswith("cds sees aggregate"))
        assert "aggregate both of x, y; left out:" in saw and '"nobody"' in saw
        assert "x TRANSIENT_FAILURE, y READY; chooses y: the first that is READY or IDLE" in str(told)


async def test_an_explanation_shows_the_weights_of_localities(autojump_clock):
    """As no scenario has it; 28 has the weights that are refused."""

    def two_zones(*hosts):
        near, far = xds.locality(hosts[0], zone="near", weight=3), xds.locality(hosts[1], zone="far", weight=1)
        return xds.endpoints("a", near, far)

    resources = (*ONE, two_zones)
    async with situation(2, *resources) as (here, (near, far)):
        places = {near: '{region="", zone="near", sub_zone=""}', far: '{region="", zone="far", sub_zone=""}'}
        for told in await here.told_by_chance(ANY, hosts=[near, far]):
            saw, _, chose = line(told, "weighted_target sees").partition("; chooses ")
            assert f"{places[near]} READY of weight 3" in saw and f"{places[far]} READY of weight 1" in saw
            if told.host:
                assert chose.startswith(f"{places[told.host]}: drew ") and chose.endswith(" of 4")


# -- what keeps RPCs from a cluster


async def test_40_an_explanation_shows_a_full_circuit_breaker(autojump_clock):
    def breaker(most):
        return xds.cluster("a") | {"circuit_breakers": {"thresholds": [{"max_requests": most}]}}

    async with situation(2, routes(xds.route("a")), breaker(1), eds("a", 0, 1)) as (here, hosts):
        await here.told(ANY, hosts=hosts)
        async with bidi(here.channel).open() as held:
            await held.send(b"")
            await held.receive()
            told, status = await here.channel.explain(ANY), await failure(here.channel, ANY)
            check_failure(told, status)
            assert line(told, "cluster_impl sees").endswith("chooses to drop it: max_requests is reached")
            assert "circuit breaker drop" in status.message
        here.mesh.plane.put(breaker(0))
        await trio.sleep(1)
        told, _ = await here.told_it_fails(ANY)
        assert line(told, "cluster_impl sees").startswith("0 of 0 RPCs in flight, drops: none;")


async def test_an_explanation_shows_the_odds_of_drop_overloads(autojump_clock):
    """As no scenario has it; 28 has the forms that are refused."""

    def dropping(numerator):
        share = {"category": "load", "drop_percentage": {"numerator": numerator, "denominator": "HUNDRED"}}
        return lambda *hosts: eds("a", 0)(*hosts) | {"policy": {"drop_overloads": [share]}}

    async with situation(1, *ONE, dropping(100)) as (here, hosts):
        told, status = await here.told_it_fails(ANY)
        assert "drops: load 100%; chooses to drop it: it was drawn for load" in line(told, "cluster_impl sees")
        assert "EDS-configured drop: load" in status.message
        here.mesh.plane.put(dropping(40)(*hosts))
        await trio.sleep(1)
        assert "drops: load 40%" in str(await here.channel.explain(ANY))


async def test_an_explanation_of_an_injected_fault_ends_before_any_policy(autojump_clock):
    """As no scenario has it (A33)."""
    entries = (
        xds.route("a", prefix="/slow/") | {"typed_per_filter_config": {"fault": delay(100)}},
        xds.route("a", prefix="/half/") | {"typed_per_filter_config": {"fault": abort(50)}},
        xds.route("a"),
    )
    resources = (routes(*entries), xds.cluster("a"), eds("a", 0))
    async with situation(1, *resources, filters=[fault(abort={"grpc_status": 8, **percent(100)})]) as (here, hosts):
        told, status = await here.told_it_fails(ANY)
        assert line(told, "filter fault (from the listener):") == "100% fail with RESOURCE_EXHAUSTED"
        assert line(told, "fault:") == "drawn to fail (100% fail with RESOURCE_EXHAUSTED)"
        assert not told.steps
        assert status.code is StatusCode.RESOURCE_EXHAUSTED and status.message.startswith("Fault injected")
        began = trio.current_time()
        told = await here.told("/slow/M", hosts=hosts)
        assert trio.current_time() - began >= 2
        assert line(told, "fault:") == "drawn to wait 2 s (100% wait 2 s)"
        half = []
        for _ in range(40):
            half.append(str(await here.channel.explain("/half/M")))
            with suppress(RpcError):
                await answer(here.channel, path="/half/M")  # the call that was foretold; the next one draws anew
        assert all("(50% fail with ABORTED)" in each for each in half)
        assert len({each.splitlines()[-1] for each in half}) == 2  # some fail, some go on


def delay(share):
    return {"@type": f"type.googleapis.com/{FAULT}", "delay": {"fixed_delay": "2s", **percent(share)}}


def abort(share):
    return {"@type": f"type.googleapis.com/{FAULT}", "abort": {"grpc_status": 10, **percent(share)}}


# -- resources that are missing or refused


async def test_50_an_explanation_shows_a_deleted_cluster_or_listener(autojump_clock):
    entries = routes(xds.route("y", prefix="/y/"), xds.route("x"))
    resources = (entries, xds.cluster("x"), xds.cluster("y"), eds("x", 0), eds("y", 1))
    async with situation(2, *resources) as (here, (_, y)):
        here.mesh.plane.remove("CDS", "x")
        await trio.sleep(20)
        told, status = await here.told_it_fails(ANY)
        assert (
            line(told, "cds sees")
            == "cluster x without a usable resource; chooses to fail: its resource may still come"
        )
        assert 'CDS resource "x"' in status.message and "does not exist" in status.message
        await here.told("/y/M", hosts=[y])
        here.mesh.plane.remove("LDS", "svc")
        await trio.sleep(20)
        told, status = await here.told_it_fails("/y/M")
        assert told.chosen is None and 'LDS resource "svc"' in status.message


async def test_30_an_explanation_shows_the_errors_of_a_nacked_cluster(autojump_clock):
    entries = routes(xds.route("y", prefix="/y/"), xds.route("x"))
    resources = (entries, xds.cluster("x"), xds.cluster("y") | {"lb_policy": "MAGLEV"}, eds("x", 0), eds("y", 0))
    async with situation(1, *resources) as (here, hosts):
        await here.told(ANY, hosts=hosts)
        told, status = await here.told_it_fails("/y/M")
        assert "cluster y without a usable resource" in line(told, "cds sees")
        assert 'CDS resource "y"' in line(told, "so the RPC fails, unless it waits for ready:")
        assert "lb_policy" in status.message


async def test_28_an_explanation_after_nacked_endpoints_shows_those_in_use(autojump_clock):
    async with situation(2, *ONE, eds("a", 0)) as (here, hosts):
        gap = xds.endpoints("a", xds.locality(hosts[0]), xds.locality(hosts[1], priority=2, zone="z2"))
        here.mesh.plane.put(gap)
        await trio.sleep(1)
        told = await here.channel.explain(ANY)
        assert told.host == hosts[0] == (await answer(here.channel, path=ANY)).host
        assert line(told, "cds sees").startswith("cluster a with 1 endpoint in 1 priority")
        async with here.mesh.channel("xds:///svc") as anew:  # has nothing to keep
            told, status = await Situation(here.mesh, anew).told_it_fails(ANY)
        assert "field:endpoints[1].priority error:" in line(
            told, "cds sees cluster a with 0 endpoints in 0 priorities;"
        )
        assert 'EDS resource "a"' in status.message and "errors validating" in status.message
