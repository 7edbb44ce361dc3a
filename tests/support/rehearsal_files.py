"""Resources for the files of a rehearsal: a service with sessions, and a cluster with four hosts."""

from trxds.testing import resources as xds

HOSTS = [f"10.0.1.{number}:50051" for number in range(1, 5)]
SMALL = ["--clients", "4", "--before", "10s", "--after", "15s"]


def resources(*hosts, cluster="cart", **more):
    return [
        xds.listener("shop", routes="r", filters=[xds.stateful_session()]),
        xds.routes("r", xds.route(cluster, prefix="/shop.Cart/")),
        xds.cluster(cluster),
        xds.endpoints(cluster, xds.locality(*hosts, **more)),
    ]
