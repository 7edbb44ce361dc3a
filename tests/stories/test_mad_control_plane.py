"""A control plane gone mad: a thousand updates a second for a minute, none of them like the one before it.

On a clock that jumps everything takes no time, so what an RPC feels is counted in CPU time of this thread, from its
start to its answer: its own, its host's, and whatever the client did in between. The control plane's is left out,
which in life is another machine; and what a neighbour on this one does is not in it. It is the worst case: every RPC
begins in the very step in which updates arrive, and a configuration may change.

Memory is every object there is, by its size, but for what the hosts and Trio remember for a while.
"""

import gc
import sys
import time
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from statistics import median

import pytest
import trio
from support.mesh import Mesh, ask, spread
from trio.testing import MockClock, wait_all_tasks_blocked

import trxds
from trxds.resources import protos
from trxds.resources.types import EDS
from trxds.testing import resources as xds
from trxds.testing import serve
from trxds.xds import delta, sotw
from trxds.xds.bootstrap import DELTA

pytestmark = pytest.mark.long

MAD = "10.0.0.9:18000"
TOGETHER = 5  # updates that arrive at once, as if something had held them up for as many milliseconds
MANY = 50  # the same while nobody looks, to save time
RPCS = 40  # a second
WINDOW = 3  # seconds

elsewhere = ContextVar("elsewhere", default=False)  # true in the tasks of the control plane


