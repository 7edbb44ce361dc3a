"""A105: a host gets more connections when its limit on streams is reached, as far as its configuration allows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import trio
from support.connection_scaling import Held, connections, one_host, one_host_of_a_cluster, scaled, subchannel
from support.mesh import ask
from support.plain import BY_NAME, hosts_in_memory

import trxds
import trxds.admin
from trxds import RpcError, StatusCode
from trxds.testing import resources as xds

SERVICE_CONFIG_GUARD = "GRPC_EXPERIMENTAL_MAX_CONCURRENT_STREAMS_CONNECTION_SCALING"
DOCUMENT = Path(__file__).parents[2] / "docs" / "calls.md"
XDS_GUARD = "GRPC_EXPERIMENTAL_XDS_MAX_CONCURRENT_STREAMS_CONNECTION_SCALING"


# -- new connections


async def test_a_call_beyond_the_limit_on_streams_gets_another_connection(autojump_clock):
    async with one_host(2, streams=2) as (mesh, _, held):
        await held.begin(3)
        assert held.answered == [1, 2, 3]
        assert connections(mesh) == [2, 1]


async def test_calls_wait_when_all_connections_are_full(autojump_clock):
    async with one_host(3, streams=2) as (mesh, _, held):
        await held.begin(8)
        assert held.answered == [1, 2, 3, 4, 5, 6]
        assert connections(mesh) == [2, 2, 2]


async def test_one_connection_is_the_most_unless_said(autojump_clock):
    async with hosts_in_memory(0) as mesh, trio.open_nursery() as nursery:
        await mesh.add_host(max_concurrent_streams=1)
        mesh.points_to(*mesh.hosts)
        async with mesh.channel() as channel:
            held = Held(channel, nursery)
            await held.begin(2)
            assert held.answered == [1] and connections(mesh) == [1]
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("options", "most"), [({}, 10), ({"max_connections_per_subchannel_cap": 3}, 3)])
async def test_the_channel_caps_the_number(autojump_clock, options, most):
    async with one_host(1000, **options) as (mesh, _, held):
        await held.begin(12)
        assert connections(mesh) == [1] * most


async def test_the_channel_may_raise_the_cap(autojump_clock):
    async with one_host(12, max_connections_per_subchannel_cap=20) as (mesh, _, held):
        await held.begin(13)
        assert connections(mesh) == [1] * 12


async def test_a_cap_of_no_connection_is_refused():
    with pytest.raises(
        ValueError, match="max_connections_per_subchannel_cap is 0; it must be a whole number, 1 or more"
    ):
        async with trxds.open_channel(BY_NAME, max_connections_per_subchannel_cap=0):
            pass


async def test_only_one_attempt_is_under_way_at_a_time(autojump_clock):
    async with one_host(5) as (mesh, _, held):
        await held.begin(1)
        mesh.network.black_hole(mesh.hosts[0])
        await held.begin(4)
        assert mesh.network.attempts[mesh.hosts[0]] == 2


async def test_a_new_connection_that_does_not_suffice_is_followed_by_another(autojump_clock):
    async with one_host(4) as (mesh, _, held):
        await held.begin(1)
        mesh.network.black_hole(mesh.hosts[0])
        await held.begin(3)
        mesh.network.restore(mesh.hosts[0])
        await trio.sleep(25)  # the time of an attempt, and its backoff
        assert held.answered == [1, 2, 3, 4] and connections(mesh) == [1] * 4


# -- which connection a call gets


async def test_a_call_goes_to_the_oldest_connection_that_has_a_stream_left(autojump_clock):
    async with one_host(3) as (mesh, _, held):
        await held.begin(3)
        await held.end(3)
        await held.end(2)
        await held.begin(1)
        assert connections(mesh) == [1, 1, 0]


async def test_waiting_calls_are_served_in_order(autojump_clock):
    async with one_host(2) as (_, _, held):
        await held.begin(5)
        for number in (2, 1, 4):
            await held.end(number)
        assert held.answered == [1, 2, 3, 4, 5]


async def test_a_stream_that_ends_serves_the_queue_on_its_own_connection(autojump_clock):
    async with one_host(2) as (mesh, _, held):
        await held.begin(3)
        await held.end(2)
        assert held.answered == [1, 2, 3] and connections(mesh) == [1, 1]


async def test_a_waiting_call_can_be_cancelled(autojump_clock):
    async with one_host(2) as (_, channel, held):
        await held.begin(4)
        await held.end(3)
        assert subchannel(channel).working.num_waiting == 1
        await held.end(1)
        assert held.answered == [1, 2, 4]


async def test_a_waiting_call_keeps_its_deadline(autojump_clock):
    async with one_host(2) as (_, channel, held):
        await held.begin(2)
        with pytest.raises(RpcError) as caught:
            await ask(channel, timeout=3)
        assert caught.value.status.code is StatusCode.DEADLINE_EXCEEDED


async def test_unary_calls_use_all_connections(autojump_clock):
    async with one_host(2) as (mesh, channel, held):
        await held.begin(1)
        for _ in range(20):
            assert await ask(channel) == mesh.hosts[0]
        assert connections(mesh) == [1, 0]


# -- the limit of the server


async def test_a_higher_limit_serves_the_queue(autojump_clock):
    async with one_host(2, streams=2) as (mesh, _, held):
        await held.begin(1)
        mesh.network.inject(mesh.hosts[0], settings(max_streams=1))
        await trio.sleep(0.01)
        mesh.network.black_hole(mesh.hosts[0])
        await held.begin(1)
        assert held.answered == [1]
        mesh.network.inject(mesh.hosts[0], settings(max_streams=2))
        await trio.sleep(0.01)
        assert held.answered == [1, 2]


async def test_a_lower_limit_ends_no_call(autojump_clock):
    async with one_host(2, streams=2) as (mesh, _, held):
        await held.begin(2)
        mesh.network.inject(mesh.hosts[0], settings(max_streams=1))
        await trio.sleep(0.01)
        await held.begin(1)
        assert held.answered == [1, 2, 3] and not held.failed and connections(mesh) == [2, 1]


def settings(max_streams):
    """The bytes of a SETTINGS frame (RFC 9113 §6.5)."""
    return b"\0\0\6\4\0\0\0\0\0" + b"\0\3" + max_streams.to_bytes(4, "big")


# -- the control plane


async def test_a_cluster_allows_more_connections_to_each_host(autojump_clock):
    async with one_host_of_a_cluster(2) as (mesh, _, held):
        await held.begin(3)
        assert held.answered == [1, 2] and connections(mesh) == [1, 1]


async def test_the_document_has_the_fields_of_a_cluster(autojump_clock):
    [block] = re.findall(r"^```json\n(.*?)^```$", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    async with one_host_of_a_cluster(1) as (mesh, _, held):
        mesh.plane.put(xds.cluster("cart") | json.loads(block))
        await held.begin(5)
        assert connections(mesh) == [1] * 4


async def test_a_higher_number_serves_calls_that_wait_and_makes_no_new_subchannel(autojump_clock):
    async with one_host_of_a_cluster(1) as (mesh, channel, held):
        await held.begin(3)
        before = subchannel(channel)
        mesh.plane.put(xds.cluster("cart") | scaled(3))
        await trio.sleep(0.1)
        assert held.answered == [1, 2, 3] and subchannel(channel) is before


async def test_a_lower_number_closes_no_connection(autojump_clock):
    async with one_host_of_a_cluster(2) as (mesh, channel, held):
        await held.begin(2)
        mesh.plane.put(xds.cluster("cart") | scaled(1))
        await trio.sleep(0.1)
        assert connections(mesh) == [1, 1] and subchannel(channel).working.max == 1
        await held.end(2)
        await held.begin(1)
        assert held.answered == [1, 2, 3] and connections(mesh) == [1, 1]


async def test_of_two_clusters_with_the_same_host_the_higher_number_counts(autojump_clock):
    async with one_host_of_a_cluster(1) as (mesh, channel, held):
        mesh.plane.put(xds.cluster("other") | scaled(2))
        mesh.endpoints("other", mesh.hosts)
        mesh.route({"cart": 999_999, "other": 1})  # so that chance gives cart
        await held.begin(3)
        assert subchannel(channel).working.max == 2 and connections(mesh) == [1, 1]
        mesh.route("cart")
        await trio.sleep(16 * 60)  # the cluster stays in use until no call may need it
        assert subchannel(channel).working.max == 1 and connections(mesh) == [1, 1]


async def test_a_session_stays_on_its_host_whichever_connection_carries_its_calls(autojump_clock):
    async with one_host_of_a_cluster(2, sessions=True) as (mesh, channel, held):
        await mesh.add_host(max_concurrent_streams=1)
        mesh.endpoints("cart", mesh.hosts)
        async with channel.session() as session:
            host = await ask(session)
            held = Held(session, held._nursery)
            await held.begin(1)
            assert [await ask(session) for _ in range(3)] == [host] * 3
            [other] = {*mesh.hosts} - {host}
            assert len(mesh.servers[host].connections) == 2 and len(mesh.servers[other].connections) < 2


async def test_zero_connections_are_refused(autojump_clock):
    async with one_host_of_a_cluster(2) as (mesh, _, held):
        await held.begin(1)
        mesh.plane.put(xds.cluster("cart") | scaled(0))
        await trio.sleep(0.1)
        [nack] = {request.error for request in mesh.plane.requests if request.error}
        assert "circuit_breakers.per_host_thresholds[0].max_connections" in nack and "greater than 0" in nack


# -- the guards


async def test_switched_off_the_service_config_has_no_say_and_the_log_says_so(autojump_clock, monkeypatch, caplog):
    monkeypatch.setenv(SERVICE_CONFIG_GUARD, "false")
    async with one_host(2) as (mesh, _, held):
        await held.begin(2)
        assert connections(mesh) == [1]
    assert f"take {SERVICE_CONFIG_GUARD}=false out of the environment" in caplog.text


async def test_switched_off_the_cluster_has_no_say(autojump_clock, monkeypatch):
    monkeypatch.setenv(XDS_GUARD, "false")
    async with one_host_of_a_cluster(0) as (mesh, _, held):
        await held.begin(2)
        assert held.answered == [1] and connections(mesh) == [1]
