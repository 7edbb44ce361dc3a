"""A mesh whose routes rewrite the authority, and a channel to it (A81)."""

from __future__ import annotations

from contextlib import asynccontextmanager

from support.mesh import METHOD, PLANE, Mesh, ask

from trxds.testing import resources as xds

TRUSTED = ("xds_v3", "trusted_xds_server")


def entry(rewrite=True, cluster="cart", **action):
    """A route to the cluster."""
    route = xds.route(cluster)
    route["route"] |= {"auto_host_rewrite": rewrite, **action}
    return route


def endpoint(address, hostname, health="HEALTHY"):
    locality = xds.locality(address, health={address: health})
    locality["lb_endpoints"][0]["endpoint"]["hostname"] = hostname
    return locality["lb_endpoints"][0]


def list_endpoints(mesh, *endpoints, cluster="cart"):
    locality = xds.locality()
    locality["lb_endpoints"] = list(endpoints)
    mesh.endpoints(cluster, locality)


@asynccontextmanager
async def rewritten(hosts=1, names="host-{}.example", route=None, **knobs):
    """A mesh whose hosts answer with the `:authority` that they see; their names are by number."""
    async with Mesh.run(hosts, **knobs) as mesh:
        mesh.seen = []

        async def tell(call):
            mesh.seen.append(call.authority)
            async for _ in call:
                await call.send(call.authority.encode())

        for server in mesh.servers.values():
            server.handlers[METHOD] = tell
        mesh.route(route or entry())
        list_endpoints(mesh, *(endpoint(each, names.format(number)) for number, each in enumerate(mesh.hosts, 1)))
        yield mesh


def channel_to(mesh, features=TRUSTED, **more):
    return mesh.channel(bootstrap=xds.bootstrap(PLANE, features=features), **more)


async def seen(mesh, features=TRUSTED, **more):
    """The `:authority` that the host sees."""
    async with channel_to(mesh, features, **more) as channel:
        return await ask(channel)
