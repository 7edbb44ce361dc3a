"""A105: a host gets more connections when its limit on streams is reached, as far as its configuration allows."""

from __future__ import annotations

import json
import re
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from support.channelz import ADMIN, Tool
from support.mesh import Mesh, ask, bidi
from support.plain import BY_NAME, hosts_in_memory
from trio.testing import wait_all_tasks_blocked

import trxds
import trxds.admin
from trxds import Connectivity, RpcError, StatusCode
from trxds.admin import state_stream
from trxds.testing import resources as xds
from trxds.testing import server_streaming

SERVICE_CONFIG_GUARD = "GRPC_EXPERIMENTAL_MAX_CONCURRENT_STREAMS_CONNECTION_SCALING"
DOCUMENT = Path(__file__).parents[2] / "docs" / "calls.md"
WATCH = "/grpc.health.v1.Health/Watch"
XDS_GUARD = "GRPC_EXPERIMENTAL_XDS_MAX_CONCURRENT_STREAMS_CONNECTION_SCALING"


def allows(number, policy="pick_first"):
    """A service config that allows so many connections to a host."""
    return {
        "loadBalancingConfig": [{policy: {}}],
        "connectionScaling": {"maxConnectionsPerSubchannel": number},
    }


class Held:
    """Calls to a channel that stay open until the test ends them."""

    def __init__(self, channel, nursery):
        self._channel = channel
        self._nursery = nursery
        self._scopes = []
        self.answered = []  # the numbers of calls whose first reply has come, in order
        self.failed = []

    async def begin(self, count=1):
        """Begin so many calls, and wait until nothing more happens."""
        for _ in range(count):
            self._scopes.append(trio.CancelScope())
            self._nursery.start_soon(self._run, len(self._scopes))
            await wait_all_tasks_blocked()
        await trio.sleep(0.01)

    async def end(self, number):
        self._scopes[number - 1].cancel()
        await trio.sleep(0.01)

    async def _run(self, number):
        try:
            with self._scopes[number - 1]:
                async with bidi(self._channel).open(b"") as call:
                    await call.receive()
                    self.answered.append(number)
                    await trio.sleep_forever()
        except RpcError as error:
            self.failed.append(error.status)


@asynccontextmanager
async def one_host(number=2, *, streams=1, policy="pick_first", **options):
    """A host that allows so many streams, and a channel that may make so many connections to it."""
    async with hosts_in_memory(0) as mesh:
        await mesh.add_host(max_concurrent_streams=streams)
        mesh.points_to(*mesh.hosts)
        config = allows(number, policy)
        async with mesh.channel(service_config=config, **options) as channel, trio.open_nursery() as nursery:
            yield mesh, channel, Held(channel, nursery)
            nursery.cancel_scope.cancel()


def connections(mesh, host=0):
    """How many streams are open on each connection of a host, in the order in which they were made."""
    return [len(each.streams) for each in mesh.servers[mesh.hosts[host]].connections]


def subchannel(channel):
    [found] = channel.admin_view().pool.hosts
    return found


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


# -- backoff, and the state of the subchannel


async def test_a_failed_attempt_leaves_the_host_ready_and_is_repeated_after_its_backoff(autojump_clock):
    async with one_host(2) as (mesh, channel, held):
        await held.begin(1)
        mesh.network.refuse(mesh.hosts[0])
        await held.begin(2)
        await trio.sleep(0.5)
        assert mesh.network.attempts[mesh.hosts[0]] == 2 and subchannel(channel).state is Connectivity.READY
        mesh.network.restore(mesh.hosts[0])
        await trio.sleep(1)
        assert mesh.network.attempts[mesh.hosts[0]] == 3 and held.answered == [1, 2]


async def test_the_backoff_of_further_attempts_grows(autojump_clock):
    async with one_host(2) as (mesh, _, held):
        await held.begin(1)
        mesh.network.refuse(mesh.hosts[0])
        await held.begin(2)
        await trio.sleep(20)
        # Backoffs of 1, 1.6, 2.6, 4.1 and 6.6 s, give or take a fifth.
        assert 5 <= mesh.network.attempts[mesh.hosts[0]] - 1 <= 7


