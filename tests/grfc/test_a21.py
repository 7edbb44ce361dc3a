"""A21: a resolver's service config is taken as a whole or refused as a whole, and the one before stays in force."""

from contextlib import asynccontextmanager

import pytest
import trio
from support.mesh import METHOD, ask, spread
from support.plain import hosts_in_memory
from support.resolvers import ROUND_ROBIN, TARGET, Feed, settled

from trxds import CookieAffinity, RpcError, StatusCode
from trxds.testing import Call, server_streaming

BAD = {"loadBalancingConfig": [{"no_such_policy": {}}], "methodConfig": [{"name": [{}], "timeout": "1"}]}
PICK_FIRST = {"loadBalancingConfig": [{"pick_first": {}}]}


def limited(timeout):
    return {"methodConfig": [{"name": [{}], "timeout": timeout}]}


@asynccontextmanager
async def resolved(count=2, **options):
    feed = Feed()
    resolvers = {"my": feed.resolve}
    async with hosts_in_memory(count) as mesh, mesh.channel(TARGET, resolvers=resolvers, **options) as channel:
        yield mesh, channel, feed


@asynccontextmanager
async def asked_for_another_service(watch):
    """Yield a host that takes calls when it is asked for the health of `cart`, once it is asked for that of `shop`."""
    async with resolved(0) as (mesh, channel, feed):
        host = await mesh.add_host(handlers={"/grpc.health.v1.Health/Watch": server_streaming(watch)})
        feed.push(host, service_config=ROUND_ROBIN | {"healthCheckConfig": {"serviceName": "cart"}})
        await ask(channel)
        feed.push(host, service_config=ROUND_ROBIN | {"healthCheckConfig": {"serviceName": "shop"}})
        await settled()
        yield mesh, channel, host


async def failure(channel, **more):
    with pytest.raises(RpcError) as failed:
        await ask(channel, **more)
    return failed.value.status


def hang(mesh):
    for server in mesh.servers.values():
        server.handlers[METHOD] = never


async def never(call):
    await trio.sleep_forever()


async def duration_of_a_call(channel):
    began = trio.current_time()
    assert (await failure(channel, timeout=100)).code is StatusCode.DEADLINE_EXCEEDED
    return trio.current_time() - began


async def test_the_policy_is_that_of_the_resolvers_service_config(autojump_clock):
    async with resolved() as (mesh, channel, feed):
        feed.push(*mesh.hosts, service_config=ROUND_ROBIN)
        await ask(channel)
        await settled()
        assert await spread(channel, 4) == dict.fromkeys(mesh.hosts, 2)


async def test_a_service_config_may_be_text(autojump_clock):
    async with resolved() as (mesh, channel, feed):
        feed.push(*mesh.hosts, service_config='{"loadBalancingConfig": [{"round_robin": {}}]}')
        await ask(channel)
        await settled()
        assert await spread(channel, 4) == dict.fromkeys(mesh.hosts, 2)


async def test_the_resolvers_service_config_takes_the_place_of_the_channels(autojump_clock):
    async with resolved(service_config=limited("5s")) as (mesh, channel, feed):
        hang(mesh)
        feed.push(*mesh.hosts, service_config=limited("2s"))
        assert await duration_of_a_call(channel) == pytest.approx(2, abs=0.2)


async def test_without_one_of_the_resolver_the_channels_is_in_force(autojump_clock):
    async with resolved(service_config=limited("5s")) as (mesh, channel, feed):
        hang(mesh)
        feed.push(*mesh.hosts)
        assert await duration_of_a_call(channel) == pytest.approx(5, abs=0.2)


async def test_without_either_calls_go_by_pick_first_and_have_no_limit(autojump_clock):
    async with resolved() as (mesh, channel, feed):
        feed.push(*mesh.hosts)
        assert await spread(channel, 4) == {mesh.hosts[0]: 4}
        hang(mesh)
        assert await duration_of_a_call(channel) == pytest.approx(100, abs=0.2)


async def test_an_update_without_one_returns_to_the_channels(autojump_clock):
    async with resolved(service_config=limited("5s")) as (mesh, channel, feed):
        hang(mesh)
        feed.push(*mesh.hosts, service_config=limited("2s"))
        await settled()
        feed.push(*mesh.hosts)
        await settled()
        assert await duration_of_a_call(channel) == pytest.approx(5, abs=0.2)


async def test_an_invalid_one_is_refused_whole_and_the_one_before_stays(autojump_clock, caplog):
    async with resolved() as (mesh, channel, feed):
        feed.push(*mesh.hosts, service_config=ROUND_ROBIN | limited("2s"))
        await ask(channel)
        feed.push(*mesh.hosts, service_config=BAD)
        await settled()
        assert await spread(channel, 4) == dict.fromkeys(mesh.hosts, 2)
        hang(mesh)
        assert await duration_of_a_call(channel) == pytest.approx(2, abs=0.2)
        (warning,) = channel.admin_view().warnings
    assert "has a service config that is refused; the one before stays in force" in warning
    assert warning in caplog.text


