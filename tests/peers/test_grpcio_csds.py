"""`trxds.admin` as grpcio reads it (A40)."""

import json
import sys
from pathlib import Path

import pytest
import trio
from envoy.admin.v3.config_dump_shared_pb2 import ClientResourceStatus

import trxds
import trxds.admin
from trxds.testing import ManagementServer, serve, unary
from trxds.testing import resources as xds

READER = Path(__file__).with_name("grpcio_csds.py")


async def answer(request, call):
    return b"yes"


async def read(address):
    done = await trio.run_process([sys.executable, str(READER), address], capture_stdout=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("where", ["port", "unix socket"])
async def test_grpcio_reads_what_a_channel_knows(where, tmp_path):
    plane = ManagementServer()
    address = "127.0.0.1:0" if where == "port" else f"unix:{tmp_path / 'admin'}"
    with trio.fail_after(60):
        async with (
            serve({"/shop.Cart/Add": unary(answer)}) as host,
            plane.serve() as ads,
            trxds.open_channel("xds:///shop", bootstrap=xds.bootstrap(ads)) as channel,
            trxds.admin.serve(channel, address=address) as admin,
        ):
            plane.put(
                xds.listener("shop", routes="r"),
                xds.routes("r", xds.route("cart")),
                xds.cluster("cart"),
                xds.endpoints("cart", xds.locality(host.address)),
            )
            assert await channel.method("/shop.Cart/Add")(b"") == b"yes"
            fetched, streamed = await read(admin)
    acked = ClientResourceStatus.Value("ACKED")
    prefix = "type.googleapis.com/envoy.config"
    assert fetched == streamed
    assert fetched == {
        "scope": "xds:///shop",
        "node": "trxds-test",
        "resources": [
            [f"{prefix}.cluster.v3.Cluster", "cart", acked],
            [f"{prefix}.endpoint.v3.ClusterLoadAssignment", "cart", acked],
            [f"{prefix}.listener.v3.Listener", "shop", acked],
            [f"{prefix}.route.v3.RouteConfiguration", "r", acked],
        ],
    }
