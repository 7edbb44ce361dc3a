"""Hosts are reached over TLS by the channel's credentials or each cluster's (A29, A82, A101)."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trio
import trio.testing
import trustme
from support.mesh import Mesh, ask, method

import trxds
from trxds.session_affinity.cookie import encode
from trxds.testing import resources as xds

pytestmark = pytest.mark.slow

TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
EMAIL = "cart@mesh.example"


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def pem(ca: trustme.CA, tmp_path: Path):
    """Write the PEM files of a CA and of a client, and return their paths."""
    leaf = ca.issue_cert("web.example")
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    leaf.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    leaf.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    return lambda name: str(tmp_path / f"{name}.pem")


def server_tls(ca: trustme.CA, *names: str, mutual: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(*names).configure_cert(context)
    context.set_alpn_protocols(["h2"])
    if mutual:
        ca.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def asked_names(context: ssl.SSLContext) -> list[str | None]:
    """Record the SNI of each handshake from now on."""
    names: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    return names


async def one_host(mesh: Mesh, tls: ssl.SSLContext | None, cluster: str = "cart", **endpoint: str) -> str:
    """Serve the cluster's only host, with or without TLS."""
    address = await mesh.add_host(tls=tls)
    locality = xds.locality(address)
    locality["lb_endpoints"][0]["endpoint"].update(endpoint)
    mesh.endpoints(cluster, locality)
    return address


def by(roots: str | None = "mesh", identity: str | None = None, names=(), **fields) -> dict:
    """Return a cluster's transport_socket."""
    validation: dict = {"match_subject_alt_names": list(names)}
    if roots is None:
        validation["system_root_certs"] = {}
    else:
        validation["ca_certificate_provider_instance"] = {"instance_name": roots}
    common: dict = {"validation_context": validation}
    if identity is not None:
        common["tls_certificate_provider_instance"] = {"instance_name": identity}
    return {"name": "tls", "typed_config": {"@type": TLS, "common_tls_context": common, **fields}}


def secured_cluster(mesh: Mesh, socket: dict | None, name: str = "cart") -> None:
    cluster = xds.cluster(name)
    if socket is not None:
        cluster["transport_socket"] = socket
    mesh.plane.put(cluster)


def provider(**files: str) -> dict:
    return {"plugin_name": "file_watcher", "config": files}


def xds_channel(mesh: Mesh, pem, fallback=None, sticky_aggregates=False, **more):
    providers = {
        "mesh": provider(ca_certificate_file=pem("ca")),
        "own": provider(certificate_file=pem("cert"), private_key_file=pem("key")),
        **more,
    }
    bootstrap = {**mesh.bootstrap, "certificate_providers": providers}
    credentials = trxds.xds_credentials(fallback or trxds.insecure())
    return mesh.channel(bootstrap=bootstrap, credentials=credentials, sticky_aggregates=sticky_aggregates)


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


# -- changes