async def test_the_refusal_lists_every_mistake_with_its_place(autojump_clock):
    async with resolved() as (mesh, channel, feed):
        feed.push(*mesh.hosts, service_config=BAD)
        status = await failure(channel)
    assert "loadBalancingConfig: names no policy that is known here: no_such_policy" in status.message
    assert "methodConfig[0].timeout" in status.message


async def test_an_invalid_one_leaves_the_endpoints_of_its_update_in_force(autojump_clock):
    async with resolved() as (mesh, channel, feed):
        feed.push(mesh.hosts[0], service_config=ROUND_ROBIN)
        await ask(channel)
        feed.push(mesh.hosts[1], service_config=BAD)
        await settled()
        assert await spread(channel, 2) == {mesh.hosts[1]: 2}


async def test_an_empty_one_before_counts_as_valid(autojump_clock):
    async with resolved() as (mesh, channel, feed):
        feed.push(*mesh.hosts)
        await ask(channel)
        feed.push(*mesh.hosts, service_config=BAD)
        await settled()
        assert await ask(channel) == mesh.hosts[0]


async def test_an_invalid_one_first_fails_calls_also_with_one_of_the_channel(autojump_clock):
    async with resolved(service_config=ROUND_ROBIN) as (mesh, channel, feed):
        feed.push(*mesh.hosts, service_config=BAD)
        status = await failure(channel)
        assert status.code is StatusCode.UNAVAILABLE
        assert "has a service config that is refused" in status.message
        feed.push(*mesh.hosts, service_config=ROUND_ROBIN)
        assert await ask(channel, wait_for_ready=True) in mesh.hosts


async def test_after_an_invalid_first_one_a_polling_resolver_is_asked_again_with_backoff(autojump_clock):
    from trxds.resolvers import ResolverUpdate

    async def poll(args):
        while True:
            polls.append(trio.current_time())
            yield ResolverUpdate([], BAD)
            await args.wait_for_resolve_now()

    polls: list[float] = []
    async with hosts_in_memory(0) as mesh, mesh.channel(TARGET, resolvers={"my": poll}):
        await trio.sleep(30)
    assert 4 <= len(polls) <= 9  # after 1 s, 1.6 s, 2.6 s ..., each a fifth more or less


async def test_after_an_invalid_later_one_a_polling_resolver_keeps_its_own_pace(autojump_clock):
    from trxds.resolvers import ResolverUpdate

    async def poll(args):
        while True:
            polls.append(trio.current_time())
            yield ResolverUpdate(mesh.hosts, BAD if len(polls) > 1 else PICK_FIRST)
            await args.wait_for_resolve_now()

    polls: list[float] = []
    async with hosts_in_memory(1) as mesh, mesh.channel(TARGET, resolvers={"my": poll}, refresh=10):
        await trio.sleep(35)
    assert polls == [0, 10, 20, 30]


async def test_unknown_fields_are_no_mistake(autojump_clock):
    async with resolved() as (mesh, channel, feed):
        feed.push(*mesh.hosts, service_config={"UnknownField": "value", "methodConfig": []})
        assert await ask(channel) == mesh.hosts[0]


# -- a change of the service config while calls are made


async def test_a_change_of_the_policy_fails_no_call(autojump_clock):
    async with resolved(3) as (mesh, channel, feed):
        feed.push(*mesh.hosts, service_config=PICK_FIRST)
        await ask(channel)
        for config in (ROUND_ROBIN, PICK_FIRST, ROUND_ROBIN):
            feed.push(*mesh.hosts, service_config=config)
            for _ in range(5):
                await ask(channel)
                await trio.sleep(0.01)
        await settled()
        assert await spread(channel, 6) == dict.fromkeys(mesh.hosts, 2)
        assert mesh.network.attempts[mesh.hosts[0]] == 1


async def test_the_old_policy_picks_until_the_new_one_has_a_host(autojump_clock):
    async with resolved(2) as (mesh, channel, feed):
        feed.push(mesh.hosts[0], service_config=PICK_FIRST)
        await ask(channel)
        mesh.network.black_hole(mesh.hosts[1])
        feed.push(mesh.hosts[1], service_config=ROUND_ROBIN)
        await trio.sleep(5)
        assert await ask(channel) == mesh.hosts[0]


async def test_the_retry_throttle_is_that_of_the_service_config_in_force(autojump_clock):
    async with resolved(1) as (mesh, channel, feed):
        feed.push(*mesh.hosts, service_config={"retryThrottling": {"maxTokens": 10, "tokenRatio": 0.5}})
        await ask(channel)
        assert repr(channel._state.throttle) == "<RetryThrottle 10 of 10 tokens>"
        channel._state.throttle.record_failure()
        feed.push(*mesh.hosts, service_config={"retryThrottling": {"maxTokens": 100, "tokenRatio": 0.5}})
        await settled()
        assert repr(channel._state.throttle) == "<RetryThrottle 90 of 100 tokens>"
        feed.push(*mesh.hosts)
        await settled()
        assert channel._state.throttle is None


