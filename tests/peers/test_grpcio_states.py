"""A channel of grpcio and one of trxds have the same state in each situation of a mesh (A42, A56, A62)."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from json import dumps
from pathlib import Path

import pytest
import trio
from support.ports import reserved_address

import trxds
from trxds.testing import ManagementServer, serve
from trxds.testing import resources as xds

PROGRAM = Path(__file__).with_name("grpcio_states.py")
POLICIES = "type.googleapis.com/envoy.extensions.load_balancing_policies"

READY, CONNECTING, FAILURE, IDLE = "READY", "CONNECTING", "TRANSIENT_FAILURE", "IDLE"


class Host:
    """A host at an address of its own that serves, is down, or accepts connections and says nothing."""

    def __init__(self, nursery, address):
        self._nursery = nursery
        self._scope = trio.CancelScope()
        self.address = address

    async def up(self):
        await self._nursery.start(self._serve)

    async def _serve(self, task_status):
        with trio.CancelScope() as self._scope:
            async with serve({}, address=self.address) as server:
                task_status.started()
                try:
                    await trio.sleep_forever()
                finally:
                    server.drop_connections()

    async def silent(self):
        listeners = await trio.open_tcp_listeners(int(self.address.rpartition(":")[2]), host="127.0.0.1")
        self._nursery.start_soon(trio.serve_listeners, _say_nothing, listeners)

    def down(self):
        self._scope.cancel()


async def _say_nothing(stream):
    await trio.sleep_forever()


class Mesh:
    """The target `xds:///shop`, and two hosts that are down at first."""

    def __init__(self, plane, one, two):
        self.plane, self.one, self.two = plane, one, two

    def put(self, *localities, cluster=None):
        self.plane.put(xds.listener("shop", routes="shop"), xds.routes("shop", xds.route("cart")))
        self.plane.put(cluster or xds.cluster("cart"), xds.endpoints("cart", *localities))

    @property
    def both(self):
        return xds.locality(self.one.address, self.two.address)

    @property
    def priorities(self):
        return xds.locality(self.one.address), xds.locality(self.two.address, zone="b", priority=1)


def balanced_by(policy):
    cluster = xds.cluster("cart")
    del cluster["lb_policy"]
    config = {"@type": f"{POLICIES}.{policy}"}
    cluster["load_balancing_policy"] = {
        "policies": [{"typed_extension_config": {"name": "policy", "typed_config": config}}]
    }
    return cluster


PICK_FIRST, RING_HASH = balanced_by("pick_first.v3.PickFirst"), balanced_by("ring_hash.v3.RingHash")


# Each yields the state that follows from what it did.


async def a_host_refuses_stops_and_comes_back(mesh):
    mesh.put(xds.locality(mesh.one.address))
    yield FAILURE
    await mesh.one.up()
    yield READY
    mesh.one.down()
    yield FAILURE


async def one_of_two_hosts_stops(mesh):
    await mesh.one.up()
    mesh.put(mesh.both)
    yield READY
    await mesh.two.up()
    mesh.one.down()
    yield READY
    mesh.two.down()
    yield FAILURE


async def pick_first_rests_when_its_host_is_lost(mesh):
    mesh.put(mesh.both, cluster=PICK_FIRST)
    yield FAILURE
    await mesh.two.up()
    yield READY
    mesh.two.down()
    yield IDLE


async def ring_hash_rests_until_a_call(mesh):
    mesh.put(mesh.both, cluster=RING_HASH)
    yield IDLE


async def endpoints_come_and_go(mesh):
    await mesh.one.up()
    mesh.put()
    yield FAILURE
    for health, state in (("HEALTHY", READY), ("UNHEALTHY", FAILURE), ("UNKNOWN", READY), ("DRAINING", FAILURE)):
        mesh.put(xds.locality(mesh.one.address, health={mesh.one.address: health}))
        yield state
    mesh.put()
    yield FAILURE


async def resources_come_and_go(mesh):
    await mesh.one.up()
    mesh.put(xds.locality(mesh.one.address))
    yield READY
    for kind, name in (("CDS", "cart"), ("LDS", "shop")):
        mesh.plane.remove(kind, name)
        yield FAILURE
        mesh.put(xds.locality(mesh.one.address))
        yield READY
    mesh.plane.put(xds.routes("shop", xds.route("cart"), domains=["another"]))
    yield FAILURE


async def of_two_clusters_one_is_down(mesh):
    await mesh.one.up()
    mesh.put(xds.locality(mesh.one.address))
    mesh.plane.put(xds.cluster("spare"), xds.endpoints("spare", xds.locality(mesh.two.address)))
    mesh.plane.put(xds.routes("shop", xds.route({"cart": 1, "spare": 1})))
    yield READY
    mesh.one.down()
    yield FAILURE


async def the_policy_changes(mesh):
    await mesh.one.up()
    await mesh.two.up()
    mesh.put(mesh.both)
    yield READY
    mesh.put(mesh.both, cluster=RING_HASH)
    yield IDLE
    mesh.put(mesh.both, cluster=PICK_FIRST)
    yield READY


async def a_priority_fails_over_and_back(mesh):
    await mesh.two.up()
    mesh.put(*mesh.priorities)
    yield READY
    await mesh.one.up()
    mesh.two.down()
    yield READY
    mesh.one.down()
    yield FAILURE


async def an_aggregate_fails_over(mesh):
    await mesh.two.up()
    mesh.put(cluster=xds.aggregate("cart", "one", "two", lb_policy="ROUND_ROBIN"))
    for name, host in (("one", mesh.one), ("two", mesh.two)):
        mesh.plane.put(xds.cluster(name), xds.endpoints(name, xds.locality(host.address)))
    yield READY
    mesh.two.down()
    yield FAILURE


SITUATIONS = [
    a_host_refuses_stops_and_comes_back,
    one_of_two_hosts_stops,
    pick_first_rests_when_its_host_is_lost,
    ring_hash_rests_until_a_call,
    endpoints_come_and_go,
    resources_come_and_go,
    of_two_clusters_one_is_down,
    the_policy_changes,
    a_priority_fails_over_and_back,
    an_aggregate_fails_over,
]


class Watched:
    """The states that the channels of both clients have had."""

    def __init__(self):
        self.ours: list[str] = []
        self.theirs: list[str] = []
        self._changed = trio.Event()

    def note(self, states, *new):
        states.extend(new)
        self._changed.set()
        self._changed = trio.Event()

    async def settle_in(self, state):
        """Wait until both are in a state."""
        with trio.move_on_after(60):
            while self.last != (state, state):
                await self._changed.wait()
        assert self.last == (state, state), (self.ours, self.theirs)

    @property
    def last(self):
        """The present state of ours and of theirs."""
        return self.ours[-1] if self.ours else "", self.theirs[-1] if self.theirs else ""


@asynccontextmanager
async def mesh_with_both_clients(situation):
    """Begin the situation, and then both clients; yield what they have seen, and the states that are to follow."""
    plane, watched = ManagementServer(), Watched()

    async def read_ours(channel):
        async for state in channel.states():
            watched.note(watched.ours, state.name)

    async def read_theirs(process):
        line = b""
        async for data in process.stdout:
            *lines, line = (line + data).split(b"\n")
            watched.note(watched.theirs, *[each.decode() for each in lines])

    async with trio.open_nursery() as nursery, plane.serve() as ads, AsyncExitStack() as stack:
        hosts = [Host(nursery, stack.enter_context(reserved_address())) for _ in range(2)]
        states = await stack.enter_async_context(aclosing(situation(Mesh(plane, *hosts))))
        first = await anext(states)
        bootstrap = xds.bootstrap(ads)
        environment = {**os.environ, "GRPC_VERBOSITY": "NONE", "GRPC_XDS_BOOTSTRAP_CONFIG": dumps(bootstrap)}
        command = [sys.executable, str(PROGRAM), "xds:///shop"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = await nursery.start(partial(trio.run_process, command, env=environment, **pipes))
        async with trxds.open_channel("xds:///shop", bootstrap=bootstrap) as channel:
            nursery.start_soon(read_ours, channel)
            nursery.start_soon(read_theirs, process)
            yield watched, first, states
            await process.stdin.aclose()
            await process.wait()
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.__name__)
async def test_both_clients_channels_have_the_same_state(situation):
    async with mesh_with_both_clients(situation) as (watched, state, states):
        await watched.settle_in(state)
        async for state in states:
            await watched.settle_in(state)


async def a_host_is_silent(mesh):
    await mesh.one.silent()
    mesh.put(xds.locality(mesh.one.address))
    yield CONNECTING


@pytest.mark.long
async def test_neither_clients_channel_has_failed_when_the_failover_timer_has_fired():
    async with mesh_with_both_clients(a_host_is_silent) as (watched, state, _):
        await watched.settle_in(state)
        await trio.sleep(11)
        assert watched.last == (state, state)
