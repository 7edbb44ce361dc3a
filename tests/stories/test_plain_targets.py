"""Channels without a control plane resolve their targets and follow a service config (A2)."""

import math
from contextlib import suppress

import pytest
import trio
from support.mesh import METHOD, ask, method, settled, spread
from support.plain import BY_NAME, hosts_in_memory
from support.tasks import task_names

import trxds
from trxds import Connectivity, RpcError, StatusCode

ROUND_ROBIN = {"loadBalancingConfig": [{"round_robin": {}}]}


def addresses(hosts):
    return "ipv4:" + ",".join(hosts)


# -- addresses


async def test_pick_first_has_one_connection_and_it_is_to_the_first_address(autojump_clock):
    async with hosts_in_memory(3) as mesh, mesh.channel(addresses(mesh.hosts)) as channel:
        assert await spread(channel, 5) == {mesh.hosts[0]: 5}
        assert [mesh.network.attempts[host] for host in mesh.hosts] == [1, 0, 0]


async def test_pick_first_uses_the_next_address_after_one_that_fails(autojump_clock):
    async with hosts_in_memory(3) as mesh, mesh.channel(addresses(mesh.hosts)) as channel:
        await ask(channel)
        mesh.fail(mesh.hosts[0])
        assert await ask(channel, wait_for_ready=True) == mesh.hosts[1]


async def test_pick_first_tries_the_next_address_after_250_ms(autojump_clock):
    async with hosts_in_memory(2) as mesh:
        mesh.network.black_hole(mesh.hosts[0])
        began = trio.current_time()
        async with mesh.channel(addresses(mesh.hosts)) as channel:
            assert await ask(channel) == mesh.hosts[1]
        assert trio.current_time() - began == pytest.approx(0.25)


async def test_round_robin_by_service_config_reaches_every_address(autojump_clock):
    async with hosts_in_memory(3) as mesh, mesh.channel(service_config=ROUND_ROBIN) as channel:
        await ask(channel)
        await settled()
        assert await spread(channel, 9) == dict.fromkeys(mesh.hosts, 3)


async def test_ring_hash_by_a_header_of_the_service_config_keeps_to_one_address(autojump_clock):
    config = {"loadBalancingConfig": [{"ring_hash_experimental": {"requestHashHeader": "user"}}]}
    async with hosts_in_memory(3) as mesh, mesh.channel(service_config=config) as channel:
        assert len(await spread(channel, 5, metadata=[("user", "7")])) == 1


async def test_outlier_detection_of_a_service_config_ejects_a_failing_host(autojump_clock):
    rules = {"minimumHosts": 2, "requestVolume": 5}
    ejecting = {
        "interval": "1s",
        "maxEjectionPercent": 50,
        "failurePercentageEjection": rules,
        "childPolicy": [{"round_robin": {}}],
    }
    config = {"loadBalancingConfig": [{"outlier_detection_experimental": ejecting}]}
    async with hosts_in_memory(3) as mesh, mesh.channel(service_config=config) as channel:
        bad, *good = mesh.hosts
        await ask(channel)
        await settled()
        mesh.servers[bad].handlers[METHOD] = broken
        for _ in range(30):
            with suppress(RpcError):
                await ask(channel)
        await trio.sleep(2)  # two intervals, so at least one sweep
        assert await spread(channel, 8) == dict.fromkeys(good, 4)


async def broken(call):
    call.abort(StatusCode.UNAVAILABLE, "broken")


async def test_the_error_with_all_addresses_down_names_one_and_its_reason(autojump_clock):
    async with hosts_in_memory(1) as mesh:
        mesh.network.refuse(mesh.hosts[0])
        async with mesh.channel() as channel:
            with pytest.raises(RpcError) as failed:
                await ask(channel)
    assert failed.value.status.code is StatusCode.UNAVAILABLE
    assert f"{mesh.hosts[0]}: cannot connect: Connection refused" in failed.value.status.message


# -- names


async def test_an_unresolvable_dns_target_fails_calls_with_the_reason_until_it_resolves(autojump_clock):
    async with hosts_in_memory(1) as mesh:
        mesh.points_to()
        async with mesh.channel() as channel:
            with pytest.raises(RpcError) as failed:
                await ask(channel)
            assert failed.value.status.code is StatusCode.UNAVAILABLE
            assert 'DNS name "cart.example:50051" cannot be resolved since ' in failed.value.status.message
            assert channel.state is Connectivity.TRANSIENT_FAILURE
            mesh.points_to(*mesh.hosts)
            assert await ask(channel, wait_for_ready=True) == mesh.hosts[0]


async def test_a_dns_target_is_resolved_again_with_backoff_after_a_failure(autojump_clock):
    async with hosts_in_memory(0) as mesh, mesh.channel():
        await trio.sleep(30)
        assert 4 <= mesh.look_ups <= 9  # after 1 s, 1.6 s, 2.6 s ..., each a fifth more or less


