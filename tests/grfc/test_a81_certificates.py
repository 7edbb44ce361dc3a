"""A host has to prove the authority of each RPC by its certificate, also a rewritten one (A81)."""

from __future__ import annotations

import ssl

import pytest
import trio
import trio.testing
from support.mesh import PLANE, Mesh, ask, bidi
from support.pki import NO_TEXT, Authority, bundle, bundle_map
from support.rewritten_authority import TRUSTED, channel_to, entry, rewritten, seen
from support.secured import server_tls
from support.verified_chain import show_verified_chains

import trxds
from trxds.testing import resources as xds
from trxds.transport import authority_check

TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"


def trusting(ca, **more):
    return trxds.tls(roots=ca.cert_pem.bytes(), **more)


@pytest.mark.parametrize("name", ["host-1.example", "HOST-1.example:443", "a.w.example", "10.0.1.1:50051", "[::1]:1"])
async def test_a_host_that_proves_the_rewritten_name_gets_the_rpc(ca, autojump_clock, name):
    tls = server_tls(ca, "shop", "host-1.example", "*.w.example", "10.0.1.1", "::1")
    async with rewritten(names=name, tls=tls) as mesh:
        assert await seen(mesh, credentials=trusting(ca)) == name


@pytest.mark.parametrize("name", ["host-2.example", "a.b.w.example", "10.0.1.2", "shop.example", "cart.mesh"])
async def test_an_rpc_fails_if_its_host_does_not_prove_the_rewritten_name(ca, autojump_clock, name):
    async with rewritten(names=name, tls=server_tls(ca, "shop", "*.w.example", "*.mesh", "10.0.1.1")) as mesh:
        async with channel_to(mesh, credentials=trusting(ca)) as channel:
            with pytest.raises(trxds.RpcError) as caught:
                await ask(channel, wait_for_ready=True)
        assert caught.value.status.code is trxds.StatusCode.UNAVAILABLE
        text = f"10.0.1.1:50051: its certificate does not prove the authority '{name}', only shop, *.w.example, *.mesh"
        assert text in caught.value.status.message
        assert not mesh.seen


async def test_the_handshake_is_for_the_channels_name_whatever_is_rewritten(ca, autojump_clock):
    tls, asked = server_tls(ca, "host-1.example"), []
    tls.sni_callback = lambda _socket, name, _context: asked.append(name)
    async with rewritten(tls=tls) as mesh, channel_to(mesh, credentials=trusting(ca)) as channel:
        with pytest.raises(trxds.RpcError, match="as 'shop': certificate verify failed: Hostname mismatch"):
            await ask(channel)
    assert set(asked) == {"shop"}


async def test_a_retry_may_reach_a_host_that_proves_its_name(ca, autojump_clock):
    route = entry(retry_policy={"retry_on": "unavailable", "num_retries": 1})
    tls = server_tls(ca, "shop", "host-2.example")
    async with rewritten(2, route=route, tls=tls) as mesh, channel_to(mesh, credentials=trusting(ca)) as channel:
        assert {await ask(channel) for _ in range(6)} == {"host-2.example"}


async def test_a_callers_authority_has_to_be_proved_too(ca, autojump_clock):
    tls = server_tls(ca, "shop", "mine.example")
    async with Mesh.run(1, tls=tls) as mesh, mesh.channel(credentials=trusting(ca)) as channel:
        assert await ask(channel, authority="mine.example") == mesh.hosts[0]
        with pytest.raises(trxds.RpcError, match="does not prove the authority 'yours', only shop, mine"):
            await ask(channel, authority="yours")


async def test_a_spiffe_id_as_server_name_leaves_the_rewritten_name_to_be_proved(autojump_clock, tmp_path, monkeypatch):
    show_verified_chains(monkeypatch)
    cart, root = "spiffe://shop.example/cart", Authority()
    tls = root.issue(cart, names=["host-1.example"]).server_context(tmp_path)
    bundles = bundle_map({"shop.example": bundle(root)})
    async with rewritten(2, tls=tls) as mesh:
        credentials = trxds.tls(spiffe_bundle_map=bundles, server_name=cart)
        async with channel_to(mesh, credentials=credentials) as channel:
            with pytest.raises(trxds.RpcError, match=r"does not prove the authority 'host-2\.example', only spiffe"):
                for _ in range(4):
                    assert await ask(channel) == "host-1.example"
    assert set(mesh.seen) <= {"host-1.example"}


async def test_a_dns_name_that_looks_like_an_address_proves_no_address(autojump_clock, tmp_path):
    root = Authority()
    tls = root.issue(names=["shop", "10.0.1.1"]).server_context(tmp_path)
    async with Mesh.run(1, tls=tls) as mesh, mesh.channel(credentials=trxds.tls(roots=root.pem)) as channel:
        assert await ask(channel) == mesh.hosts[0]
        with pytest.raises(trxds.RpcError, match=r"does not prove the authority '10\.0\.1\.1'"):
            await ask(channel, authority="10.0.1.1")


async def test_a_percent_sign_in_a_host_name_ends_no_name_that_has_to_be_proved(autojump_clock, tmp_path):
    root = Authority()
    tls = root.issue(names=["shop"]).server_context(tmp_path)
    async with Mesh.run(1, tls=tls) as mesh, mesh.channel(credentials=trxds.tls(roots=root.pem)) as channel:
        with pytest.raises(trxds.RpcError, match=r"does not prove the authority 'shop%2Eexample', only shop"):
            await ask(channel, authority="shop%2Eexample")


