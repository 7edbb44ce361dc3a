"""A mesh in memory: a control plane, hosts that answer with their names, and one bootstrap.

async with Mesh.run(hosts=3) as mesh, mesh.channel() as channel: ...
"""

from __future__ import annotations

from collections import Counter
from contextlib import asynccontextmanager

import trio

import trxds
from trxds.testing import MemoryNetwork, Server
from trxds.testing import resources as xds
from trxds.testing.management import ManagementServer

PLANE = "10.0.0.1:18000"
METHOD = "/shop.Cart/Add"


class Mesh:
    def __init__(self, network, nursery):
        self.network = network
        self.plane = ManagementServer()
        self.servers = {}
        self._nursery = nursery

    @classmethod
    @asynccontextmanager
    async def run(cls, hosts=3, *, sessions=True, cluster="cart", **knobs):
        """One cluster of so many hosts, routed to by the service "shop"; `knobs` are those of the hosts' servers."""
        async with trio.open_nursery() as nursery:
            mesh = cls(MemoryNetwork(), nursery)
            mesh.plane_server = await mesh._serve(Server(mesh.plane.handlers, address=PLANE, network=mesh.network))
            names = [await mesh.add_host(**knobs) for _ in range(hosts)]
            mesh.listen(sessions=sessions)
            mesh.route(cluster)
            mesh.cluster(cluster)
            mesh.endpoints(cluster, names)
            yield mesh
            nursery.cancel_scope.cancel()

    async def _serve(self, server):
        await self._nursery.start(server.run)
        return server

    # -- hosts

    async def add_host(self, **knobs):
        address = f"10.0.1.{len(self.servers) + 1}:50051"

        async def echo(call):
            async for message in call:
                await call.send(f"{address} {message.decode()}".strip().encode())

        server = Server(fallback=echo, address=address, network=self.network, **knobs)
        self.servers[address] = await self._serve(server)
        return address

    @property
    def hosts(self):
        return list(self.servers)

    # -- resources

    def listen(self, *, sessions=True, name="shop", **cookie):
        filters = [xds.stateful_session(**cookie)] if sessions else []
        self.plane.put(xds.listener(name, routes="routes", filters=filters))

    def route(self, *to):
        """route("cart"), or route({"a": 80, "b": 20}), or several xds.route(...) entries."""
        entries = [entry if isinstance(entry, dict) and "match" in entry else xds.route(entry) for entry in to]
        self.plane.put(xds.routes("routes", *entries))

    def cluster(self, name, **more):
        self.plane.put(xds.cluster(name, **more))

    def endpoints(self, cluster, *localities):
        """Lists of addresses (one locality each, in one priority) or ready localities."""
        ready = [
            one if isinstance(one, dict) else xds.locality(*one, zone=f"z{number}")
            for number, one in enumerate(localities)
        ]
        self.plane.put(xds.endpoints(cluster, *ready))

    # -- the client

    @property
    def bootstrap(self):
        return xds.bootstrap(PLANE)

    def channel(self, target="xds:///shop", **more):
        return trxds.open_channel(target, **{"bootstrap": self.bootstrap, "network": self.network} | more)


def method(caller, path=METHOD):
    """A unary method on raw bytes."""
    return caller.method(path)


def bidi(caller, path=METHOD):
    return caller.method(path, client_streaming=True, server_streaming=True)


async def ask(caller, **more):
    """One unary RPC; the address of the host that answered."""
    return (await method(caller)(b"", **more)).decode()


async def spread(caller, times, **more):
    """Which hosts answer how many of so many RPCs."""
    return Counter([await ask(caller, **more) for _ in range(times)])


async def settled():
    """Sleep long enough for any change to arrive, on a clock that jumps."""
    await trio.sleep(1)
