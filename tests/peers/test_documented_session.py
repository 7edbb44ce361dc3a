"""README's filter with two real grpcio hosts."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from support.grpcio import grpcio_server

import trxds
from trxds.testing import ManagementServer, resources

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


async def test_the_session_of_readmes_filter_stays_on_one_of_two_grpcio_hosts() -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    plane = ManagementServer()
    async with grpcio_server() as first, grpcio_server() as second, plane.serve() as address:
        plane.put(
            resources.listener("shop", routes="r", filters=yaml.safe_load(text)),
            resources.routes("r", resources.route("c")),
            resources.cluster("c"),
            resources.endpoints("c", resources.locality(first, second)),
        )
        bootstrap = resources.bootstrap(address)
        async with trxds.open_channel("xds:///shop", bootstrap=bootstrap) as channel, channel.session() as session:
            add = session.method("/shop.Cart/Add")
            peers = [(await add.with_call(b"apples", timeout=60))[1].peer for _ in range(20)]
    assert len(set(peers)) == 1
    assert peers[0] in (first, second)
