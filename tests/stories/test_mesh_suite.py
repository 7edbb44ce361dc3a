"""The client passes the assertions of gRPC's mesh suite, in memory.

Fallback, federation and security have files of their own; so have ejection, matchers, faults, retries and timeouts.
"""

from contextlib import asynccontextmanager, suppress

import pytest
import trio
from envoy.config.core.v3.health_check_pb2 import DRAINING
from support.channelz import ADMIN, READY, Tool, state
from support.mesh import Mesh, ask, method, spread
from support.raw import call
from trio.testing import wait_all_tasks_blocked

import trxds.admin
from trxds import RpcError
from trxds.admin.csds import SERVICE
from trxds.admin.protos import ClientStatusRequest, ClientStatusResponse
from trxds.resources import protos
from trxds.resources.types import EDS
from trxds.testing import Server
from trxds.testing import resources as xds

pytestmark = pytest.mark.slow

OVERRIDE = ["UNKNOWN", "HEALTHY", "DRAINING"]


def hash_by_user(mesh):
    mesh.plane.put(xds.cluster("cart") | {"lb_policy": "RING_HASH"})
    route = xds.route("cart")
    route["route"]["hash_policy"] = [{"header": {"header_name": "user"}}]
    mesh.route(route)


@asynccontextmanager
async def steady(channel):
    """An RPC every ten milliseconds beside the block, none of which may fail; the value lists who answered."""
    hosts = []

    async def run():
        while True:
            hosts.append(await ask(channel))
            await trio.sleep(0.01)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        yield hosts
        nursery.cancel_scope.cancel()


async def test_baseline_every_type_is_asked_for_once_and_rpcs_succeed(autojump_clock):
    async with Mesh.run(1, sessions=False) as mesh, mesh.channel() as channel:
        assert set(await spread(channel, 100)) == set(mesh.hosts)
        kinds = [request.kind for request in mesh.plane.requests if request.answer == "SUBSCRIBE"]
        assert kinds == ["LDS", "RDS", "CDS", "EDS"]
        assert not [request for request in mesh.plane.requests if request.answer == "NACK"]


async def test_round_robin_spreads_a_hundred_rpcs_evenly(autojump_clock):
    async with Mesh.run(2, sessions=False) as mesh, mesh.channel() as channel:
        await spread(channel, 10)
        assert all(abs(count - 50) <= 1 for count in (await spread(channel, 100)).values())