class Storm:
    """The control plane of a mesh, which `rages` when it is told to."""

    def __init__(self, mesh, feature):
        self.mesh = mesh
        self.feature = feature
        self.sent = 0
        self.bell = trio.lowlevel.ParkingLot()  # rings with updates on their way
        self._variants = [self._endpoints(missing) for missing in mesh.hosts]

    def _endpoints(self, missing):
        zones = [xds.locality(host, zone=host) for host in self.mesh.hosts if host != missing]
        return protos.ClusterLoadAssignment.FromString(protos.from_json(xds.endpoints("cart", *zones)).value)

    @asynccontextmanager
    async def channel(self):
        bootstrap, network = xds.bootstrap(MAD, features=[self.feature]), self.mesh.network
        async with self._serve(), trxds.open_channel("xds:///shop", bootstrap=bootstrap, network=network) as channel:
            yield channel

    @asynccontextmanager
    async def _serve(self):
        handlers = {sotw.PATH: self._handle, delta.PATH: self._handle}
        here = elsewhere.set(True)
        async with serve(handlers, address=MAD, network=self.mesh.network):
            elsewhere.reset(here)
            yield

    async def _handle(self, call):
        self._call = call
        await self.mesh.plane.handle(call)

    async def rests(self, seconds):
        for _ in range(seconds * RPCS):
            await trio.sleep(1 / RPCS)
            self.bell.unpark_all()

    async def rages(self, seconds, together=TOGETHER):
        elsewhere.set(True)
        for tick in range(1, seconds * 1000 // together + 1):
            await trio.sleep(together / 1000)
            for _ in range(together):
                await self._send()
            if tick * together % (1000 // RPCS) == 0:
                self.bell.unpark_all()

    async def _send(self):
        self.sent += 1
        message = self._update(self.sent).SerializeToString()
        try:
            self._call.send_nowait(message)
        except trio.WouldBlock:  # the client does not keep up
            await self._call.send(message)

    def _update(self, number):
        """Other weights each time, and ten times a second another host that is missing."""
        endpoints = self._variants[number // 100 % len(self._variants)]
        for zone in endpoints.endpoints:
            zone.load_balancing_weight.value = number
        resource, version, nonce = protos.pack(endpoints), f"v{number}", f"s{number}"
        if self.feature == DELTA:
            named = protos.Resource(name="cart", version=version, resource=resource)
            return protos.DeltaDiscoveryResponse(type_url=EDS.type_url, nonce=nonce, resources=[named])
        return protos.DiscoveryResponse(version_info=version, type_url=EDS.type_url, nonce=nonce, resources=[resource])

    @property
    def newest(self):
        """The hosts of the last update."""
        return set(self.mesh.hosts) - {self.mesh.hosts[self.sent // 100 % len(self._variants)]}


class Stopwatch(trio.abc.Instrument):
    """CPU seconds of all tasks but those `elsewhere`."""

    def __init__(self):
        self._seconds = 0.0
        self._began = 0.0

    def before_task_step(self, task):
        self._began = time.thread_time()

    def after_task_step(self, task):
        if not task.context.get(elsewhere, False):
            self._seconds += time.thread_time() - self._began

    @property
    def seconds(self):
        """Asked in the middle of a step."""
        return self._seconds + time.thread_time() - self._began


@asynccontextmanager
async def storm_over_a_mesh(feature):
    async with Mesh.run(0) as mesh:
        # Nothing shall be remembered but by the client.
        mesh.endpoints("cart", [await mesh.add_host(remember_calls=False) for _ in range(3)])
        storm = Storm(mesh, feature)
        async with storm.channel() as channel:
            await spread(channel, 100)
            yield storm, channel


async def p99(channel, bell, weather):
    """CPU seconds of the slowest but one in a hundred RPCs, of a window in which one begins whenever the bell rings."""
    found, watch = [], Stopwatch()

    async def ask_at_each_ring():
        while True:
            await bell.park()
            began = watch.seconds
            await ask(channel)
            found.append(watch.seconds - began)

    trio.lowlevel.add_instrument(watch)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_at_each_ring)
        await wait_all_tasks_blocked()
        async with trio.open_nursery() as window:
            window.start_soon(weather, WINDOW)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    trio.lowlevel.remove_instrument(watch)
    return sorted(found)[len(found) * 99 // 100]


async def footprint(storm=None):
    """Bytes of all objects there are, without what is none of the client's."""
    if storm is not None:
        storm.mesh.plane.requests.clear()
        for server in storm.mesh.servers.values():
            server.drop_connections()  # h2 remembers how each stream ended
        await trio.sleep(5)
    await forget_scopes()
    gc.collect()
    sizes = {}
    for each in gc.get_objects():
        sizes.update((id(one), sys.getsizeof(one)) for one in (each, *gc.get_referents(each)))
    sizes.pop(id(sizes), None)  # this coroutine refers to it
    return sum(sizes.values())


async def forget_scopes():
    """Trio keeps those that were left before their deadlines, until there are a thousand."""
    for _ in range(1500):
        with trio.move_on_after(1):
            await trio.lowlevel.cancel_shielded_checkpoint()
    await trio.sleep(1)


@dataclass(frozen=True)
class Record:
    """The p99 of each window; bytes after the first six seconds and after the last; hosts met after that."""

    quiet: list[float]
    stormy: list[float]
    memory: list[int]
    met: set[str]
    newest: set[str]


async def play(feature, more):
    """Two windows, so many seconds more, and two windows."""
    empty = await footprint()
    async with storm_over_a_mesh(feature) as (storm, channel):
        quiet = [await p99(channel, storm.bell, storm.rests) for _ in range(2)]
        stormy = [await p99(channel, storm.bell, storm.rages) for _ in range(2)]
        memory = [await footprint(storm) - empty]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(storm.rages, more, MANY)
        stormy += [await p99(channel, storm.bell, storm.rages) for _ in range(2)]
        assert storm.sent == (4 * WINDOW + more) * 1000
        await trio.sleep(0.1)
        met = set(await spread(channel, 20))
        memory += [await footprint(storm) - empty]
        quiet += [await p99(channel, storm.bell, storm.rests) for _ in range(2)]
        return Record(quiet, stormy, memory, met, storm.newest)


# A minute, and of the other protocol as much as shows that it is no different.
@pytest.fixture(scope="module", params=[("xds_v3", 48), (DELTA, 3)], ids=["state of the world", "delta"])
def record(request):
    # The heap of the test runner takes the collector 30 ms, which an RPC would be blamed for.
    gc.collect()
    gc.freeze()
    yield trio.run(play, *request.param, clock=MockClock(autojump_threshold=0))
    gc.unfreeze()


def test_an_rpc_during_a_storm_of_updates_takes_less_than_five_times_as_long(record):
    # The median of windows: a neighbour that makes one of them slower is not the storm.
    assert median(record.stormy) < 5 * median(record.quiet)


def test_memory_does_not_grow_in_a_storm_of_updates(record):
    early, late = record.memory
    assert late < 1.05 * early


def test_the_newest_resources_are_in_force_after_a_storm_of_updates(record):
    assert record.met == record.newest