async def test_hosts_are_asked_for_their_health_from_the_first_service_config_that_says_so(autojump_clock):
    asked: list[bytes] = []

    async def watch(request: bytes, call: Call):
        asked.append(request[2:])
        yield bytes([8, 1])
        await trio.sleep_forever()

    async with resolved(0) as (mesh, channel, feed):
        for _ in range(2):
            await mesh.add_host(handlers={"/grpc.health.v1.Health/Watch": server_streaming(watch)})
        feed.push(mesh.hosts[0], service_config=ROUND_ROBIN | {"healthCheckConfig": {"serviceName": "cart"}})
        await ask(channel)
        feed.push(*mesh.hosts, service_config=ROUND_ROBIN | {"healthCheckConfig": {"serviceName": "shop"}})
        await settled()
        assert asked == [b"cart", b"shop", b"shop"]
        assert await spread(channel, 4) == dict.fromkeys(mesh.hosts, 2)


async def test_a_connected_host_that_does_not_serve_the_service_of_a_new_config_takes_no_calls(autojump_clock):
    async def watch(request: bytes, call: Call):
        yield bytes([8, 1 if request[2:] == b"cart" else 3])  # SERVING or SERVICE_UNKNOWN
        await trio.sleep_forever()

    async with asked_for_another_service(watch) as (mesh, channel, host):
        assert "SERVICE_UNKNOWN for service 'shop'" in (await failure(channel)).message
        assert len(mesh.servers[host].connections) == 1


async def test_a_host_that_serves_takes_calls_until_it_has_answered_for_the_service_of_a_new_config(autojump_clock):
    async def watch(request: bytes, call: Call):
        await trio.sleep(0 if request[2:] == b"cart" else 10)
        yield bytes([8, 1 if request[2:] == b"cart" else 2])  # SERVING or NOT_SERVING
        await trio.sleep_forever()

    async with asked_for_another_service(watch) as (_, channel, host):
        assert await ask(channel) == host
        await trio.sleep(10)
        assert "NOT_SERVING" in (await failure(channel)).message


async def test_a_host_that_did_not_serve_takes_calls_again_when_nobody_asks_it_any_more(autojump_clock):
    async def watch(request: bytes, call: Call):
        yield bytes([8, 2])  # NOT_SERVING
        await trio.sleep_forever()

    async with resolved(0) as (mesh, channel, feed):
        host = await mesh.add_host(handlers={"/grpc.health.v1.Health/Watch": server_streaming(watch)})
        feed.push(host, service_config=ROUND_ROBIN | {"healthCheckConfig": {"serviceName": "cart"}})
        with pytest.raises(RpcError, match="NOT_SERVING"):
            await ask(channel)
        feed.push(host, service_config=ROUND_ROBIN)
        await settled()
        assert await ask(channel) == host
        assert len(mesh.servers[host].connections) == 1


async def test_a_connected_host_that_was_not_asked_is_asked_at_once(autojump_clock):
    async def watch(request: bytes, call: Call):
        yield bytes([8, 2])  # NOT_SERVING
        await trio.sleep_forever()

    async with resolved(0) as (mesh, channel, feed):
        host = await mesh.add_host(handlers={"/grpc.health.v1.Health/Watch": server_streaming(watch)})
        feed.push(host, service_config=ROUND_ROBIN)
        await ask(channel)
        feed.push(host, service_config=ROUND_ROBIN | {"healthCheckConfig": {"serviceName": "cart"}})
        await settled()
        assert "NOT_SERVING" in (await failure(channel)).message
        assert len(mesh.servers[host].connections) == 1


async def test_sticky_sessions_of_the_service_config_begin_and_end_with_it(autojump_clock):
    sticky = ROUND_ROBIN | {"statefulSession": {"cookie": {"name": "cart"}}}
    async with resolved(3) as (mesh, channel, feed):
        feed.push(*mesh.hosts, service_config=ROUND_ROBIN)
        await ask(channel)
        await settled()
        async with channel.session() as session:
            assert len(await spread(session, 6)) == 3
            feed.push(*mesh.hosts, service_config=sticky)
            await settled()
            assert len(await spread(session, 6)) == 1
            feed.push(*mesh.hosts, service_config=ROUND_ROBIN)
            await settled()
            assert len(await spread(session, 6)) == 3


async def test_an_affinity_of_the_channel_refuses_one_of_the_resolver(autojump_clock):
    async with resolved(affinity=CookieAffinity("cart")) as (mesh, channel, feed):
        feed.push(*mesh.hosts, service_config={"statefulSession": {"cookie": {"name": "cart"}}})
        assert (
            "affinity cannot be used with a service config that has statefulSession" in (await failure(channel)).message
        )