async def test_a_cluster_that_switches_to_tls_fails_no_rpc(ca, pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        plain = await one_host(mesh, None)
        async with xds_channel(mesh, pem) as channel:
            assert await ask(channel) == plain
            safe = await mesh.add_host(tls=server_tls(ca, "cart"))
            mesh.endpoints("cart", [plain, safe])
            secured_cluster(mesh, by())
            while await ask(channel) == plain:
                pass
            assert {await ask(channel) for _ in range(5)} == {safe}


async def test_a_changed_tls_config_makes_new_connections(ca, pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        address = await one_host(mesh, server_tls(ca, "cart"))
        secured_cluster(mesh, by())
        async with xds_channel(mesh, pem) as channel:
            await ask(channel)
            secured_cluster(mesh, by(names=[{"exact": "depot"}]))
            await mesh.plane.wait_for_ack("CDS")
            while mesh.servers[address].connections:
                with pytest.raises(trxds.RpcError):
                    while True:
                        await method(channel)(b"", timeout=5)


async def test_clusters_with_different_tls_configs_share_no_connection_to_an_address(ca, pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        address = await one_host(mesh, server_tls(ca, "cart"))
        mesh.cluster("depot")
        mesh.endpoints("depot", [address])
        secured_cluster(mesh, by(), "cart")
        secured_cluster(mesh, by(sni="depot.example"), "depot")
        mesh.route({"cart": 50, "depot": 50})
        async with xds_channel(mesh, pem) as channel:
            for _ in range(30):
                assert await ask(channel) == address
            assert len(mesh.servers[address].connections) == 2


async def test_rotated_certificate_files_are_read_for_the_next_connection(ca, pem, autojump_clock) -> None:
    fresh = trustme.CA()
    async with Mesh.run(hosts=0) as mesh:
        first = await one_host(mesh, server_tls(ca, "cart"))
        secured_cluster(mesh, by(roots="rotating"))
        rotating = provider(ca_certificate_file=pem("ca"), refresh_interval="60s")
        async with xds_channel(mesh, pem, rotating=rotating) as channel:
            assert await ask(channel) == first
            fresh.cert_pem.write_to_path(pem("ca"))
            autojump_clock.jump(60)
            second = await one_host(mesh, server_tls(fresh, "cart"))
            while await ask(channel) == first:
                pass
            assert await ask(channel) == second


async def test_a_session_over_tls_stays_on_its_draining_host(ca, pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        hosts = [await mesh.add_host(tls=server_tls(ca, "cart")) for _ in range(3)]
        mesh.endpoints("cart", hosts)
        cluster = xds.cluster("cart", override_statuses=["HEALTHY", "DRAINING"])
        mesh.plane.put(cluster | {"transport_socket": by()})
        async with xds_channel(mesh, pem) as channel, channel.session() as session:
            mine = await ask(session)
            mesh.endpoints("cart", xds.locality(*hosts, health={mine: "DRAINING"}))
            await mesh.plane.wait_for_ack("EDS")
            assert {await ask(session) for _ in range(6)} == {mine}
            assert len(mesh.servers[mine].connections) == 1


async def test_a_session_in_another_leaf_of_an_aggregate_uses_the_tls_of_that_leaf(ca, pem, autojump_clock) -> None:
    contexts = [server_tls(ca, "cart") for _ in range(2)]
    names = [asked_names(context) for context in contexts]
    async with Mesh.run(hosts=0) as mesh:
        hosts = [await mesh.add_host(tls=context) for context in contexts]
        for cluster, host in zip("xy", hosts, strict=True):
            secured_cluster(mesh, by(sni=f"{cluster}.example"), cluster)
            mesh.endpoints(cluster, [host])
        mesh.plane.put(xds.aggregate("both", "x", "y"))
        mesh.route("both")
        cookie = [("cookie", f"session={encode(hosts[1], 'both')}")]
        async with xds_channel(mesh, pem, sticky_aggregates=True) as channel:
            assert [await ask(channel), await ask(channel, metadata=cookie)] == hosts
    assert names == [["x.example"], ["y.example"]]


# -- sessions of TLS, which spare the next connection a full handshake


async def handshakes(mesh: Mesh, ca: trustme.CA, **options) -> tuple[int, int]:
    """Return how many handshakes a host had for two connections of a channel, and how many of them were resumed."""
    context = server_tls(ca, "shop")
    address = await one_host(mesh, context)
    credentials = trxds.tls(roots=ca.cert_pem.bytes(), **options)
    async with mesh.channel(credentials=credentials) as channel:
        await ask(channel)
        await trio.sleep(60)
        mesh.servers[address].goaway()
        await trio.testing.wait_all_tasks_blocked()
        assert await ask(channel) == address
    stats = context.session_stats()
    return stats["accept_good"], stats["hits"]


async def test_a_connection_after_a_goaway_resumes_the_tls_session(ca, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        assert await handshakes(mesh, ca) == (2, 1)


async def test_a_tls_session_is_not_resumed_after_the_files_were_read_again(ca, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        assert await handshakes(mesh, ca, refresh_interval=30) == (2, 0)


async def test_a_resumed_session_is_checked_for_the_names_that_the_cluster_allows(ca, pem, autojump_clock) -> None:
    context = server_tls(ca, EMAIL)
    async with Mesh.run(hosts=0) as mesh:
        address = await one_host(mesh, context)
        secured_cluster(mesh, by(names=[{"exact": EMAIL}]))
        async with xds_channel(mesh, pem) as channel:
            await ask(channel)
            mesh.servers[address].goaway()
            await trio.sleep(60)
            assert await ask(channel) == address
            assert context.session_stats()["hits"] == 1


async def test_a_pinned_call_reaches_its_host_by_its_clusters_tls_only(ca, pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        tls = server_tls(ca, "cart.mesh")
        names = asked_names(tls)
        address = await one_host(mesh, tls)
        secured_cluster(mesh, by(names=[{"exact": "cart.mesh"}]))
        async with xds_channel(mesh, pem) as channel:
            (host,) = [each async for each in channel.hosts()]
            assert (await method(channel).on(host)(b"")).decode() == address
            assert len(names) == 1
            secured_cluster(mesh, by(names=[{"exact": "other.mesh"}]))
            await trio.sleep(1)
            with pytest.raises(trxds.RpcError, match="pinned to host"):
                await method(channel).on(host)(b"", timeout=5)
