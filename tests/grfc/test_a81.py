"""Authority rewriting (A81) is not implemented: its fields are read and have no effect."""

import pytest
from support.mesh import METHOD, PLANE, Mesh, ask

from trxds.testing import resources as xds


@pytest.mark.parametrize("features", [("xds_v3",), ("xds_v3", "trusted_xds_server")])
async def test_the_authority_is_the_channels_whatever_the_route_configures(autojump_clock, monkeypatch, features):
    monkeypatch.setenv("GRPC_EXPERIMENTAL_XDS_AUTHORITY_REWRITE", "true")
    seen = []

    async def look(call):
        async for _ in call:
            seen.append(call.authority)
            await call.send(b"seen")

    async with Mesh.run(1) as mesh:
        [host] = mesh.hosts
        mesh.servers[host].handlers[METHOD] = look
        route = xds.route("cart")
        route["route"]["auto_host_rewrite"] = True
        mesh.route(route)
        locality = xds.locality(host)
        locality["lb_endpoints"][0]["endpoint"]["hostname"] = "host-7.example"
        mesh.endpoints("cart", locality)
        async with mesh.channel(bootstrap=xds.bootstrap(PLANE, features=features)) as channel:
            await ask(channel)
    assert seen == ["shop"]
