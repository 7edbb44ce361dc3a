"""Envoy as an HTTP CONNECT proxy between a channel and its host (A1, A86)."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from support.envoy import QUIET, Envoy, program

import trxds
from trxds.testing import Call, ManagementServer, serve, unary
from trxds.testing import resources as xds

pytestmark = pytest.mark.usefixtures("envoy_peer")

_TYPE = "type.googleapis.com/envoy.extensions.filters"


@asynccontextmanager
async def connect_proxy(host: str) -> AsyncIterator[str]:
    """Envoy's address; it leads each CONNECT to this host, whatever the name."""
    with tempfile.TemporaryDirectory(prefix="envoy") as folder:
        command = [str(program()), "--config-yaml", json.dumps(configuration(host, f"{folder}/admin")), *QUIET]
        async with trio.open_nursery() as nursery:
            process = await nursery.start(partial(trio.run_process, command, stdin=subprocess.DEVNULL))
            yield await Envoy(f"{folder}/admin").address("proxy")
            process.terminate()


def configuration(host: str, admin: str) -> dict[str, Any]:
    name, _, port = host.rpartition(":")
    upgrade = {"upgrade_type": "CONNECT"}
    route = {
        "match": {"connect_matcher": {}},
        "route": {"cluster": "host", "upgrade_configs": [{**upgrade, "connect_config": {}}]},
    }
    manager = {
        "@type": f"{_TYPE}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "proxy",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": [{"name": "router", "typed_config": {"@type": f"{_TYPE}.http.router.v3.Router"}}],
        "upgrade_configs": [upgrade],
    }
    listener = {
        "name": "proxy",
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}},
        "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
    }
    endpoint = {"address": {"socket_address": {"address": name, "port_value": int(port)}}}
    cluster = {
        "name": "host",
        "type": "STATIC",
        "load_assignment": {"cluster_name": "host", "endpoints": [{"lb_endpoints": [{"endpoint": endpoint}]}]},
    }
    return {
        "admin": {"address": {"pipe": {"path": admin}}},
        "static_resources": {"listeners": [listener], "clusters": [cluster]},
    }


async def echo(request: bytes, call: Call) -> bytes:
    return request


async def test_calls_reach_their_host_through_envoy() -> None:
    async with (
        serve({"/s/Echo": unary(echo)}) as server,
        connect_proxy(server.address) as proxy,
        trxds.open_channel("dns:///shop.example:50051", http_proxy=f"http://{proxy}") as channel,
    ):
        call, messages = channel.method("/s/Echo"), [bytes([each]) for each in range(20)]
        assert [await call(message, timeout=60) for message in messages] == messages


async def test_the_control_plane_is_reached_through_envoy() -> None:
    plane = ManagementServer()
    async with serve({"/s/Echo": unary(echo)}) as server, plane.serve() as address, connect_proxy(address) as proxy:
        plane.put(
            xds.listener("shop", routes="r"),
            xds.routes("r", xds.route("c")),
            xds.cluster("c"),
            xds.endpoints("c", xds.locality(server.address)),
        )
        bootstrap = xds.bootstrap("plane.example:18000")
        async with trxds.open_channel("xds:///shop", bootstrap=bootstrap, http_proxy=f"http://{proxy}") as channel:
            assert await channel.method("/s/Echo")(b"x", timeout=60) == b"x"


async def test_a_host_is_reached_through_the_envoy_that_its_endpoint_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRPC_EXPERIMENTAL_XDS_HTTP_CONNECT", "true")
    plane, types = ManagementServer(), "type.googleapis.com/envoy"
    async with serve({"/s/Echo": unary(echo)}) as server, plane.serve() as ads, connect_proxy(server.address) as proxy:
        host, _, port = proxy.rpartition(":")
        address = {"socket_address": {"address": host, "port_value": int(port)}}
        locality = xds.locality("192.0.2.1:50051")  # nobody is there but by the proxy
        locality["metadata"] = {
            "typed_filter_metadata": {
                "envoy.http11_proxy_transport_socket.proxy_address": {
                    "@type": f"{types}.config.core.v3.Address",
                    **address,
                }
            }
        }
        wrapper = f"{types}.extensions.transport_sockets.http_11_proxy.v3.Http11ProxyUpstreamTransport"
        plane.put(
            xds.listener("shop", routes="r"),
            xds.routes("r", xds.route("c")),
            xds.cluster("c") | {"transport_socket": {"name": "proxy", "typed_config": {"@type": wrapper}}},
            xds.endpoints("c", locality),
        )
        async with trxds.open_channel("xds:///shop", bootstrap=xds.bootstrap(ads)) as channel:
            assert await channel.method("/s/Echo")(b"x", timeout=60) == b"x"
