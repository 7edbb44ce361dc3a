"""A pinned call goes to the host that the program chooses, whatever the policies choose."""

from contextlib import asynccontextmanager

import pytest
import trio
from support.mesh import METHOD, Mesh, method, spread
from support.mirroring import shadowed
from support.pinned import ask, listed, plain
from support.resolvers import ROUND_ROBIN, TARGET, Feed, settled
from support.watching import Watcher

from trxds import CallObserver, Connectivity, CookieAffinity, Observer, RpcError, StatusCode
from trxds.client.hosts import ClusterInUse
from trxds.filters import FilterCall, FilterType
from trxds.testing import resources as xds


async def failure(host, channel, **more):
    with pytest.raises(RpcError) as failed:
        await ask(host, channel, **more)
    return failed.value.status


@pytest.mark.parametrize("policy", ["pick_first", "round_robin", "ring_hash_experimental"])
async def test_a_pinned_call_goes_to_its_host_under_each_policy(autojump_clock, policy):
    async with plain(service_config={"loadBalancingConfig": [{policy: {}}]}) as (_mesh, channel):
        for host in await listed(channel):
            for _ in range(2):
                assert await ask(host, channel) == host.address


async def test_a_pinned_call_of_an_xds_channel_goes_to_its_host(autojump_clock):
    async with Mesh.run(3) as mesh, mesh.channel() as channel:
        hosts = await listed(channel)
        assert [await ask(host, channel) for host in hosts] == mesh.hosts


async def test_a_host_of_a_lower_priority_and_one_that_drains_can_be_called(autojump_clock):
    async with Mesh.run(3) as mesh, mesh.channel() as channel:
        first, second, third = mesh.hosts
        mesh.endpoints(
            "cart", xds.locality(first, second, health={second: "DRAINING"}), xds.locality(third, priority=1)
        )
        hosts = await listed(channel)
        assert [await ask(host, channel) for host in hosts] == [first, second, third]


async def test_a_host_that_no_policy_connected_is_connected_as_long_as_the_call_lasts(autojump_clock):
    async with plain() as (mesh, channel):
        last = (await listed(channel))[-1]
        async with method(channel).on(last).open(b"") as call:
            assert (await call.receive()).decode() == last.address
            assert len(mesh.servers[last.address].connections) == 1
        await settled()
        assert len(mesh.servers[last.address].connections) == 0
        assert mesh.network.attempts[last.address] == 1


async def test_a_pinned_call_uses_the_connection_that_the_policy_has(autojump_clock):
    async with plain(service_config=ROUND_ROBIN) as (mesh, channel):
        await method(channel)(b"")
        await settled()
        for host in await listed(channel):
            await ask(host, channel)
        assert [mesh.network.attempts[host] for host in mesh.hosts] == [1, 1, 1]


async def test_a_pinned_call_to_a_host_that_has_left_fails_and_says_so(autojump_clock):
    feed = Feed()
    async with plain(2, target=TARGET, resolvers={"my": feed.resolve}) as (mesh, channel):
        feed.push(*mesh.hosts)
        gone = (await listed(channel))[1]
        feed.push(mesh.hosts[0])
        await settled()
        status = await failure(gone, channel)
    assert status.code is StatusCode.UNAVAILABLE
    assert (
        status.message == f"the call is pinned to host {gone.address}: it is no endpoint of cluster {TARGET} any more"
    )