async def test_the_deadline_error_of_a_call_names_the_pending_dns_look_up(autojump_clock):
    async with hosts_in_memory(1) as mesh:

        async def never(host, port):
            await trio.sleep_forever()

        mesh.network.resolve = never
        async with mesh.channel() as channel:
            assert channel.state is Connectivity.CONNECTING
            with pytest.raises(RpcError) as failed:
                await ask(channel, timeout=3)
    assert failed.value.status.code is StatusCode.DEADLINE_EXCEEDED
    assert f"waiting for the addresses of {BY_NAME}" in failed.value.status.message


async def test_a_dns_target_is_resolved_once_while_its_hosts_are_connected(autojump_clock):
    async with hosts_in_memory(2) as mesh, mesh.channel(service_config=ROUND_ROBIN) as channel:
        for _ in range(10):
            await ask(channel)
            await trio.sleep(60)
        assert mesh.look_ups == 1


async def test_a_dns_target_is_resolved_again_when_its_host_is_lost(autojump_clock):
    async with hosts_in_memory(2) as mesh:
        mesh.points_to(mesh.hosts[0])
        async with mesh.channel() as channel:
            await ask(channel)
            await trio.sleep(60)
            mesh.points_to(mesh.hosts[1])
            mesh.fail(mesh.hosts[0])
            await settled()
            assert await ask(channel, wait_for_ready=True) == mesh.hosts[1]


async def test_a_dns_target_is_resolved_again_when_one_of_many_hosts_is_lost(autojump_clock):
    async with hosts_in_memory(3) as mesh:
        mesh.points_to(*mesh.hosts[:2])
        async with mesh.channel(service_config=ROUND_ROBIN) as channel:
            await ask(channel)
            await trio.sleep(60)
            mesh.points_to(*mesh.hosts[1:])
            mesh.fail(mesh.hosts[0])
            await settled()
            assert await spread(channel, 4) == {mesh.hosts[1]: 2, mesh.hosts[2]: 2}


async def test_a_dns_target_is_resolved_at_most_every_thirty_seconds(autojump_clock):
    async with hosts_in_memory(1) as mesh, mesh.channel() as channel:
        await ask(channel)
        began = trio.current_time()
        mesh.fail(mesh.hosts[0])
        with trio.move_on_after(300):
            while True:
                with pytest.raises(RpcError):
                    await ask(channel)
                await trio.sleep(0.5)
        assert 2 <= mesh.look_ups <= 1 + (trio.current_time() - began) / 30


async def test_a_failed_look_up_of_a_dns_target_keeps_its_addresses(autojump_clock):
    async with hosts_in_memory(2) as mesh, mesh.channel(service_config=ROUND_ROBIN) as channel:
        await ask(channel)
        await trio.sleep(60)
        mesh.points_to()
        mesh.fail(mesh.hosts[0])
        await settled()
        assert mesh.look_ups >= 2
        assert await spread(channel, 4) == {mesh.hosts[1]: 4}


async def test_a_remaining_host_keeps_its_connection_when_a_dns_target_changes(autojump_clock):
    async with hosts_in_memory(3) as mesh:
        mesh.points_to(*mesh.hosts[:2])
        async with mesh.channel(service_config=ROUND_ROBIN) as channel:
            await ask(channel)
            await trio.sleep(60)
            mesh.points_to(*mesh.hosts[1:])
            mesh.fail(mesh.hosts[0])
            await settled()
            await spread(channel, 4)
            assert mesh.network.attempts[mesh.hosts[1]] == 1


async def test_an_address_that_cannot_be_reached_keeps_its_backoff_when_a_dns_target_changes(autojump_clock):
    async with hosts_in_memory(3) as mesh:
        for host in mesh.hosts:
            mesh.network.refuse(host)
        stays = mesh.hosts[1]
        async with mesh.channel(refresh=1) as channel:
            with suppress(RpcError):
                await ask(channel)
            for _ in range(15):
                mesh.points_to(mesh.hosts[0], stays)
                await settled()
                mesh.points_to(mesh.hosts[2], stays)
                await settled()
        assert mesh.network.attempts[stays] < 10  # not one for each change


# -- the service config


async def test_a_service_config_sets_a_methods_timeout(autojump_clock):
    config = {"methodConfig": [{"name": [{"service": "shop.Cart"}], "timeout": "2s"}]}
    async with hosts_in_memory(1) as mesh:
        mesh.network.black_hole(mesh.hosts[0])
        async with mesh.channel(service_config=config) as channel:
            began = trio.current_time()
            with pytest.raises(RpcError) as failed:
                await ask(channel)
            assert (failed.value.status.code, trio.current_time() - began) == (StatusCode.DEADLINE_EXCEEDED, 2)
            told = await channel.explain(METHOD)
            assert str(told.chosen.limit) == "2 s (the service config's timeout)"


