"""grpcio and trxds read the same names of targets, and names and proxies of endpoints (A47, A81, A86)."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import trio
from support.connect_proxy import ConnectProxy

import trxds
from trxds.testing import ManagementServer, serve, unary
from trxds.testing import resources as xds
from trxds.transport.connect import split_address

CLIENT = Path(__file__).with_name("grpcio_client.py")
PATH = "/s/Authority"
GUARDS = {"GRPC_EXPERIMENTAL_XDS_HTTP_CONNECT": "true"}
TYPES = "type.googleapis.com/envoy"


async def authority_of(request, call):
    return call.authority.encode()


async def theirs(bootstrap, target="xds:///shop"):
    """The authority that a host sees of grpcio's call."""
    done = await trio.run_process(
        [sys.executable, str(CLIENT)],
        stdin=json.dumps({"target": target, "calls": [{"path": PATH}]}).encode(),
        capture_stdout=True,
        env={**os.environ, **GUARDS, "GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(bootstrap)},
    )
    [outcome] = json.loads(done.stdout)
    return outcome["replies"][0]


async def ours(bootstrap, target="xds:///shop"):
    async with trxds.open_channel(target, bootstrap=bootstrap) as channel:
        return (await channel.method(PATH)(b"", timeout=60)).decode()


@pytest.fixture(autouse=True)
def guards(monkeypatch):
    for name, value in GUARDS.items():
        monkeypatch.setenv(name, value)


def named(address, hostname):
    locality = xds.locality(address)
    locality["lb_endpoints"][0]["endpoint"]["hostname"] = hostname
    return xds.endpoints("c", locality)


def rewriting(cluster="c"):
    route = xds.route(cluster)
    route["route"]["auto_host_rewrite"] = True
    return xds.routes("r", route)


@pytest.mark.parametrize(
    ("resources", "features", "seen"),
    [
        (lambda at: [xds.cluster("c"), named(at, "cart.example:8443")], ["trusted_xds_server"], "cart.example:8443"),
        (lambda at: [xds.cluster("c"), named(at, "cart.example")], [], "shop"),
        (lambda at: [xds.cluster("c"), named(at, "")], ["trusted_xds_server"], "shop"),
        (
            lambda at: [xds.logical_dns("c", *split_address(f"localhost:{split_address(at)[1]}"))],
            ["trusted_xds_server"],
            0,
        ),
    ],
    ids=["EDS", "not trusted", "no name", "LOGICAL_DNS"],
)
async def test_a_host_sees_the_same_authority_of_both(resources, features, seen):
    plane = ManagementServer()
    async with serve({PATH: unary(authority_of)}) as server, plane.serve() as ads:
        plane.put(xds.listener("shop", routes="r"), rewriting(), *resources(server.address))
        bootstrap = xds.bootstrap(ads, features=["xds_v3", *features])
        expected = seen or f"localhost:{split_address(server.address)[1]}"
        assert (await theirs(bootstrap), await ours(bootstrap)) == (expected, expected)


LISTENER = "envoy.config.listener.v3.Listener"


@pytest.mark.parametrize(
    ("target", "listener", "seen"),
    [
        ("xds:///shop?x=1#y", "shop", "shop"),
        ("xds:///team/shop 1:80", "team/shop 1:80", "team%2Fshop%201:80"),
        ("xds:///%5B::1%5D:80", "[::1]:80", "[::1]:80"),
        ("xds://fleet/a b%3Fc/[d]", f"xdstp://fleet/{LISTENER}/a%20b%3Fc/%5Bd%5D", "a%20b%3Fc%2F[d]"),
        ("xds://fleet%2Feu%20%231/shop", f"xdstp://fleet%2Feu%20%231/{LISTENER}/shop", "shop"),
    ],
)
async def test_a_target_leads_both_to_the_same_listener_and_virtual_host(target, listener, seen):
    plane = ManagementServer()
    async with serve({PATH: unary(authority_of)}) as server, plane.serve() as ads:
        plane.put(xds.listener(listener, routes="r"), xds.routes("r", xds.route("c"), domains=[seen]))
        plane.put(xds.cluster("c"), xds.endpoints("c", xds.locality(server.address)))
        bootstrap = xds.bootstrap(ads) | {"authorities": {"fleet": {}, "fleet/eu #1": {}}}
        assert (await theirs(bootstrap, target), await ours(bootstrap, target)) == (seen, seen)


async def test_a_proxy_is_asked_for_the_same_by_both():
    plane = ManagementServer()
    async with (
        serve({PATH: unary(authority_of)}) as server,
        plane.serve() as ads,
        ConnectProxy.over_tcp() as proxy,
    ):
        host, port = split_address(proxy.address)
        locality = xds.locality(server.address)
        locality["metadata"] = {
            "typed_filter_metadata": {
                "envoy.http11_proxy_transport_socket.proxy_address": {
                    "@type": f"{TYPES}.config.core.v3.Address",
                    "socket_address": {"address": host, "port_value": port},
                }
            }
        }
        wrapper = f"{TYPES}.extensions.transport_sockets.http_11_proxy.v3.Http11ProxyUpstreamTransport"
        plane.put(
            xds.listener("shop", routes="r"),
            rewriting(),
            xds.cluster("c") | {"transport_socket": {"name": "proxy", "typed_config": {"@type": wrapper}}},
            xds.endpoints("c", locality),
        )
        bootstrap = xds.bootstrap(ads)
        assert await theirs(bootstrap) == await ours(bootstrap) == "shop"
    assert proxy.asked == [server.address, server.address]