async def test_a_pinned_call_to_a_cluster_that_is_not_used_any_more_fails_and_says_so(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        (host,) = await listed(channel)
        mesh.cluster("other")
        mesh.endpoints("other", xds.locality(mesh.hosts[0]))
        mesh.route("other")
        await trio.sleep(20 * 60)
        assert "no policy has cluster cart any more" in (await failure(host, channel)).message


async def test_a_pinned_call_to_a_host_that_cannot_be_reached_fails_with_the_reason(autojump_clock):
    async with plain() as (mesh, channel):
        last = (await listed(channel))[-1]
        mesh.network.refuse(last.address)
        status = await failure(last, channel)
        assert status.code is StatusCode.UNAVAILABLE
        assert f"pinned to host {last.address}: {last.address}: cannot connect: Connection refused" in status.message


async def test_a_pinned_call_that_waits_for_ready_waits_for_its_host(autojump_clock):
    async with plain() as (mesh, channel), trio.open_nursery() as nursery:
        last, found = (await listed(channel))[-1], []
        mesh.network.refuse(last.address)

        async def wait():
            found.append(await ask(last, channel, wait_for_ready=True))

        nursery.start_soon(wait)
        await trio.sleep(10)
        assert not found
        mesh.network.restore(last.address)
        await trio.sleep(60)
        assert found == [last.address]


async def test_a_pinned_call_that_waits_for_ready_waits_for_a_host_that_has_left(autojump_clock):
    feed = Feed()
    async with plain(2, target=TARGET, resolvers={"my": feed.resolve}) as (mesh, channel), trio.open_nursery() as tasks:
        feed.push(*mesh.hosts)
        last, found = (await listed(channel))[1], []
        feed.push(mesh.hosts[0])
        await settled()

        async def wait():
            found.append(await ask(last, channel, wait_for_ready=True))

        tasks.start_soon(wait)
        await trio.sleep(10)
        assert not found
        feed.push(*mesh.hosts)
        await trio.sleep(10)
        assert found == [last.address]


async def test_a_pinned_call_wakes_an_idle_channel(autojump_clock):
    async with plain(idle_timeout=60) as (_mesh, channel):
        last = (await listed(channel))[-1]
        await trio.sleep(100)
        assert channel.state is Connectivity.IDLE
        assert await ask(last, channel) == last.address


async def test_a_pinned_call_is_retried_on_its_host_only(autojump_clock):
    policy = {
        "maxAttempts": 3,
        "initialBackoff": "0.1s",
        "maxBackoff": "1s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    config = ROUND_ROBIN | {"methodConfig": [{"name": [{}], "retryPolicy": policy}]}
    async with plain(service_config=config) as (mesh, channel):
        called = []

        def recording(address):
            async def handler(call):
                called.append((address, call.metadata.first("grpc-previous-rpc-attempts")))
                call.abort(StatusCode.UNAVAILABLE, "broken")

            return handler

        for address, server in mesh.servers.items():
            server.handlers[METHOD] = recording(address)
        host = (await listed(channel))[1]
        assert (await failure(host, channel)).message == "broken"
        assert called == [(host.address, None), (host.address, "1"), (host.address, "2")]


async def test_a_pinned_call_goes_on_as_soon_as_its_host_is_connected(autojump_clock):
    async with plain() as (_, channel):
        host = (await listed(channel))[-1]
        began = trio.current_time()
        await ask(host, channel)
        assert trio.current_time() == began


async def test_an_observer_of_a_pinned_call_is_told_of_no_session(autojump_clock):
    watcher = Watcher()
    async with plain(affinity=CookieAffinity("cart"), service_config=ROUND_ROBIN) as (_, channel):
        host = (await listed(channel))[-1]
        with channel.observed_by(watcher):
            await ask(host, channel)
    assert watcher.of("session-pick", "settled", "over") == ["over OK"]


async def test_a_pinned_call_is_not_hedged(autojump_clock):
    hedging = {"maxAttempts": 3, "hedgingDelay": "0.1s", "nonFatalStatusCodes": ["UNAVAILABLE"]}
    config = ROUND_ROBIN | {"methodConfig": [{"name": [{}], "hedgingPolicy": hedging}]}
    async with plain(service_config=config) as (mesh, channel):
        called = []
        for address, server in mesh.servers.items():
            server.handlers[METHOD] = broken(address, called)
        host = (await listed(channel))[1]
        await failure(host, channel)
        assert called == [host.address]


def broken(address, called):
    async def handler(call):
        called.append(address)
        call.abort(StatusCode.UNAVAILABLE, "broken")

    return handler


async def test_the_circuit_breaker_counts_pinned_calls(autojump_clock):
    async with Mesh.run(2) as mesh:
        mesh.plane.put({**xds.cluster("cart"), "circuit_breakers": {"thresholds": [{"max_requests": 1}]}})
        async with mesh.channel() as channel:
            one, two = await listed(channel)
            async with method(channel).on(one).open():
                assert "circuit breaker drop" in (await failure(two, channel)).message
            assert await ask(two, channel) == two.address


async def test_load_reports_count_pinned_calls_in_their_locality(autojump_clock):
    async with Mesh.run(2) as mesh:
        mesh.plane.put(xds.cluster("cart") | xds.load_reports())
        mesh.endpoints("cart", [mesh.hosts[0]], [mesh.hosts[1]])
        mesh.plane.load.ask(interval=10.0)
        async with mesh.channel() as channel:
            for host in await listed(channel):
                for _ in range(3 if host.locality == "z1" else 1):
                    await ask(host, channel)
            report = (await mesh.plane.load.next_report()).clusters["cart"]
    assert {each.locality.zone: each.total_successful_requests for each in report.upstream_locality_stats} == {
        "z0": 1,
        "z1": 3,
    }


async def test_outlier_detection_counts_pinned_calls(autojump_clock):
    rules = {
        "interval": "1s",
        "failure_percentage_threshold": 50,
        "enforcing_failure_percentage": 100,
        "failure_percentage_minimum_hosts": 1,
        "failure_percentage_request_volume": 5,
        "max_ejection_percent": 50,
    }
    async with Mesh.run(2) as mesh:
        mesh.plane.put({**xds.cluster("cart"), "outlier_detection": rules})
        async with mesh.channel() as channel:
            bad, good = await listed(channel)
            mesh.servers[bad.address].handlers[METHOD] = broken(bad.address, [])
            for _ in range(10):
                await failure(bad, channel)
                await ask(good, channel)
            await trio.sleep(2)
            assert await spread(channel, 6) == {good.address: 6}


async def test_a_pinned_call_of_a_session_takes_no_cookie_and_does_not_move_it(autojump_clock):
    options = {"affinity": CookieAffinity("cart"), "service_config": ROUND_ROBIN}
    async with plain(**options) as (_mesh, channel):
        await method(channel)(b"")
        await settled()
        async with channel.session() as session:
            (home,) = await spread(session, 2)
            for host in await listed(channel):
                reply, done = await method(session).on(host).with_call(b"")
                assert reply.decode() == host.address
                assert "set-cookie" not in dict(done.initial_metadata)
            assert session.host == home
            assert await spread(session, 2) == {home: 2}


async def test_a_pinned_call_passes_the_programs_filters_on_both_ways(autojump_clock):
    seen = []

    class Follow(FilterCall):
        def on_headers(self, metadata):
            seen.append("headers")
            return metadata

        def on_close(self, status):
            seen.append(status.code.name)

    class Following:
        def start(self, call):
            return Follow()

    types = {"my.Following": FilterType(lambda settings, context: Following())}
    async with Mesh.run(2) as mesh:
        following = xds.custom_filter("following", "my.Following")
        mesh.plane.put(xds.listener("shop", routes="routes", filters=[xds.stateful_session(), following]))
        async with mesh.channel(http_filters=types) as channel:
            host = [each async for each in channel.hosts()][1]
            assert (await method(channel).on(host)(b"")).decode() == host.address
            assert seen == ["headers", "OK"]


async def test_a_pinned_call_passes_the_interceptors(autojump_clock):
    @asynccontextmanager
    async def note(call, next):
        noted.append(call.method)
        async with next(call) as stream:
            yield stream

    noted = []
    async with plain(interceptors=[note]) as (_mesh, channel):
        last = (await listed(channel))[-1]
        assert await ask(last, channel) == last.address
    assert noted == [METHOD]


async def test_observers_get_the_cluster_of_the_host_and_not_that_of_the_route(autojump_clock):
    class Notes(Observer, CallObserver):
        def call(self, call):
            return self

        def routed(self, cluster, hedged):
            seen.append((cluster, hedged))

    seen = []
    async with Mesh.run(2) as mesh:
        for name, address in zip(("cart", "other"), mesh.hosts, strict=True):
            mesh.cluster(name)
            mesh.endpoints(name, [address])
        mesh.route(xds.route("other", prefix="/other/"), xds.route("cart"))
        async with mesh.channel() as channel:
            hosts = await listed(channel)
            with channel.observed_by(Notes()):
                for host in hosts:
                    assert await ask(host, channel) == host.address
    assert sorted(seen) == [("cart", False), ("other", False)]


async def test_a_pinned_call_is_not_copied_to_a_mirror_cluster(autojump_clock):
    async with shadowed() as made:
        host = next(host for host in await listed(made.channel) if host.cluster == "cart")
        assert await ask(host, made.channel) == host.address
        await settled()
        assert made.notes.all == []
        await method(made.channel)(b"")
        await settled()
        assert made.notes.results == ["completed"]


async def test_a_waiting_pinned_call_does_not_search_ten_thousand_hosts_again(autojump_clock, monkeypatch):
    searches = []
    search = ClusterInUse.has
    monkeypatch.setattr(ClusterInUse, "has", lambda self, address: searches.append(address) or search(self, address))
    async with plain() as (mesh, channel):
        last = (await listed(channel))[-1]
        mesh.network.refuse(last.address)
        with pytest.raises(RpcError):
            await ask(last, channel, wait_for_ready=True, timeout=60)
    assert searches == [last.address]


async def test_other_calls_of_the_method_are_not_pinned(autojump_clock):
    async with plain() as (mesh, channel):
        plain_method = method(channel)
        last = (await listed(channel))[-1]
        await plain_method.on(last)(b"")
        assert (await plain_method(b"")).decode() == mesh.hosts[0]


async def test_a_call_can_be_pinned_to_a_host_only(autojump_clock):
    async with plain() as (_mesh, channel):
        with pytest.raises(
            TypeError, match=r"on takes a trxds.Host, as channel.hosts\(\) yields them, not '10.0.0.1:443'"
        ):
            method(channel).on("10.0.0.1:443")
