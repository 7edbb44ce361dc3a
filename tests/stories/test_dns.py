"""A LOGICAL_DNS cluster is one endpoint with the addresses of its name (A37, A61)."""

from contextlib import asynccontextmanager

import pytest
import trio
from support.mesh import Mesh, ask, settled, spread
from support.tasks import task_names

from trxds import RpcError, StatusCode
from trxds.testing import resources as xds

NAME = "cart.example"
POLICIES = "type.googleapis.com/envoy.extensions.load_balancing_policies."
FOREVER = 20 * 60  # seconds; longer than anything is kept warm


def points_to(mesh, *hosts):
    mesh.network.names[NAME] = [host.rpartition(":")[0] for host in hosts]


def fail(mesh, host):
    mesh.network.refuse(host)
    mesh.network.cut(host)


@asynccontextmanager
async def a_name(hosts=2):
    """Route to a cluster whose endpoint is a name, which has the address of the first host."""
    async with Mesh.run(hosts) as mesh:
        points_to(mesh, mesh.hosts[0])
        mesh.plane.put(xds.logical_dns("by-name", NAME, 50051))
        mesh.route("by-name")
        async with mesh.channel() as channel:
            yield mesh, channel


async def test_rpcs_to_a_logical_dns_cluster_reach_the_address_of_its_name(autojump_clock):
    async with a_name() as (mesh, channel):
        assert set(await spread(channel, 5)) == {mesh.hosts[0]}


async def test_two_addresses_of_a_logical_dns_cluster_are_one_endpoint_with_one_connection(autojump_clock):
    async with a_name() as (mesh, channel):
        points_to(mesh, *mesh.hosts)
        assert set(await spread(channel, 5)) == {mesh.hosts[0]}
        assert mesh.network.attempts[mesh.hosts[1]] == 0


async def test_a_failed_address_of_a_logical_dns_cluster_is_replaced_by_the_next(autojump_clock):
    async with a_name() as (mesh, channel):
        points_to(mesh, *mesh.hosts)
        await ask(channel)
        fail(mesh, mesh.hosts[0])
        await trio.sleep(5)
        assert set(await spread(channel, 5)) == {mesh.hosts[1]}


async def test_a_session_stays_on_the_host_of_a_logical_dns_cluster(autojump_clock):
    async with a_name() as (mesh, channel), channel.session() as session:
        assert set(await spread(session, 5)) == {mesh.hosts[0]}
        carried = mesh.servers[mesh.hosts[0]].calls[-1].metadata.first("cookie")
        assert carried is not None


# -- looking up again


async def test_a_dns_name_is_resolved_again_when_its_host_is_lost(autojump_clock):
    async with a_name() as (mesh, channel):
        await ask(channel)
        await trio.sleep(60)
        points_to(mesh, mesh.hosts[1])
        assert await ask(channel) == mesh.hosts[0], "nobody looks while all is well"
        fail(mesh, mesh.hosts[0])
        await settled()
        assert set(await spread(channel, 5)) == {mesh.hosts[1]}


async def test_a_dns_name_is_not_resolved_again_while_its_host_is_connected(autojump_clock):
    async with a_name() as (mesh, channel):
        for _ in range(10):
            await ask(channel)
            await trio.sleep(60)
        assert mesh.network.look_ups[NAME] == 1


@pytest.mark.parametrize("policy", ["round_robin.v3.RoundRobin", "pick_first.v3.PickFirst", "ring_hash.v3.RingHash"])
async def test_a_dns_name_is_resolved_at_most_every_thirty_seconds(autojump_clock, policy):
    async with a_name() as (mesh, channel):
        its = {"name": "policy", "typed_config": {"@type": POLICIES + policy}}
        balanced = {"load_balancing_policy": {"policies": [{"typed_extension_config": its}]}}
        mesh.plane.put({**xds.logical_dns("by-name", NAME, 50051), **balanced})
        await ask(channel)
        points_to(mesh, mesh.hosts[1])
        fail(mesh, mesh.hosts[0])
        await trio.sleep(28)
        assert mesh.network.look_ups[NAME] == 1
        await trio.sleep(3)
        assert mesh.network.look_ups[NAME] == 2
        assert set(await spread(channel, 5)) == {mesh.hosts[1]}


async def test_a_host_that_is_down_for_ten_minutes_costs_a_look_up_every_thirty_seconds(autojump_clock):
    async with a_name() as (mesh, channel):
        await ask(channel)
        fail(mesh, mesh.hosts[0])
        await trio.sleep(600)
        assert 5 <= mesh.network.look_ups[NAME] <= 21


async def test_an_eds_cluster_is_never_resolved_by_dns(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await ask(channel)
        fail(mesh, mesh.hosts[0])
        await trio.sleep(100)
        assert not mesh.network.look_ups


# -- names that cannot be resolved


async def test_an_rpc_to_an_unknown_dns_name_fails_with_that_reason(autojump_clock):
    async with a_name() as (mesh, channel):
        points_to(mesh)
        with pytest.raises(RpcError) as failed:
            await ask(channel)
        assert failed.value.status.code is StatusCode.UNAVAILABLE
        assert f'"{NAME}:50051"' in failed.value.status.message
        assert "Name or service not known" in failed.value.status.message


async def test_an_unknown_dns_name_is_resolved_again_with_backoff(autojump_clock):
    async with a_name() as (mesh, channel):
        points_to(mesh)
        with pytest.raises(RpcError):
            await ask(channel)
        await trio.sleep(100)
        assert 6 <= mesh.network.look_ups[NAME] <= 10
        points_to(mesh, mesh.hosts[0])
        assert await ask(channel, wait_for_ready=True) == mesh.hosts[0]


async def test_a_dns_name_keeps_its_addresses_when_a_later_look_up_fails(autojump_clock, caplog):
    async with a_name() as (mesh, channel):
        await ask(channel)
        points_to(mesh)
        mesh.network.cut(mesh.hosts[0])
        await trio.sleep(100)
        assert mesh.network.look_ups[NAME] > 2
        assert await ask(channel) == mesh.hosts[0]
    assert caplog.text.count(f'"{NAME}:50051" cannot be resolved') == 1, "one warning, not one a look-up"


async def test_an_unknown_dns_name_does_not_fail_the_rest_of_an_aggregate(autojump_clock):
    async with a_name() as (mesh, channel):
        points_to(mesh)
        mesh.plane.put(xds.aggregate("both", "by-name", "cart"))
        mesh.route("both")
        assert set(await spread(channel, 4)) <= set(mesh.hosts)


# -- what is left


def look_ups():
    return [name for name in task_names() if name.startswith("dns/")]


async def test_a_dns_name_is_one_task_that_ends_with_its_last_cluster(autojump_clock):
    async with a_name() as (mesh, channel):
        mesh.plane.put(xds.logical_dns("again", NAME, 50051))
        mesh.route({"by-name": 1, "again": 1})
        await ask(channel)
        assert look_ups() == [f"dns/{NAME}:50051"], "two clusters share it"
        mesh.route("cart")
        await trio.sleep(FOREVER)
        assert look_ups() == []


async def test_an_unanswered_dns_look_up_ends_with_the_channel(autojump_clock, monkeypatch):
    async def silence(self, host, port):
        await trio.sleep_forever()

    monkeypatch.setattr("trxds.testing.MemoryNetwork.resolve", silence)
    async with a_name() as (_, channel):
        with pytest.raises(RpcError) as failed:
            await ask(channel, timeout=5)
        assert failed.value.status.code is StatusCode.DEADLINE_EXCEEDED
        assert look_ups()
    assert look_ups() == []
