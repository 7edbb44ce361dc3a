"""Hosts are reached over TLS by the channel's credentials or each cluster's (A29, A82, A101)."""

from __future__ import annotations

import ssl

import pytest
import trustme
from support.mesh import Mesh, ask, method
from support.secured import EMAIL, asked_names, by, one_host, provider, secured_cluster, server_tls, xds_channel

import trxds

pytestmark = pytest.mark.slow


async def failure(channel) -> str:
    with pytest.raises(trxds.RpcError) as caught:
        await method(channel)(b"", timeout=5)
    assert caught.value.status.code is trxds.StatusCode.UNAVAILABLE
    return caught.value.status.message


# -- the channel's own credentials


async def test_tls_hosts_prove_the_targets_name(ca, pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        address = await one_host(mesh, server_tls(ca, "shop"))
        async with mesh.channel(credentials=trxds.tls(roots=pem("ca"))) as channel:
            assert await ask(channel) == address


async def test_a_tls_host_of_another_name_is_rejected_and_named(ca, pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        address = await one_host(mesh, server_tls(ca, "depot"))
        async with mesh.channel(credentials=trxds.tls(roots=pem("ca"))) as channel:
            assert f"TLS with {address} as 'shop': certificate verify failed: Hostname mismatch" in await failure(
                channel
            )


async def test_tls_with_server_name_checks_that_name(ca, pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        address = await one_host(mesh, server_tls(ca, "depot"))
        async with mesh.channel(credentials=trxds.tls(roots=pem("ca"), server_name="depot")) as channel:
            assert await ask(channel) == address


async def test_tls_accepts_an_ssl_context(ca, autojump_clock) -> None:
    context = ssl.create_default_context()
    ca.configure_trust(context)
    async with Mesh.run(hosts=0) as mesh:
        address = await one_host(mesh, server_tls(ca, "shop"))
        async with mesh.channel(credentials=trxds.tls(context)) as channel:
            assert await ask(channel) == address


async def test_mutual_tls_sends_the_clients_certificate(ca, pem, autojump_clock) -> None:
    credentials = trxds.tls(roots=pem("ca"), certificate=pem("cert"), private_key=pem("key"))
    async with Mesh.run(hosts=0) as mesh:
        address = await one_host(mesh, server_tls(ca, "shop", mutual=True))
        async with mesh.channel(credentials=credentials) as channel:
            assert await ask(channel) == address


async def test_the_transport_socket_of_a_cluster_is_ignored_without_xds_credentials(pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        address = await one_host(mesh, None)
        secured_cluster(mesh, by())
        bootstrap = {**mesh.bootstrap, "certificate_providers": {"mesh": provider(ca_certificate_file=pem("ca"))}}
        async with mesh.channel(bootstrap=bootstrap) as channel:
            assert await ask(channel) == address


def test_invalid_credentials_are_errors_before_anything_runs(pem) -> None:
    with pytest.raises(ValueError, match="certificate and private_key need each other"):
        trxds.tls(certificate=pem("cert"))
    with pytest.raises(ValueError, match="give either it or files"):
        trxds.tls(ssl.create_default_context(), roots=pem("ca"))
    with pytest.raises(ValueError, match="the context of tls is for servers; make one for clients"):
        trxds.tls(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))
    with pytest.raises(TypeError, match=r"the fallback is trxds\.insecure"):
        trxds.xds_credentials(None)  # type: ignore[arg-type]


# -- what clusters ask for


async def test_a_cluster_may_configure_tls(ca, pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        address = await one_host(mesh, server_tls(ca, "whatever"))
        secured_cluster(mesh, by())
        async with xds_channel(mesh, pem) as channel:
            assert await ask(channel) == address
            assert mesh.servers[address].calls[0].scheme == "https"


async def test_a_cluster_may_configure_mutual_tls(ca, pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        address = await one_host(mesh, server_tls(ca, "cart", mutual=True))
        secured_cluster(mesh, by(identity="own"))
        async with xds_channel(mesh, pem) as channel:
            assert await ask(channel) == address


async def test_a_host_that_requires_a_client_certificate_is_not_reached_without_one(ca, pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        address = await one_host(mesh, server_tls(ca, "cart", mutual=True))
        secured_cluster(mesh, by())
        async with xds_channel(mesh, pem) as channel:
            assert address in await failure(channel)


async def test_a_cluster_without_transport_socket_gets_the_fallback_credentials(ca, pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        address = await one_host(mesh, None)
        async with xds_channel(mesh, pem) as channel:
            assert await ask(channel) == address


async def test_the_fallback_credentials_may_be_tls(ca, pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        address = await one_host(mesh, server_tls(ca, "shop"))
        async with xds_channel(mesh, pem, fallback=trxds.tls(roots=pem("ca"))) as channel:
            assert await ask(channel) == address


async def test_a_failed_tls_handshake_does_not_use_the_fallback_credentials(pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        address = await one_host(mesh, None)
        secured_cluster(mesh, by())
        async with xds_channel(mesh, pem) as channel:
            assert f"TLS with {address}: " in await failure(channel)


async def test_a_host_with_a_certificate_of_an_unknown_ca_is_not_reached(pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        await one_host(mesh, server_tls(trustme.CA(), "cart"))
        secured_cluster(mesh, by())
        async with xds_channel(mesh, pem) as channel:
            assert "certificate verify failed" in await failure(channel)


async def test_a_cluster_may_configure_the_systems_roots(ca, pem, monkeypatch, autojump_clock) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", pem("ca"))
    async with Mesh.run(hosts=0) as mesh:
        address = await one_host(mesh, server_tls(ca, "cart"))
        secured_cluster(mesh, by(roots=None))
        async with xds_channel(mesh, pem) as channel:
            assert await ask(channel) == address


async def test_a_certificate_provider_without_roots_is_an_error(ca, pem, monkeypatch, autojump_clock) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", pem("ca"))
    async with Mesh.run(hosts=0) as mesh:
        await one_host(mesh, server_tls(ca, "cart"))
        secured_cluster(mesh, by(roots="own"))
        async with xds_channel(mesh, pem) as channel:
            assert "certificate provider 'own' has no ca_certificate_file" in await failure(channel)


async def test_a_peer_is_accepted_by_its_subject_alternative_names(ca, pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        address = await one_host(mesh, server_tls(ca, EMAIL))
        secured_cluster(mesh, by(names=[{"suffix": "@mesh.example"}]))
        async with xds_channel(mesh, pem) as channel:
            assert await ask(channel) == address


async def test_a_peer_without_a_matching_san_is_rejected_by_name(ca, pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        await one_host(mesh, server_tls(ca, EMAIL))
        secured_cluster(mesh, by(names=[{"exact": "depot@mesh.example"}]))
        async with xds_channel(mesh, pem) as channel:
            assert f"the cluster allows none of the peer's names ({EMAIL})" in await failure(channel)


async def test_a_cluster_with_an_unknown_certificate_provider_is_nacked(pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        await one_host(mesh, None)
        secured_cluster(mesh, by(roots="vendor"))
        async with xds_channel(mesh, pem) as channel:
            assert "unrecognized certificate provider instance name: vendor" in await failure(channel)


# -- the name that is sent


async def test_sni_is_not_sent_unless_configured(ca, pem, autojump_clock) -> None:
    tls = server_tls(ca, "cart")
    names = asked_names(tls)
    async with Mesh.run(hosts=0) as mesh:
        await one_host(mesh, tls, hostname="own.example")
        secured_cluster(mesh, by())
        async with xds_channel(mesh, pem) as channel:
            await ask(channel)
    assert names == [None]


async def test_the_sni_of_a_cluster_is_sent(ca, pem, autojump_clock) -> None:
    tls = server_tls(ca, "cart")
    names = asked_names(tls)
    async with Mesh.run(hosts=0) as mesh:
        await one_host(mesh, tls, hostname="own.example")
        secured_cluster(mesh, by(sni="cart.example"))
        async with xds_channel(mesh, pem) as channel:
            await ask(channel)
    assert names == ["cart.example"]


async def test_the_hostname_of_an_endpoint_is_sent_as_sni_and_validated(ca, pem, autojump_clock) -> None:
    tls = server_tls(ca, "own.example")
    names = asked_names(tls)
    async with Mesh.run(hosts=0) as mesh:
        address = await one_host(mesh, tls, hostname="own.example")
        secured_cluster(mesh, by(sni="cart.example", auto_host_sni=True, auto_sni_san_validation=True))
        async with xds_channel(mesh, pem) as channel:
            assert await ask(channel) == address
    assert names == ["own.example"]


async def test_a_peer_without_the_sent_sni_in_its_san_is_rejected(ca, pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        await one_host(mesh, server_tls(ca, "other.example"), hostname="own.example")
        socket = by(names=[{"exact": "other.example"}], auto_host_sni=True, auto_sni_san_validation=True)
        secured_cluster(mesh, socket)
        async with xds_channel(mesh, pem) as channel:
            assert "none of the peer's names (other.example)" in await failure(channel)