async def test_no_attempt_is_repeated_for_which_no_call_waits(autojump_clock):
    async with one_host(2) as (mesh, _, held):
        await held.begin(1)
        mesh.network.refuse(mesh.hosts[0])
        await held.begin(1)
        await held.end(2)
        await trio.sleep(20)
        assert mesh.network.attempts[mesh.hosts[0]] == 2


async def test_a_stream_that_ends_during_the_backoff_serves_the_queue(autojump_clock):
    async with one_host(2) as (mesh, _, held):
        await held.begin(1)
        mesh.network.refuse(mesh.hosts[0])
        await held.begin(1)
        await held.end(1)
        assert held.answered == [1, 2]


async def test_a_host_that_loses_its_connection_during_an_attempt_is_connecting(autojump_clock):
    async with one_host(2) as (mesh, channel, held):
        await held.begin(1)
        mesh.network.black_hole(mesh.hosts[0])
        await held.begin(1)
        looked_up = mesh.look_ups
        mesh.network.cut(mesh.hosts[0])
        await trio.sleep(0.01)
        assert subchannel(channel).state is Connectivity.CONNECTING
        assert channel.state is Connectivity.CONNECTING  # pick_first connects at once, without a call
        await trio.sleep(31)
        assert mesh.look_ups > looked_up


async def test_a_host_that_loses_its_connection_during_a_backoff_has_failed(autojump_clock):
    async with one_host(2) as (mesh, channel, held):
        await held.begin(1)
        mesh.network.refuse(mesh.hosts[0])
        await held.begin(1)
        mesh.network.cut(mesh.hosts[0])
        await trio.sleep(0.01)
        assert subchannel(channel).state is Connectivity.TRANSIENT_FAILURE
        assert channel.state is not Connectivity.IDLE
        mesh.network.restore(mesh.hosts[0])
        await trio.sleep(3)
        assert channel.state is Connectivity.READY


async def test_a_host_without_an_attempt_is_idle_when_its_last_connection_is_lost(autojump_clock):
    async with one_host(2) as (mesh, channel, held):
        await held.begin(2)
        mesh.network.cut(mesh.hosts[0])
        await trio.sleep(0.01)
        assert channel.state is Connectivity.IDLE


# -- connections that end


async def test_calls_go_on_where_one_of_two_connections_got_a_goaway(autojump_clock):
    async with one_host(2, streams=2) as (mesh, channel, held):
        await held.begin(3)
        first, second = mesh.servers[mesh.hosts[0]].connections
        first.goaway()
        await trio.sleep(0.01)
        assert subchannel(channel).state is Connectivity.READY and len(subchannel(channel).working) == 1
        await held.begin(1)
        assert held.answered == [1, 2, 3, 4] and (len(first.streams), len(second.streams)) == (2, 2)


async def test_a_connection_that_ends_makes_room_for_another(autojump_clock):
    async with one_host(2) as (mesh, _, held):
        await held.begin(3)
        mesh.servers[mesh.hosts[0]].connections[0].goaway()
        await trio.sleep(0.01)
        assert held.answered == [1, 2, 3] and connections(mesh) == [1, 1, 1]


async def test_a_connection_without_stream_identifiers_leaves_new_calls_to_the_other(autojump_clock):
    async with one_host(2, streams=2) as (_, channel, held):
        await held.begin(3)
        await held.end(1)
        first, second = subchannel(channel).working.nurseries
        first.http2.engine._streams.next_id = 2**31 - 1
        await held.begin(1)
        await held.end(2)
        await held.begin(1)
        assert held.answered == [1, 2, 3, 4, 5] and first.error is not None and len(second.streams.open) == 2


