"""A105: several connections to a host, and health checks, metrics, circuit breakers, and what operators see."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio
from support.channelz import ADMIN, Tool
from support.connection_scaling import Held, allows, connections, one_host, one_host_of_a_cluster, scaled
from support.mesh import ask
from support.plain import hosts_in_memory
from trio.testing import wait_all_tasks_blocked

import trxds
import trxds.admin
from trxds import Connectivity, RpcError
from trxds.admin import state_stream
from trxds.testing import resources as xds
from trxds.testing import server_streaming

WATCH = "/grpc.health.v1.Health/Watch"


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
