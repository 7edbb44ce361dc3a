"""A grpc-go server with TLS sees the authority that a route gives its host, and only if it proves that name (A81)."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trustme
from support.go_peers import running

import trxds
from trxds.interop import protos
from trxds.testing import ManagementServer
from trxds.testing import resources as xds

pytestmark = pytest.mark.usefixtures("go_programs")

UNARY = "/grpc.testing.TestService/UnaryCall"
FEATURES = ("xds_v3", "trusted_xds_server")


def rewriting_route() -> xds.Resource:
    route = xds.route("cart")
    route["route"]["auto_host_rewrite"] = True
    return route


def endpoint(address: str, hostname: str) -> xds.Resource:
    locality = xds.locality(address)
    locality["lb_endpoints"][0]["endpoint"]["hostname"] = hostname
    return xds.endpoints("cart", locality)


async def test_a_go_server_gets_the_names_that_its_certificate_proves(tmp_path: Path) -> None:
    ca = trustme.CA()
    leaf = ca.issue_cert("shop", "cart.example")
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    leaf.cert_chain_pems[0].write_to_path(cert)
    leaf.private_key_pem.write_to_path(key)
    plane = ManagementServer()
    with trio.fail_after(60):
        async with running("backend", "-cert", cert, "-key", key) as server, plane.serve() as ads:
            plane.put(xds.listener("shop", routes="r"), xds.routes("r", rewriting_route()), xds.cluster("cart"))
            plane.put(endpoint(server.address, "cart.example:443"))
            options = {"bootstrap": xds.bootstrap(ads, features=FEATURES)}
            async with trxds.open_channel(
                "xds:///shop", credentials=trxds.tls(roots=ca.cert_pem.bytes()), **options
            ) as channel:
                call = channel.method(UNARY, protos.SimpleRequest, protos.SimpleResponse)
                _, completed = await call.with_call(protos.SimpleRequest())
                assert completed.initial_metadata.first("seen-authority") == "cart.example:443"
                _, completed = await call.with_call(protos.SimpleRequest(), authority="shop")
                assert completed.initial_metadata.first("seen-authority") == "shop"
                with pytest.raises(trxds.RpcError, match=r"does not prove the authority 'depot\.example'"):
                    await call(protos.SimpleRequest(), authority="depot.example")
                plane.put(endpoint(server.address, "depot.example"))
                await plane.wait_for_ack("EDS")
                with pytest.raises(trxds.RpcError, match=r"does not prove the authority 'depot\.example'"):
                    while True:
                        await call(protos.SimpleRequest())