async def test_waiting_calls_stay_when_one_of_two_connections_is_lost(autojump_clock):
    async with one_host(2) as (mesh, channel, held):
        await held.begin(3)
        mesh.network.refuse(mesh.hosts[0])
        mesh.servers[mesh.hosts[0]].connections[0].drop()
        await trio.sleep(0.01)
        assert subchannel(channel).working.num_waiting == 1
        await held.end(2)
        assert held.answered == [1, 2, 3]


async def test_waiting_calls_are_retried_transparently_when_all_connections_are_lost(autojump_clock):
    async with one_host(2) as (mesh, _, held):
        await held.begin(4)
        mesh.network.cut(mesh.hosts[0])
        await trio.sleep(0.01)
        assert held.answered == [1, 2, 3, 4] and not held.failed


async def test_a_host_that_is_no_longer_wanted_leaves_its_waiting_calls_to_others(autojump_clock):
    async with one_host_of_a_cluster(2) as (mesh, _, held):
        await held.begin(3)
        mesh.endpoints("cart", [await mesh.add_host()])
        await trio.sleep(0.1)
        assert held.answered == [1, 2, 3] and connections(mesh) == [1, 1] and connections(mesh, 1) == [1]
        await held.end(1)
        assert connections(mesh) == [1]


async def test_a_call_that_waited_at_a_host_that_is_no_longer_wanted_does_not_name_it_in_its_error(
    autojump_clock, nursery
):
    async with one_host_of_a_cluster(2) as (mesh, channel, held):
        await held.begin(2)
        errors = []

        async def wait_in_vain():
            with pytest.raises(RpcError) as caught:
                await ask(channel, timeout=3)
            errors.append(caught.value)

        nursery.start_soon(wait_in_vain)
        await trio.sleep(1)
        mesh.network.black_hole("10.9.9.9:80")
        mesh.endpoints("cart", ["10.9.9.9:80"])
        await trio.sleep(3)
        [error] = errors
        assert (error.status.code, error.peer) == (StatusCode.DEADLINE_EXCEEDED, "")


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


def scaled(number, **more):
    return {"circuit_breakers": {"per_host_thresholds": [{"max_connections": number} | more]}}


@asynccontextmanager
async def one_host_of_a_cluster(number, **options):
    async with Mesh.run(1, max_concurrent_streams=1, sessions=options.pop("sessions", False)) as mesh:
        mesh.plane.put(xds.cluster("cart") | scaled(number))
        async with mesh.channel(**options) as channel, trio.open_nursery() as nursery:
            yield mesh, channel, Held(channel, nursery)
            nursery.cancel_scope.cancel()


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


# -- beside other features


class Watches:
    """The health service of a host that serves."""

    def __init__(self):
        self.connections = []  # the client's name for the connection of each watch

    async def watch(self, request, call):
        self.connections.append(call.peer)
        yield bytes([8, 1])
        await trio.sleep_forever()


@asynccontextmanager
async def watched(**options):
    """A host that allows two streams, of which its watch takes one."""
    health = Watches()
    async with hosts_in_memory(0) as mesh:
        await mesh.add_host(max_concurrent_streams=2, handlers={WATCH: server_streaming(health.watch)})
        mesh.points_to(*mesh.hosts)
        config = allows(2, "round_robin") | {"healthCheckConfig": {"serviceName": ""}}
        async with mesh.channel(service_config=config, **options) as channel, trio.open_nursery() as nursery:
            yield mesh, channel, Held(channel, nursery), health
            nursery.cancel_scope.cancel()


async def test_the_health_of_a_host_is_watched_once_whatever_the_number_of_its_connections(autojump_clock):
    async with watched() as (mesh, _, held, health):
        await held.begin(3)
        assert connections(mesh) == [2, 2] and len(health.connections) == 1


async def test_the_watch_moves_to_a_connection_that_is_left_and_the_host_stays_healthy(autojump_clock):
    async with watched() as (mesh, channel, held, health):
        await held.begin(2)
        states = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(record_states, channel, states)
            await wait_all_tasks_blocked()
            mesh.servers[mesh.hosts[0]].connections[0].goaway()
            await trio.sleep(0.1)
            nursery.cancel_scope.cancel()
        assert len(set(health.connections)) == 2 and states == [Connectivity.READY]


