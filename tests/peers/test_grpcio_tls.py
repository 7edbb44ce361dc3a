"""TLS and mutual TLS against real grpcio servers, as a cluster asks for it: the mesh suite's SecurityTest (A29)."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.certificates import Files
from support.grpcio import grpcio_server
from support.pki import Authority, Leaf, bundle, bundle_map
from support.verified_chain import show_verified_chains

import trxds
from trxds.testing import ManagementServer
from trxds.testing import resources as xds

TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
NAME = "cart.example"


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path, NAME)


def transport_socket(name: str, identity: bool) -> dict:
    common: dict = {
        "validation_context": {
            "ca_certificate_provider_instance": {"instance_name": "roots"},
            "match_subject_alt_names": [{"exact": name}],
        }
    }
    if identity:
        common["tls_certificate_provider_instance"] = {"instance_name": "client"}
    return {"name": "tls", "typed_config": {"@type": TLS, "common_tls_context": common}}


@asynccontextmanager
async def method(files: Files, server: list[str], *, socket: dict | None):
    """A unary method of a server with those files, in a cluster with that transport_socket."""
    plane = ManagementServer()
    client = {"certificate_file": files.path("client-cert"), "private_key_file": files.path("client-key")}
    async with grpcio_server(*server) as address, plane.serve() as ads:
        plane.put(
            xds.listener("echo", routes="r"),
            xds.routes("r", xds.route("echo")),
            xds.cluster("echo") | ({"transport_socket": socket} if socket else {}),
            xds.endpoints("echo", xds.locality(address)),
        )
        bootstrap = xds.bootstrap(ads) | {
            "certificate_providers": {
                "roots": {"plugin_name": "file_watcher", "config": {"ca_certificate_file": files.path("roots")}},
                "client": {"plugin_name": "file_watcher", "config": client},
            }
        }
        credentials = trxds.xds_credentials(trxds.insecure())
        async with trxds.open_channel("xds:///echo", bootstrap=bootstrap, credentials=credentials) as channel:
            yield channel.method("/peer.Echo/unary")


async def test_mesh_security_case_tls(files: Files) -> None:
    server = files.paths("server-cert", "server-key")
    async with method(files, server, socket=transport_socket(NAME, identity=False)) as reverse:
        assert await reverse(b"abc", timeout=60) == b"cba"
        assert await reverse(bytes(1_000_000), timeout=60) == bytes(1_000_000)


async def test_mesh_security_case_mtls(files: Files) -> None:
    server = files.paths("server-cert", "server-key", "roots")
    async with method(files, server, socket=transport_socket(NAME, identity=True)) as reverse:
        assert await reverse(b"abc", timeout=60) == b"cba"


async def test_mesh_security_case_plaintext_fallback(files: Files) -> None:
    async with method(files, [], socket=None) as reverse:
        assert await reverse(b"abc", timeout=60) == b"cba"


async def failure(reverse) -> str:
    with pytest.raises(trxds.RpcError) as caught:
        await reverse(b"abc", timeout=60)
    assert caught.value.status.code is trxds.StatusCode.UNAVAILABLE
    return caught.value.status.message


async def test_mesh_security_case_mtls_error(files: Files) -> None:
    server = files.paths("server-cert", "server-key", "roots")
    async with method(files, server, socket=transport_socket(NAME, identity=False)) as reverse:
        # It says no more than that: the handshake is over for us when it finds nothing there (TLS 1.3).
        assert "before HTTP/2 began; does it want a certificate from us?" in await failure(reverse)


async def test_a_server_of_tls_that_is_spoken_to_in_plain_text(files: Files) -> None:
    async with method(files, files.paths("server-cert", "server-key"), socket=None) as reverse:
        assert "before HTTP/2 began; does it speak TLS?" in await failure(reverse)


async def test_mesh_security_case_server_authz_error(files: Files) -> None:
    server = files.paths("server-cert", "server-key")
    async with method(files, server, socket=transport_socket("depot.example", identity=False)) as reverse:
        assert f"the cluster allows none of the peer's names ({NAME})" in await failure(reverse)


async def test_a_server_of_plain_text_that_should_speak_tls(files: Files) -> None:
    async with method(files, [], socket=transport_socket(NAME, identity=False)) as reverse:
        assert "speak TLS" in await failure(reverse)


# -- SPIFFE trust domains, and revocation lists


async def verdict(leaf: Leaf, folder: Path, **options: Any) -> str:
    """Return "accepted", or why a grpcio server with that certificate was refused."""
    credentials = trxds.tls(**options)
    async with (
        grpcio_server(*leaf.write(folder)) as address,
        trxds.open_channel(f"ipv4:{address}", credentials=credentials) as channel,
    ):
        try:
            assert await channel.method("/peer.Echo/unary")(b"abc", timeout=60) == b"cba"
        except trxds.RpcError as error:
            return error.status.message
    return "accepted"


async def test_a_grpcio_server_proves_a_spiffe_id(tmp_path: Path, monkeypatch) -> None:
    show_verified_chains(monkeypatch)
    cart, shop, bank = "spiffe://shop.example/cart", Authority("CA"), Authority("CA")
    domains = bundle_map({"shop.example": bundle(shop), "bank.example": bundle(bank)})
    options = {"spiffe_bundle_map": domains, "server_name": cart}
    assert await verdict(Authority("below", shop).issue(cart), tmp_path, **options) == "accepted"
    assert "no authority of shop.example" in await verdict(bank.issue(cart), tmp_path, **options)


async def test_a_grpcio_server_whose_certificate_is_revoked_is_refused(tmp_path: Path) -> None:
    ca = Authority()
    leaf = ca.issue(names=[NAME])
    options = {"roots": ca.pem, "server_name": NAME}
    assert await verdict(leaf, tmp_path, **options, crls=ca.crl_pem()) == "accepted"
    assert "certificate revoked" in await verdict(leaf, tmp_path, **options, crls=ca.crl_pem(leaf))
