"""The costs of many clusters and hosts are bounded, in steps, tasks and pickers; `make bench` measures seconds."""

import gc
import math
import sys
from collections import Counter

import pytest
import trio
from support.mesh import Mesh, ask
from support.tasks import all_tasks, task_names

from trxds.lb.policy_node import Node
from trxds.lb.round_robin import RoundRobin
from trxds.testing import ServerLimits
from trxds.testing import resources as xds

pytestmark = pytest.mark.slow

# From Python 3.14 on the collector visits every dictionary, also an empty one.
MAX_OBJECTS = 260 if sys.version_info < (3, 14) else 280


@pytest.fixture
def steps(monkeypatch):
    """Count the steps of each node by its path."""
    counted = Counter()
    step = Node._step

    def counting(self):
        counted[self.path] += 1
        return step(self)

    monkeypatch.setattr(Node, "_step", counting)
    return counted


def lazy(name):
    """A cluster whose hosts nobody connects before an RPC wants them."""
    return xds.cluster(name) | {"lb_policy": "RING_HASH", "ring_hash_lb_config": {"minimum_ring_size": 1}}


async def test_an_update_of_one_of_1000_clusters_steps_only_its_branch_of_the_tree(autojump_clock, steps):
    names = [f"c{number}" for number in range(1000)]
    async with Mesh.run(2) as mesh:
        mesh.plane.put(
            *(lazy(name) for name in names),
            *(xds.endpoints(name, xds.locality(mesh.hosts[0])) for name in names),
            xds.routes("routes", *(xds.route(name, prefix=f"/{name}/") for name in names), xds.route("cart")),
        )
        async with mesh.channel() as channel:
            await ask(channel)
            await trio.sleep(1)
            steps.clear()
            mesh.endpoints("c7", mesh.hosts)
            await trio.sleep(1)
            assert steps, "nothing has happened"
            assert {path.split("/")[1] for path in steps if "/" in path} == {"c7"}
            assert max(steps.values()) <= 3


async def test_an_idle_cluster_costs_a_task_per_policy_and_its_lifetime(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await ask(channel)
        before = len(task_names())
        mesh.plane.put(
            lazy("c0"),
            xds.endpoints("c0", xds.locality(mesh.hosts[0])),
            xds.routes("routes", xds.route("c0", prefix="/c0/"), xds.route("cart")),
        )
        await trio.sleep(1)
        # cds, outlier detection, cluster_impl, override_host, priority, ring_hash; no sweep without a session
        assert len(task_names()) - before == 7


async def test_an_idle_cluster_costs_less_than_so_many_objects_of_the_garbage_collector(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await ask(channel)
        counts = []
        for number in (20, 40):
            names = [f"c{each}" for each in range(number)]
            mesh.plane.put(
                *map(lazy, names),
                *(xds.endpoints(name, xds.locality(mesh.hosts[0])) for name in names),
                xds.routes("routes", *(xds.route(name, prefix=f"/{name}/") for name in names), xds.route("cart")),
            )
            await trio.sleep(1)
            mesh.plane.requests.clear()
            gc.collect()
            counts.append(len(gc.get_objects()))
        # Trio has 117 of them, for seven tasks of which six have a nursery.
        assert counts[1] - counts[0] < 20 * MAX_OBJECTS


async def test_idle_endpoints_cost_no_task(autojump_clock):
    async with Mesh.run(1) as mesh:
        mesh.plane.put(lazy("cart"))
        async with mesh.channel() as channel:
            await ask(channel)
            before = len(list(all_tasks()))
            mesh.endpoints("cart", mesh.hosts, [f"10.9.{n // 250}.{n % 250}:1" for n in range(2000)])
            await trio.sleep(1)
            assert len(list(all_tasks())) == before


class Aliases:
    """A network in which every address is that of one host."""

    def __init__(self, network, host, others):
        self.network, self.host, self.others = network, host, others

    def __getattr__(self, name):
        return getattr(self.network, name)

    async def connect(self, address):
        return await self.network.connect(self.host if address in self.others else address)


async def test_1000_hosts_that_turn_ready_at_once_cost_a_handful_of_pickers(autojump_clock, monkeypatch):
    decisions = 0
    decide = RoundRobin.decide

    def counting(self, inputs, now):
        nonlocal decisions
        decisions += 1
        return decide(self, inputs, now)

    monkeypatch.setattr(RoundRobin, "decide", counting)
    # One server plays all hosts, so it has a thousand connections of which one has had a call.
    patient = ServerLimits(max_pending_connections=math.inf)
    async with Mesh.run(1, limits=patient) as mesh:
        addresses = [f"10.9.{n // 250}.{n % 250}:1" for n in range(1000)]
        mesh.endpoints("cart", addresses)
        network = Aliases(mesh.network, mesh.hosts[0], set(addresses))
        async with mesh.channel(network=network) as channel:
            await ask(channel)
            await trio.sleep(5)
            assert len(mesh.servers[mesh.hosts[0]].connections) == 1000
            assert decisions < 20


async def test_a_new_policy_that_cannot_connect_delays_neither_its_cluster_nor_other_routes(autojump_clock):
    """Graceful switch: round_robin goes on picking until ring_hash has something to say."""
    async with Mesh.run(2, sessions=False) as mesh:
        old, other = mesh.hosts
        mesh.cluster("other")
        mesh.endpoints("cart", [old])
        mesh.endpoints("other", [other])
        mesh.route(xds.route("other", prefix="/other."), xds.route("cart"))
        async with mesh.channel() as channel:
            assert await ask(channel) == old
            mesh.network.black_hole("10.9.9.9:1")
            mesh.plane.put(
                xds.cluster("cart") | {"lb_policy": "RING_HASH"},
                xds.endpoints("cart", xds.locality("10.9.9.9:1", zone="z0")),
            )
            for _ in range(10):
                await trio.sleep(0.1)
                assert (await channel.method("/other.S/M")(b"")).decode() == other