async def record_states(channel, states):
    async for state in channel.states():
        states.append(state)


class Opened(trxds.Observer):
    def __init__(self):
        self.open = 0

    def connection_opened(self, address, security):
        self.open += 1

    def connection_closed(self, address, security, why):
        self.open -= 1


async def test_metrics_count_every_connection(autojump_clock):
    async with one_host(3) as (mesh, channel, held):
        opened = Opened()
        with channel.observed_by(opened):
            await held.begin(3)
            assert opened.open == 3
            mesh.servers[mesh.hosts[0]].connections[0].goaway()
            await trio.sleep(0.01)
            assert opened.open == 2


async def test_a_call_that_waits_for_a_stream_counts_for_the_circuit_breaker(autojump_clock):
    async with one_host_of_a_cluster(1) as (mesh, channel, held):
        limits = {"thresholds": [{"max_requests": 2}], **scaled(1)["circuit_breakers"]}
        mesh.plane.put(xds.cluster("cart") | {"circuit_breakers": limits})
        await held.begin(2)
        with pytest.raises(RpcError, match="circuit breaker drop"):
            await ask(channel, timeout=5)
        await held.end(2)
        await held.begin(1)
        assert not held.failed  # a call that was cancelled in the queue counts no more
        with pytest.raises(RpcError, match="circuit breaker drop"):
            await ask(channel, timeout=5)  # and it has taken no other call's count with it


async def test_an_idle_channel_closes_all_connections_of_a_host(autojump_clock):
    async with one_host(2, idle_timeout=60) as (mesh, channel, held):
        await held.begin(2)
        await held.end(1)
        await held.end(2)
        assert connections(mesh) == [0, 0]
        await trio.sleep(100)
        assert channel.state is Connectivity.IDLE and connections(mesh) == []


# -- what operators see


async def test_channelz_has_the_number_of_connections_that_a_host_may_have(autojump_clock):
    async with one_host(3) as (mesh, channel, held):
        await held.begin(2)
        async with trxds.admin.serve(channel, address=ADMIN, network=mesh.network):
            tool = Tool(mesh.network)
            [ref] = (await tool.channel("dns:")).subchannel_ref
            found = (await tool.ask("GetSubchannel", subchannel_id=ref.subchannel_id)).subchannel
            sockets = await tool.sockets(found)
        assert found.data.max_connections_per_subchannel == 3
        assert [each.data.peer_max_concurrent_streams for each in sockets] == [1, 1]


async def test_channelz_has_the_goaway_of_a_connection(autojump_clock):
    async with one_host(2) as (mesh, channel, held):
        await held.begin(2)
        mesh.servers[mesh.hosts[0]].connections[0].goaway()
        await trio.sleep(0.01)
        async with trxds.admin.serve(channel, address=ADMIN, network=mesh.network):
            tool = Tool(mesh.network)
            [ref] = (await tool.channel("dns:")).subchannel_ref
            found = (await tool.ask("GetSubchannel", subchannel_id=ref.subchannel_id)).subchannel
            goaways = [each.data.HasField("received_goaway_error") for each in await tool.sockets(found)]
        assert goaways == [True, False]


async def test_an_explanation_has_the_connections_of_the_host_and_the_calls_that_wait(autojump_clock):
    async with one_host_of_a_cluster(2) as (mesh, channel, held):
        await held.begin(4)
        text = str(await channel.explain("/shop.Cart/Add"))
    assert f"goes to {mesh.hosts[0]} (READY, 2 of at most 2 connections, 2 calls wait for a stream)" in text
    assert "at most 2 connections to a host" in text


async def test_the_state_stream_has_each_connection_with_its_streams(autojump_clock):
    async with one_host(2, streams=2) as (_, channel, held):
        await held.begin(5)
        async with state_stream.open(channel) as opened:
            rows = (await opened.snapshot())["connections"].values()
    assert [(row["state"], row["streams"]) for row in rows] == [("READY", 2), ("READY", 2)]
