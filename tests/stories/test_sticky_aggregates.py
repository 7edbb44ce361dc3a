"""With `sticky_aggregates` a session keeps its host in any cluster of an aggregate, as long as it can be used."""

from contextlib import asynccontextmanager

import pytest
import trio
from stories.test_aggregate import fail, restore, settled
from support.mesh import Mesh, ask, spread

from trxds.session_affinity.cookie import encode
from trxds.testing import resources as xds

RETURNED = 200  # seconds after which a host that was down is READY again


@asynccontextmanager
async def two_leaves(each=2, *, sticky_aggregates=True, idle_timeout=3600.0, **more):
    """Route to "both", an aggregate of the clusters x and y with these numbers of hosts."""
    async with Mesh.run(2 * each) as mesh:
        xs, ys = mesh.hosts[:each], mesh.hosts[each:]
        for cluster, hosts in (("x", xs), ("y", ys)):
            mesh.cluster(cluster, idle_timeout=idle_timeout)
            mesh.endpoints(cluster, hosts)
        mesh.plane.put(xds.aggregate("both", "x", "y"))
        mesh.route("both")
        async with mesh.channel(sticky_aggregates=sticky_aggregates, **more) as channel:
            yield mesh, channel, xs, ys


async def test_a_session_of_the_fallback_leaf_stays_when_the_primary_returns(autojump_clock):
    async with two_leaves() as (mesh, channel, xs, ys):
        fail(mesh, xs)
        async with channel.session() as session:
            host = await ask(session)
            assert host in ys
            restore(mesh, xs)
            await trio.sleep(RETURNED)
            assert set(await spread(session, 10)) == {host}
            assert set(await spread(channel, 10)) == set(xs)
            async with channel.session() as other:
                assert await ask(other) in xs
