"""xDS resources in watched files, and channels on them."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import yaml

from trxds.testing import resources as xds


def shop(host, cluster="cart"):
    return [
        xds.listener("shop", routes="routes", filters=[xds.stateful_session()]),
        xds.routes("routes", xds.route(cluster)),
        xds.cluster(cluster),
        xds.endpoints(cluster, xds.locality(host)),
    ]


def write(path, *resources):
    """Replace a file as a program should: all at once."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(yaml.safe_dump(list(resources)) if path.suffix != ".json" else json.dumps(resources))
    temporary.rename(path)


@asynccontextmanager
async def channel_on(mesh, path, **more):
    bootstrap = {"xds_servers": [{"server_uri": f"file://{path}"}], "node": {"id": "web-1"}}
    async with mesh.channel(bootstrap=bootstrap | more) as channel:
        yield channel
