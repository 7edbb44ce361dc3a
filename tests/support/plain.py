"""Hosts in memory and channels to them without a control plane.

async with hosts_in_memory(2) as mesh, mesh.channel("ipv4:10.0.1.1:50051") as channel: ...
"""

from contextlib import asynccontextmanager

import trio
from support.mesh import Mesh

import trxds
from trxds.testing import MemoryNetwork

NAME = "cart.example"
BY_NAME = f"dns:///{NAME}:50051"


class PlainMesh(Mesh):
    def channel(self, target=BY_NAME, **more):
        return trxds.open_channel(target, network=self.network, **more)

    def points_to(self, *hosts, name=NAME):
        self.network.names[name] = [host.rpartition(":")[0] for host in hosts]

    def fail(self, host):
        """It is gone: its connections break and there will be no more."""
        self.network.refuse(host)
        self.network.cut(host)

    @property
    def look_ups(self):
        return self.network.look_ups[NAME]


@asynccontextmanager
async def hosts_in_memory(count=2):
    """So many hosts, each of which answers with its address; the name points to all of them."""
    async with trio.open_nursery() as nursery:
        mesh = PlainMesh(MemoryNetwork(), nursery)
        for _ in range(count):
            await mesh.add_host()
        mesh.points_to(*mesh.hosts)
        yield mesh
        nursery.cancel_scope.cancel()
