"""Situations in which `trxds explain` is asked, in the names of the conformance scenarios."""

from contextlib import asynccontextmanager

import trio
from support.foretold import Situation
from support.mesh import Mesh

from trxds.testing import resources as xds

ANY = "/oracle.Echo/Unary"


@asynccontextmanager
async def situation(hosts, *resources, filters=(), down=(), settle=15):
    """Resources by a function of the hosts; `down` are numbers of hosts that nobody can reach."""
    async with Mesh.run(hosts) as mesh:
        mesh.plane.put(xds.listener("svc", routes="routes", filters=filters))
        for one in resources:
            mesh.plane.put(one(*mesh.hosts) if callable(one) else one)
        for number in down:
            stop(mesh, mesh.hosts[number])
        async with mesh.channel("xds:///svc") as channel:
            await channel.explain(ANY)
            await trio.sleep(settle)  # for what connects by itself, and for a failover
            yield Situation(mesh, channel), mesh.hosts


def stop(mesh, host):
    mesh.network.refuse(host)
    mesh.network.cut(host)


def routes(*entries):
    return xds.routes("routes", *entries)


def eds(name, *numbers, **more):
    """The hosts of those numbers, in one locality."""
    return lambda *hosts: xds.endpoints(name, xds.locality(*[hosts[number] for number in numbers], **more))


def lines(told):
    return str(told).splitlines()


def line(told, beginning):
    """The one line that begins so."""
    (found,) = [each for each in lines(told) if each.startswith(beginning)]
    return found.removeprefix(beginning).strip()


ONE = (routes(xds.route("a")), xds.cluster("a"))  # one route to one cluster