async def test_a_certificate_with_a_name_that_is_no_text_proves_no_name(autojump_clock, tmp_path):
    root = Authority()
    tls = root.issue(raw_names=NO_TEXT).server_context(tmp_path)
    async with Mesh.run(1, tls=tls) as mesh, mesh.channel(credentials=trxds.tls(roots=root.pem)) as channel:
        assert await ask(channel) == mesh.hosts[0]  # OpenSSL finds `shop` beside it
        with pytest.raises(trxds.RpcError, match="a name in its certificate is no UTF-8, so it does not prove"):
            await ask(channel, authority="yours")
        assert await ask(channel) == mesh.hosts[0]


async def test_the_channels_own_authority_needs_no_further_proof(ca, autojump_clock):
    credentials = trusting(ca, server_name="front")
    async with rewritten(tls=server_tls(ca, "front")) as mesh, channel_to(mesh, credentials=credentials) as channel:
        assert await ask(channel, authority="shop") == "shop"


async def test_the_check_of_a_name_is_made_once_for_a_connection(ca, autojump_clock, monkeypatch):
    checked = []

    def prove(kind, name, host):
        checked.append(host)
        return True

    monkeypatch.setattr(authority_check, "_proves", prove)
    async with rewritten(tls=server_tls(ca, "shop")) as mesh, channel_to(mesh, credentials=trusting(ca)) as channel:
        assert {await ask(channel) for _ in range(5)} == {"host-1.example"}
    assert checked == ["host-1.example"]


async def test_the_checks_of_any_number_of_names_are_not_kept():
    check = authority_check.AuthorityCheck(trio.testing.memory_stream_pair()[0], "host:1")
    for number in range(3000):
        check.error(f"{number}.example")
    assert len(check._errors) <= 1024


@pytest.mark.parametrize("name", ["*.mesh", "*.mesh."])
def test_a_name_for_all_hosts_of_a_top_level_domain_proves_none(name):
    assert not authority_check._proves("DNS", name, "host-1.mesh")


async def test_many_calls_that_wait_for_a_stream_fail_when_their_host_does_not_prove_the_name(ca, autojump_clock):
    failed = []

    async def fail(channel):
        with pytest.raises(trxds.RpcError, match="does not prove the authority 'yours'") as caught:
            await ask(channel, authority="yours")
        failed.append(caught.value.status.code)

    tls = server_tls(ca, "shop")
    async with (
        Mesh.run(1, tls=tls, max_concurrent_streams=1) as mesh,
        mesh.channel(credentials=trusting(ca)) as channel,
        trio.open_nursery() as nursery,
    ):
        await ask(channel)
        async with bidi(channel).open() as call:
            for _ in range(900):  # a stack has no room for so many ends within each other
                nursery.start_soon(fail, channel)
            await trio.sleep(1)
            assert not failed
            call.done_sending()
            assert await call.receive() is None
            await trio.sleep(1)
    assert failed == [trxds.StatusCode.UNAVAILABLE] * 900


def by_cluster(mesh, ca, tmp_path, fallback=None):
    """A channel with the TLS of clusters, which checks the names that the control plane lists (A29)."""
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    provider = {"plugin_name": "file_watcher", "config": {"ca_certificate_file": str(tmp_path / "ca.pem")}}
    bootstrap = xds.bootstrap(PLANE, features=TRUSTED) | {"certificate_providers": {"mesh": provider}}
    return mesh.channel(bootstrap=bootstrap, credentials=trxds.xds_credentials(fallback or trxds.insecure()))


async def test_xds_credentials_inhibit_the_check(ca, autojump_clock, tmp_path):
    async with rewritten(tls=server_tls(ca, "other.example")) as mesh:
        cluster = xds.cluster("cart")
        roots = {"ca_certificate_provider_instance": {"instance_name": "mesh"}}
        cluster["transport_socket"] = {
            "name": "tls",
            "typed_config": {"@type": TLS, "common_tls_context": {"validation_context": roots}},
        }
        mesh.plane.put(cluster)
        async with by_cluster(mesh, ca, tmp_path) as channel:
            assert await ask(channel) == "host-1.example"


async def test_fallback_credentials_check_as_they_do_alone(ca, autojump_clock, tmp_path):
    async with rewritten(tls=server_tls(ca, "shop")) as mesh, by_cluster(mesh, ca, tmp_path, trusting(ca)) as channel:
        with pytest.raises(trxds.RpcError, match=r"does not prove the authority 'host-1\.example'"):
            await ask(channel)


async def test_a_context_that_checks_no_host_names_inhibits_the_check(ca, autojump_clock):
    context = ssl.create_default_context()
    ca.configure_trust(context)
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    async with rewritten(tls=server_tls(ca, "other")) as mesh:
        assert await seen(mesh, credentials=trxds.tls(context)) == "host-1.example"


async def test_a_name_that_no_header_can_carry_fails_the_rpc(autojump_clock):
    async with rewritten(names="host 1\nx-admin: yes") as mesh, channel_to(mesh) as channel:
        with pytest.raises(trxds.RpcError, match="is no host or host:port") as caught:
            await ask(channel)
    assert caught.value.status.code is trxds.StatusCode.INTERNAL