async def test_api_listener_traffic_is_handed_to_another_route_configuration_without_loss(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel:
        mesh.endpoints("cart", mesh.hosts[:1])
        async with steady(channel) as hosts:
            await trio.sleep(1)
            mesh.cluster("second")
            mesh.endpoints("second", mesh.hosts[1:])
            mesh.plane.put(xds.routes("second-routes", xds.route("second")))
            mesh.plane.put(xds.listener("shop", routes="second-routes"))
            await trio.sleep(1)
            mesh.plane.remove("RDS", "routes")
            mesh.plane.remove("CDS", "cart")
            mesh.plane.remove("EDS", "cart")
            await trio.sleep(1)
        assert set(hosts[-50:]) == {mesh.hosts[1]}


async def test_change_backend_service_all_rpcs_move_and_none_fails(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel:
        mesh.endpoints("cart", mesh.hosts[:1])
        mesh.cluster("other")
        mesh.endpoints("other", mesh.hosts[1:])
        async with steady(channel) as hosts:
            await trio.sleep(1)
            assert set(hosts[-50:]) == {mesh.hosts[0]}
            mesh.route("other")
            await trio.sleep(1)
        assert set(hosts[-50:]) == {mesh.hosts[1]}


async def test_remove_endpoints_in_turn_moves_traffic_without_failures(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel, steady(channel) as hosts:
        for left in ([0], [0, 1], [1]):
            mesh.endpoints("cart", [mesh.hosts[number] for number in left])
            await trio.sleep(1)
            assert set(hosts[-50:]) == {mesh.hosts[number] for number in left}


async def test_affinity_of_ring_hash_connects_one_host_and_when_that_is_gone_calls_meet_one_other(autojump_clock):
    async with Mesh.run(3, sessions=False) as mesh:
        hash_by_user(mesh)
        async with mesh.channel() as channel, trxds.admin.serve(channel, address=ADMIN, network=mesh.network):
            tool = Tool(mesh.network)
            [first] = await spread(channel, 100, metadata=[("user", "7")])
            assert await ready(tool) == [first]
            mesh.servers[first].stop()
            await wait_all_tasks_blocked()
            [second] = await spread(channel, 100, metadata=[("user", "7")], wait_for_ready=True)
            assert second != first
            # The policy has also asked an IDLE host by itself, which may be a third one (A61).
            assert second in await ready(tool)


async def test_affinity_by_header_connects_a_host_for_each_key_and_without_a_key_all(autojump_clock):
    async with Mesh.run(3, sessions=False) as mesh:
        hash_by_user(mesh)
        async with mesh.channel() as channel, trxds.admin.serve(channel, address=ADMIN, network=mesh.network):
            tool = Tool(mesh.network)
            [first] = await spread(channel, 150, metadata=[("user", "empty")])
            assert await ready(tool) == [first]
            met = {first}
            for key in range(30):
                met |= set(await spread(channel, 5, metadata=[("user", str(key))]))
                if len(met) == 2:
                    break
            assert set(await ready(tool)) == met
            assert set(await spread(channel, 150)) == set(mesh.hosts)
            assert set(await ready(tool)) == set(mesh.hosts)


async def ready(tool):
    """Return the hosts with a connection, as channelz shows them."""
    return [each.data.target for each in await tool.subchannels() if state(each) == READY]


async def test_circuit_breaking_open_calls_stop_at_the_limit_of_their_cluster_and_at_a_raised_one(autojump_clock):
    async with Mesh.run(2, sessions=False, max_concurrent_streams=None) as mesh:
        open_calls = {}
        for name, host, limit in zip("ab", mesh.hosts, (500, 1000), strict=True):
            mesh.servers[host].fallback = keep_open
            mesh.plane.put(limited(name, limit))
            mesh.endpoints(name, [host])
            open_calls[name] = mesh.servers[host].calls
        mesh.route({"match": {"path": "/s/a"}, "route": {"cluster": "a"}}, xds.route("b"))
        async with mesh.channel() as channel, trio.open_nursery() as nursery:
            for path in ("/s/a", "/s/b"):
                nursery.start_soon(calls_at_a_rate, channel, path)
            await trio.sleep(15)
            assert [len(calls) for calls in open_calls.values()] == [500, 1000]
            mesh.plane.put(limited("a", 800))
            await trio.sleep(15)
            assert [len(calls) for calls in open_calls.values()] == [800, 1000]
            nursery.cancel_scope.cancel()


def limited(name, limit):
    return xds.cluster(name) | {"circuit_breakers": {"thresholds": [{"max_requests": limit}]}}


async def keep_open(call):
    await trio.sleep_forever()


async def calls_at_a_rate(channel, path):
    """Begin a hundred calls a second, and drop those that fail."""

    async def call():
        with suppress(RpcError):
            await channel.method(path)(b"")

    async with trio.open_nursery() as nursery:
        while True:
            nursery.start_soon(call)
            await trio.sleep(0.01)


async def test_failover_comes_with_the_last_primary_host_only_and_ends_with_their_return(autojump_clock):
    async with Mesh.run(5, sessions=False) as mesh:
        primary, secondary = mesh.hosts[:3], mesh.hosts[3:]
        mesh.endpoints("cart", xds.locality(*primary, zone="a"), xds.locality(*secondary, zone="b", priority=1))
        async with mesh.channel() as channel:
            assert set(await spread(channel, 100)) == set(primary)
            for number, expected in enumerate((primary[1:], primary[2:], secondary)):
                mesh.network.refuse(primary[number])
                mesh.network.cut(primary[number])
                await trio.sleep(1)
                assert set(await spread(channel, 100)) == set(expected)
            for host in primary:
                mesh.network.restore(host)
            await trio.sleep(15)
            assert set(await spread(channel, 100)) == set(primary)


async def test_dual_stack_hosts_of_either_family_and_of_both_get_traffic(autojump_clock):
    async with Mesh.run(1, sessions=False) as mesh, trio.open_nursery() as nursery:
        four = mesh.hosts[0]
        six, dual = "[fd00::6]:50051", "[fd00::46]:50051"
        for address in (six, dual):

            async def name(call, address=address):
                async for _ in call:
                    await call.send(address.encode())

            await nursery.start(Server(fallback=name, address=address, network=mesh.network).run)
        locality = xds.locality(four, six, "10.0.9.9:50051")
        also = {"address": {"socket_address": {"address": "fd00::46", "port_value": 50051}}}
        locality["lb_endpoints"][2]["endpoint"]["additional_addresses"] = [also]
        mesh.endpoints("cart", locality)
        async with mesh.channel() as channel:
            await spread(channel, 5)
            await trio.sleep(1)
            assert set(await spread(channel, 30)) == {four, six, dual}
        nursery.cancel_scope.cancel()


async def test_a_session_stays_on_its_draining_host(autojump_clock):
    """The suite's steps, in its order."""
    # 1, 2: three hosts, sessions in the listener, and a cluster that lets sessions reach draining hosts
    async with Mesh.run(3) as mesh:
        mesh.cluster("cart", override_statuses=OVERRIDE)
        # 3: a client, and what its CSDS tells
        async with mesh.channel() as channel, trxds.admin.serve(channel, address=ADMIN, network=mesh.network):
            # 4: all hosts get traffic
            assert set(await spread(channel, 120)) == set(mesh.hosts)
            # 5: a reply assigns a cookie
            cookie, chosen = await assigned(channel)
            # 6: RPCs with the cookie go to the host that assigned it
            assert await pinned(channel, cookie) == {chosen}
            # 7, 8: that host begins to drain, and CSDS shows it
            assert await draining(mesh.network) == []
            mesh.endpoints("cart", xds.locality(*mesh.hosts, health={chosen: "DRAINING"}))
            await mesh.plane.wait_for_ack("EDS")
            assert await draining(mesh.network) == [chosen]
            # 9: RPCs with the cookie still go there, others no more
            assert await pinned(channel, cookie) == {chosen}
            assert chosen not in await spread(channel, 60)
            # 10: without the cookie another host assigns one
            new_cookie, new_chosen = await assigned(channel)
            assert new_chosen != chosen
            # 11: the old host goes
            mesh.endpoints("cart", [host for host in mesh.hosts if host != chosen])
            await mesh.plane.wait_for_ack("EDS")
            assert await draining(mesh.network) == []
            # 12: RPCs with the new cookie go to the new host
            assert await pinned(channel, new_cookie) == {new_chosen}
            # 13: those with the old cookie go to a host that is there, and are told a new cookie
            replaced, host = await assigned(channel, cookie)
            assert host != chosen
            # 14: which holds
            assert await pinned(channel, replaced) == {host}


async def assigned(channel, cookie=None):
    """Return the cookie of a reply, and the host that sent it."""
    async with method(channel).open(b"", metadata=[("cookie", cookie)] if cookie else []) as call:
        host = (await call.receive()).decode()
        [header] = [value for name, value in call.initial_metadata if name == "set-cookie"]
    return header.partition(";")[0], host


async def pinned(channel, cookie):
    return set(await spread(channel, 20, metadata=[("cookie", cookie)]))


async def draining(network):
    """The endpoints that are DRAINING in what CSDS shows of the EDS resource."""
    request = ClientStatusRequest().SerializeToString()
    [reply], _ = await call(network, ADMIN, f"{SERVICE}/FetchClientStatus", request)
    [config] = ClientStatusResponse.FromString(reply).config
    [eds] = [each for each in config.generic_xds_configs if each.type_url == EDS.type_url]
    localities = protos.ClusterLoadAssignment.FromString(eds.xds_config.value).endpoints
    hosts = [host for locality in localities for host in locality.lb_endpoints]
    addresses = [each.endpoint.address.socket_address for each in hosts if each.health_status == DRAINING]
    return [f"{each.address}:{each.port_value}" for each in addresses]
