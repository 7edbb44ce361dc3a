"""`channel.hosts()` lists every host of a channel, and `channel.hosts(watch=True)` its changes."""

import pytest
import trio
from support.mesh import Mesh, method
from support.pinned import ask, listed, plain
from support.resolvers import TARGET, Feed, settled

from trxds import Connectivity, RpcError, StatusCode
from trxds.resolvers import Endpoint
from trxds.testing import resources as xds


async def test_hosts_waits_for_the_first_configuration_and_lists_all(autojump_clock):
    async with plain() as (mesh, channel):
        assert [host.address for host in await listed(channel)] == mesh.hosts


async def test_two_tasks_that_share_an_iterator_of_hosts_get_each_host_once(autojump_clock):
    found = []

    async def take(hosts):
        async for host in hosts:
            found.append(host.address)

    async with plain() as (mesh, channel), trio.open_nursery() as nursery:
        hosts = channel.hosts()
        nursery.start_soon(take, hosts)
        nursery.start_soon(take, hosts)
    assert sorted(found) == sorted(mesh.hosts)


async def test_two_tasks_that_share_a_watch_of_hosts_get_each_new_host_once(autojump_clock):
    found = []

    async def take(hosts):
        async for host in hosts:
            found.append(host.address)

    async with Mesh.run(5) as mesh, mesh.channel() as channel, trio.open_nursery() as nursery:
        mesh.endpoints("cart", xds.locality(mesh.hosts[0]))
        hosts = channel.hosts(watch=True)
        for _ in range(2):
            nursery.start_soon(take, hosts)
        await trio.testing.wait_all_tasks_blocked(0.01)
        mesh.endpoints("cart", xds.locality(*mesh.hosts))
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert sorted(found) == sorted(mesh.hosts)


async def test_hosts_of_a_cluster_have_its_name_locality_and_priority(autojump_clock):
    async with Mesh.run(3) as mesh, mesh.channel() as channel:
        first, second, third = mesh.hosts
        mesh.endpoints("cart", xds.locality(first, second, zone="a"), xds.locality(third, zone="b", priority=1))
        found = await listed(channel)
    assert [(host.address, host.cluster, host.locality, host.priority) for host in found] == [
        (first, "cart", "a", 0),
        (second, "cart", "a", 0),
        (third, "cart", "b", 1),
    ]


async def test_a_host_shows_what_its_resolver_says_and_the_state_of_its_connection(autojump_clock):
    feed = Feed()
    async with plain(2, target=TARGET, resolvers={"my": feed.resolve}) as (mesh, channel):
        one = Endpoint((mesh.hosts[0],), weight=3, hostname="cart-0", attributes={"zone": "a"})
        feed.push(one, mesh.hosts[1])
        await method(channel)(b"")
        first, second = await listed(channel)
    assert (first.weight, first.hostname, first.attributes) == (3, "cart-0", {"zone": "a"})
    assert (first.state, second.state) == (Connectivity.READY, None)


async def test_a_host_of_two_addresses_shows_the_state_of_the_one_that_is_connected(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel:
        one, two = mesh.hosts
        mesh.network.refuse(one)
        both = xds.locality(one, two)
        also = both["lb_endpoints"].pop()["endpoint"]
        both["lb_endpoints"][0]["endpoint"]["additional_addresses"] = [also]
        mesh.endpoints("cart", both)
        mesh.cluster("legacy")
        mesh.endpoints("legacy", [one])
        mesh.route(xds.route("legacy", prefix="/legacy"), xds.route("cart"))
        await method(channel)(b"")
        await settled()
        states = {host.cluster: host.state for host in await listed(channel)}
    assert states == {"cart": Connectivity.READY, "legacy": Connectivity.TRANSIENT_FAILURE}


async def test_the_hosts_of_each_leaf_of_an_aggregate_in_use_are_listed(autojump_clock):
    async with Mesh.run(2) as mesh:
        one, two = mesh.hosts
        for name, host in (("one", one), ("two", two)):
            mesh.cluster(name)
            mesh.endpoints(name, xds.locality(host))
        mesh.plane.put(xds.aggregate("both", "one", "two"))
        mesh.route("both")
        mesh.network.refuse(one)
        async with mesh.channel() as channel:
            await method(channel)(b"", wait_for_ready=True)
            found = await listed(channel)
            assert [(host.address, host.cluster, host.aggregate) for host in found] == [
                (one, "one", "both"),
                (two, "two", "both"),
            ]
            assert await ask(found[1], channel) == two


async def test_hosts_of_a_configuration_in_error_raises_its_error(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel("xds:///no-such-listener") as channel:
        with pytest.raises(RpcError) as failed:
            await listed(channel)
    assert failed.value.status.code is StatusCode.UNAVAILABLE


async def test_a_watch_goes_on_with_hosts_that_come_change_and_leave(autojump_clock):
    feed = Feed()
    async with plain(2, target=TARGET, resolvers={"my": feed.resolve}) as (mesh, channel):
        one, two = mesh.hosts
        feed.push(one)
        hosts = channel.hosts(watch=True)
        assert (await anext(hosts)).address == one
        feed.push(one, two)
        assert (await anext(hosts)).address == two
        feed.push(Endpoint((one,), weight=2), two)
        changed = await anext(hosts)
        assert (changed.address, changed.weight, changed.has_left) == (one, 2, False)
        feed.push(Endpoint((one,), weight=2))
        gone = await anext(hosts)
        assert (gone.address, gone.has_left) == (two, True)


async def test_a_watch_has_the_changes_that_came_while_its_reader_was_busy(autojump_clock):
    feed = Feed()
    async with plain(2, target=TARGET, resolvers={"my": feed.resolve}) as (mesh, channel):
        one, two = mesh.hosts
        feed.push(one)
        hosts = channel.hosts(watch=True)
        assert (await anext(hosts)).address == one
        feed.push(one, two)
        await settled()
        with trio.fail_after(1):
            assert (await anext(hosts)).address == two


async def test_a_watch_that_waits_for_the_first_configuration_ends_with_the_channel(autojump_clock):
    found = []

    async def watch(channel):
        found.append([host async for host in channel.hosts(watch=True)])

    async with trio.open_nursery() as nursery, plain(target=TARGET, resolvers={"my": Feed().resolve}) as (_, channel):
        nursery.start_soon(watch, channel)
        await settled()
    assert found == [[]]


async def test_a_watch_ends_with_the_channel_and_does_not_keep_it_awake(autojump_clock):
    seen = []

    async def watch(channel):
        async for host in channel.hosts(watch=True):
            seen.append(host.address)
        seen.append("end")

    async with trio.open_nursery() as nursery, plain(2, idle_timeout=60) as (mesh, channel):
        nursery.start_soon(watch, channel)
        await trio.sleep(200)
        assert channel.state is Connectivity.IDLE
        assert seen == mesh.hosts
    assert seen[-1] == "end"
