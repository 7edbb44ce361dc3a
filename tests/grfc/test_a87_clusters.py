"""SPIFFE bundle maps of clusters: the control plane names a certificate provider that has one (A87)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.mesh import Mesh, ask, method
from support.pki import Authority
from support.verified_chain import hide_verified_chains, show_verified_chains

import trxds
from trxds.admin import state_stream
from trxds.cli.check import check
from trxds.testing import resources as xds
from trxds.testing import serve
from trxds.transport.connect import TcpNetwork
from trxds.xds.bootstrap import parse
from trxds.xds.channel_credentials import secure_network

TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
VARIABLE = "GRPC_EXPERIMENTAL_XDS_MTLS_SPIFFE"
CART = "spiffe://shop.example/cart"


@pytest.fixture(autouse=True)
def verified_chains(monkeypatch) -> None:
    show_verified_chains(monkeypatch)


# -- the control plane


def secured(*names: dict, roots: str = "mesh") -> dict:
    validation = {"ca_certificate_provider_instance": {"instance_name": roots}, "match_subject_alt_names": list(names)}
    common = {"validation_context": validation}
    return xds.cluster("cart") | {
        "transport_socket": {"name": "tls", "typed_config": {"@type": TLS, "common_tls_context": common}}
    }


def bootstrap_of(mesh: Mesh, **config: str) -> dict:
    provider = {"plugin_name": "file_watcher", "config": config}
    return {**mesh.bootstrap, "certificate_providers": {"mesh": provider}}


async def xds_verdict(leaf, folder: Path, *names: dict, **config: str) -> str:
    async with Mesh.run(hosts=0) as mesh:
        mesh.endpoints("cart", [await mesh.add_host(tls=leaf.server_context(folder))])
        mesh.plane.put(secured(*names))
        credentials = trxds.xds_credentials(trxds.insecure())
        async with mesh.channel(bootstrap=bootstrap_of(mesh, **config), credentials=credentials) as channel:
            try:
                await method(channel)(b"", timeout=5)
            except trxds.RpcError as error:
                return error.status.message
    return "accepted"


async def test_a_provider_with_a_map_makes_its_clusters_spiffe(
    shop, bank, map_file, tmp_path, monkeypatch, autojump_clock
) -> None:
    monkeypatch.setenv(VARIABLE, "true")
    config = {"spiffe_trust_bundle_map_file": str(map_file)}
    assert await xds_verdict(shop.issue(CART), tmp_path, **config) == "accepted"
    assert "no authority of shop.example" in await xds_verdict(bank.issue(CART), tmp_path, **config)
    assert "has 0 URI names" in await xds_verdict(shop.issue(names=["shop"]), tmp_path, **config)


async def test_the_names_that_the_cluster_allows_are_checked_too(
    shop, map_file, tmp_path, monkeypatch, autojump_clock
) -> None:
    monkeypatch.setenv(VARIABLE, "true")
    config = {"spiffe_trust_bundle_map_file": str(map_file)}
    assert await xds_verdict(shop.issue(CART), tmp_path, {"exact": CART}, **config) == "accepted"
    refused = await xds_verdict(shop.issue(CART), tmp_path, {"prefix": "spiffe://bank.example/"}, **config)
    assert "the cluster allows none of the peer's names" in refused


async def test_with_a_map_the_ca_certificate_file_is_ignored(
    shop, bank, map_file, tmp_path, monkeypatch, autojump_clock
) -> None:
    monkeypatch.setenv(VARIABLE, "true")
    other = Authority("other")
    (tmp_path / "ca.pem").write_bytes(other.pem)
    config = {"spiffe_trust_bundle_map_file": str(map_file), "ca_certificate_file": str(tmp_path / "ca.pem")}
    assert await xds_verdict(shop.issue(CART), tmp_path, **config) == "accepted"
    assert "no authority in the SPIFFE bundle map" in await xds_verdict(other.issue(CART), tmp_path, **config)


async def test_without_the_variable_the_map_is_not_read(shop, map_file, tmp_path, monkeypatch, autojump_clock) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    (tmp_path / "ca.pem").write_bytes(shop.pem)
    config = {"spiffe_trust_bundle_map_file": str(map_file), "ca_certificate_file": str(tmp_path / "ca.pem")}
    assert await xds_verdict(shop.issue(names=["shop"]), tmp_path, **config) == "accepted"


async def test_a_map_that_was_never_good_fails_the_connections_of_its_clusters(
    shop, map_file, tmp_path, monkeypatch, autojump_clock
) -> None:
    monkeypatch.setenv(VARIABLE, "true")
    map_file.write_text('{"trust_domains": 1}')
    refused = await xds_verdict(shop.issue(CART), tmp_path, spiffe_trust_bundle_map_file=str(map_file))
    assert f"cannot use the SPIFFE bundle map of {map_file}: trust_domains: is a number; write an object" in refused


async def test_clusters_are_refused_where_the_chain_cannot_be_checked(
    shop, map_file, tmp_path, monkeypatch, autojump_clock
) -> None:
    monkeypatch.setenv(VARIABLE, "true")
    hide_verified_chains(monkeypatch)
    refused = await xds_verdict(shop.issue(CART), tmp_path, spiffe_trust_bundle_map_file=str(map_file))
    assert "it needs Python 3.13, whose ssl shows the verified chain" in refused


def test_a_provider_with_a_map_alone_is_valid_only_with_the_variable(map_file, monkeypatch) -> None:
    config = {"spiffe_trust_bundle_map_file": str(map_file)}
    bootstrap = {
        "xds_servers": [{"server_uri": "127.0.0.1:18000", "channel_creds": [{"type": "insecure"}]}],
        "node": {"id": "web"},
        "certificate_providers": {"mesh": {"plugin_name": "file_watcher", "config": config}},
    }
    monkeypatch.setenv(VARIABLE, "true")
    assert check(json.dumps(bootstrap)).findings == ()
    monkeypatch.setenv(VARIABLE, "false")
    texts = [finding.text for finding in check(json.dumps(bootstrap)).findings]
    assert any("has no certificates" in text for text in texts)
    assert any(f"unless the client's environment has {VARIABLE}=true" in text for text in texts)


async def test_a_control_plane_may_be_verified_by_a_map(shop, bank, map_file, tmp_path, monkeypatch) -> None:
    """The configuration of `tls` is that of the provider (A65). The name of the server is checked as ever."""
    monkeypatch.setenv(VARIABLE, "true")
    config = {"spiffe_trust_bundle_map_file": str(map_file)}
    for issuer, problem in ((shop, None), (bank, "no authority of shop.example")):
        leaf = issuer.issue(CART, names=["localhost"])
        async with serve(address="127.0.0.1:0", tls=leaf.server_context(tmp_path)) as server:
            uri = server.address.replace("127.0.0.1", "localhost")
            creds = [{"type": "tls", "config": config}]
            settings = parse({"xds_servers": [{"server_uri": uri, "channel_creds": creds}], "node": {"id": "web"}})
            network = secure_network(TcpNetwork(), settings.servers[0].credentials, uri)
            if problem is None:
                await (await network.connect(uri)).aclose()
            else:
                with pytest.raises(OSError, match=problem):
                    await network.connect(uri)


# -- what operators see


async def test_an_explanation_and_the_endpoints_name_the_map_and_its_trust_domains(
    shop, map_file, tmp_path, monkeypatch, autojump_clock
) -> None:
    monkeypatch.setenv(VARIABLE, "true")
    async with Mesh.run(hosts=0) as mesh:
        mesh.endpoints("cart", [await mesh.add_host(tls=shop.issue(CART).server_context(tmp_path))])
        mesh.plane.put(secured())
        bootstrap = bootstrap_of(mesh, spiffe_trust_bundle_map_file=str(map_file))
        credentials = trxds.xds_credentials(trxds.insecure())
        async with mesh.channel(bootstrap=bootstrap, credentials=credentials) as channel:
            await ask(channel)
            shown = f"TLS, SPIFFE bundle map of {map_file} (trust domains: bank.example, shop.example)"
            assert str(await channel.explain("/shop.Cart/Add")).endswith(f"(READY) by {shown}")
            async with state_stream.open(channel) as states:
                state = await states.snapshot(["endpoints"])
            assert [row["security"] for row in state["endpoints"].values()] == [shown]
