"""Hosts with a limit on streams, and channels that may make several connections to a host (A105)."""

from __future__ import annotations

from contextlib import asynccontextmanager

import trio
from support.mesh import Mesh, bidi
from support.plain import hosts_in_memory
from trio.testing import wait_all_tasks_blocked

from trxds import RpcError
from trxds.testing import resources as xds


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


def scaled(number, **more):
    return {"circuit_breakers": {"per_host_thresholds": [{"max_connections": number} | more]}}


@asynccontextmanager
async def one_host_of_a_cluster(number, **options):
    async with Mesh.run(1, max_concurrent_streams=1, sessions=options.pop("sessions", False)) as mesh:
        mesh.plane.put(xds.cluster("cart") | scaled(number))
        async with mesh.channel(**options) as channel, trio.open_nursery() as nursery:
            yield mesh, channel, Held(channel, nursery)
            nursery.cancel_scope.cancel()