async def test_a_service_configs_timeout_of_0_ends_calls_at_once(autojump_clock):
    config = {"methodConfig": [{"name": [{}], "timeout": "0s"}]}
    async with hosts_in_memory(1) as mesh, mesh.channel(service_config=config) as channel:
        with pytest.raises(RpcError) as failed:
            await ask(channel)
        assert failed.value.status.code is StatusCode.DEADLINE_EXCEEDED


async def test_a_service_config_sets_wait_for_ready(autojump_clock):
    config = {"methodConfig": [{"name": [{}], "waitForReady": True}]}
    async with hosts_in_memory(1) as mesh:
        mesh.network.refuse(mesh.hosts[0])
        async with mesh.channel(service_config=config) as channel, trio.open_nursery() as nursery:
            nursery.start_soon(ask, channel)
            await trio.sleep(5)
            mesh.network.restore(mesh.hosts[0])


async def test_a_service_config_sets_a_retry_policy(autojump_clock):
    policy = {"maxAttempts": 3, "initialBackoff": "1s", "maxBackoff": "9s", "backoffMultiplier": 2}
    config = {"methodConfig": [{"name": [{}], "retryPolicy": {**policy, "retryableStatusCodes": ["ABORTED"]}}]}
    async with hosts_in_memory(1) as mesh, mesh.channel(service_config=config) as channel:

        async def fails_twice(call):
            if len(server.calls) < 3:
                call.abort(StatusCode.ABORTED, "not yet")
            await call.send(b"done")

        server = mesh.servers[mesh.hosts[0]]
        server.fallback = fails_twice
        assert await method(channel)(b"") == b"done"


# -- the rest


async def test_a_closed_channel_without_xds_leaves_no_task(autojump_clock):
    async with hosts_in_memory(2) as mesh:
        before = task_names()
        async with mesh.channel(service_config=ROUND_ROBIN) as channel:
            await spread(channel, 4)
        await settled()
        assert task_names() == before


async def test_an_explanation_without_xds_names_the_address(autojump_clock):
    async with hosts_in_memory(2) as mesh, mesh.channel() as channel:
        await ask(channel)
        told = await channel.explain(METHOD)
        assert told.host == mesh.hosts[0]
        assert told.chosen.cluster == BY_NAME


async def test_a_session_without_a_control_plane_sends_back_the_servers_cookies(autojump_clock):
    async with hosts_in_memory(1) as mesh:

        async def bakes(call):
            await call.send_initial_metadata([("set-cookie", "taste=sweet")])
            await call.send(b"")

        mesh.servers[mesh.hosts[0]].fallback = bakes
        async with mesh.channel() as channel, channel.session() as session:
            await method(session)(b"")
            await method(session)(b"")
        assert mesh.servers[mesh.hosts[0]].calls[-1].metadata.first("cookie") == "taste=sweet"


# -- on a schedule


async def test_with_refresh_a_name_is_resolved_again_while_nothing_fails(autojump_clock):
    async with hosts_in_memory(2) as mesh:
        mesh.points_to(mesh.hosts[0])
        async with mesh.channel(service_config=ROUND_ROBIN, refresh=10) as channel:
            await ask(channel)
            mesh.points_to(*mesh.hosts)
            await trio.sleep(11)
            assert await spread(channel, 4) == dict.fromkeys(mesh.hosts, 2)
            await trio.sleep(30)
            assert mesh.look_ups == 5


async def test_a_host_that_is_lost_is_resolved_again_before_the_schedule(autojump_clock):
    async with hosts_in_memory(1) as mesh, mesh.channel(refresh=600) as channel:
        await ask(channel)
        await trio.sleep(60)
        mesh.network.cut(mesh.hosts[0])
        await trio.sleep(60)
        assert mesh.look_ups == 2
        await trio.sleep(601)
        assert mesh.look_ups == 3


async def test_no_name_is_resolved_while_the_channel_is_idle(autojump_clock):
    async with hosts_in_memory(1) as mesh, mesh.channel(refresh=5, idle_timeout=60) as channel:
        await ask(channel)
        await trio.sleep(100)
        before = mesh.look_ups
        await trio.sleep(1000)
        assert mesh.look_ups == before
        await ask(channel)
        assert mesh.look_ups == before + 1


@pytest.mark.parametrize(
    ("target", "refresh", "text"),
    [
        (BY_NAME, 0.5, "refresh is 0.5; it must be a number of seconds from 1, or None for no schedule"),
        (BY_NAME, math.nan, "refresh is nan; it must be a number of seconds from 1"),
        (
            "ipv4:10.0.0.1:80",
            30,
            "refresh cannot be used with the target 'ipv4:10.0.0.1:80', whose addresses are known",
        ),
        ("xds:///shop", 30, "refresh cannot be used with the target 'xds:///shop'"),
    ],
)
async def test_a_schedule_that_makes_no_sense_is_refused(target, refresh, text):
    with pytest.raises(ValueError, match=text):
        async with trxds.open_channel(target, refresh=refresh):
            pass
