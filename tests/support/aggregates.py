"""An aggregate of two clusters, for stories about sessions that stay in one of them."""

from contextlib import asynccontextmanager

import trio
from support.mesh import Mesh, ask, settled
from support.tasks import task_names

from trxds.testing import resources as xds

RETURNED = 200  # seconds after which a host that was down is READY again
RETENTION = 15 * 60  # seconds for which priority keeps a leaf that it does not need (A56)
IDLE_TIMEOUT = 20 * 60  # seconds; longer than that, and shorter than the time after which the channel is IDLE


@asynccontextmanager
async def two_leaves(each=2, *, sticky_aggregates=True, idle_timeout=IDLE_TIMEOUT, statuses=None, **more):
    """Route to "both", an aggregate of the clusters x and y with these numbers of hosts."""
    async with Mesh.run(2 * each) as mesh:
        xs, ys = mesh.hosts[:each], mesh.hosts[each:]
        for cluster, hosts in (("x", xs), ("y", ys)):
            mesh.cluster(cluster, idle_timeout=idle_timeout, override_statuses=statuses)
            mesh.endpoints(cluster, hosts)
        mesh.plane.put(xds.aggregate("both", "x", "y"))
        mesh.route("both")
        async with mesh.channel(sticky_aggregates=sticky_aggregates, **more) as channel:
            yield mesh, channel, xs, ys


def fail(mesh, hosts):
    for host in hosts:
        mesh.network.refuse(host)
        mesh.network.cut(host)


def restore(mesh, hosts):
    for host in hosts:
        mesh.network.restore(host)


async def fail_over(mesh, caller, hosts):
    """Fail the hosts of the primary, and return the host of a call that the fallback leaf then gets."""
    fail(mesh, hosts)
    await settled()
    return await ask(caller)


async def fail_back(mesh, hosts):
    """Restore the hosts of the primary, and wait until it serves."""
    restore(mesh, hosts)
    await trio.sleep(RETURNED)


def runs(leaf):
    """Return whether the policies of this leaf of the aggregate "both" run."""
    return any(name == f"lb/cluster_manager/both/sticky_priority/{leaf}" for name in task_names())
