"""The hosts of a simulated shop, and calls to them."""

from trxds.testing import Behaviour
from trxds.testing import resources as xds

METHOD = "/shop.Cart/Add"
HOSTS = [f"10.0.1.{number}:50051" for number in range(1, 5)]


def route(mesh, *hosts, **cookie):
    mesh.plane.put(
        xds.listener("shop", routes="r", filters=[xds.stateful_session(**cookie)]),
        xds.routes("r", xds.route("cart")),
        xds.cluster("cart"),
        xds.endpoints("cart", xds.locality(*hosts)),
    )


def add_hosts(mesh, *hosts, **behaviour):
    made = [mesh.add_host(host, Behaviour(**behaviour)) for host in hosts]
    route(mesh, *hosts)
    return made


async def call(caller, **more):
    return await caller.method(METHOD)(b"apples", **more)
