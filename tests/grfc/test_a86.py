"""A control plane names the HTTP CONNECT proxy of each endpoint (A86)."""

from __future__ import annotations

import pytest
import trio
from support.connect_proxy import ConnectProxy
from support.endpoint_proxies import proxied_by, tls, wrapper
from support.mesh import PLANE, Mesh, ask, method
from support.secured import server_tls

import trxds
from trxds.lb.endpoint_set import Endpoints
from trxds.lb.proxies import Proxies
from trxds.resources.endpoint import Endpoint, Locality, LocalityId
from trxds.session_affinity.cookie import encode
from trxds.testing import resources as xds

GUARD = "GRPC_EXPERIMENTAL_XDS_HTTP_CONNECT"


@pytest.fixture(autouse=True)
def guard(monkeypatch):
    monkeypatch.setenv(GUARD, "true")


def assign(mesh, locality, *metadata, cluster="cart"):
    """Give the endpoints of a locality their metadata, in their order."""
    for endpoint, its in zip(locality["lb_endpoints"], metadata, strict=False):
        endpoint["metadata"] = its
    mesh.endpoints(cluster, locality)


def connected(mesh, inner=None):
    """Let the cluster's hosts have proxies."""
    mesh.plane.put({**xds.cluster("cart"), "transport_socket": wrapper(inner)})


# -- what is done


async def test_a_host_is_reached_through_its_proxy_which_is_asked_for_its_address(autojump_clock):
    async with Mesh.run(1) as mesh, ConnectProxy.run(mesh.network) as proxy:
        connected(mesh)
        [host] = mesh.hosts
        assign(mesh, xds.locality(host), proxied_by(proxy.address))
        async with mesh.channel() as channel:
            assert await ask(channel) == host
    assert proxy.asked == [host]


async def test_the_endpoints_proxy_goes_before_its_localitys(autojump_clock):
    async with (
        Mesh.run(2) as mesh,
        ConnectProxy.run(mesh.network) as own,
        ConnectProxy.run(mesh.network, "10.9.0.2:3128") as common,
    ):
        connected(mesh)
        one, other = mesh.hosts
        assign(mesh, xds.locality(one, other) | {"metadata": proxied_by(common.address)}, proxied_by(own.address))
        async with mesh.channel() as channel:
            await trio.sleep(1)
            assert {await ask(channel) for _ in range(4)} == {one, other}
    assert (own.asked, common.asked) == ([one], [other])


async def test_a_host_without_a_proxy_is_reached_directly(autojump_clock):
    async with Mesh.run(2) as mesh, ConnectProxy.run(mesh.network) as proxy:
        connected(mesh)
        one, other = mesh.hosts
        assign(mesh, xds.locality(one, other), proxied_by(proxy.address))
        async with mesh.channel() as channel:
            await trio.sleep(1)
            assert {await ask(channel) for _ in range(4)} == {one, other}
    assert proxy.asked == [one]


async def test_a_proxy_is_not_used_by_a_cluster_without_the_wrapper(autojump_clock):
    async with Mesh.run(1) as mesh:
        [host] = mesh.hosts
        assign(mesh, xds.locality(host), proxied_by("10.9.0.1:3128"))
        async with mesh.channel() as channel:
            assert await ask(channel) == host
        assert mesh.network.attempts["10.9.0.1:3128"] == 0


async def test_without_the_guard_a_cluster_with_the_wrapper_is_nacked(autojump_clock, monkeypatch):
    monkeypatch.setenv(GUARD, "false")
    async with Mesh.run(1) as mesh:
        connected(mesh)
        async with mesh.channel() as channel:
            with pytest.raises(trxds.RpcError, match="unrecognized transport socket type"):
                await ask(channel)


async def test_a_control_plane_that_is_not_trusted_may_name_proxies(autojump_clock):
    async with Mesh.run(1) as mesh, ConnectProxy.run(mesh.network) as proxy:
        connected(mesh)
        assign(mesh, xds.locality(*mesh.hosts), proxied_by(proxy.address))
        async with mesh.channel(bootstrap=xds.bootstrap(PLANE, features=())) as channel:
            await ask(channel)
    assert proxy.asked == mesh.hosts


async def test_a_call_names_the_proxy_that_refuses(autojump_clock):
    async with (
        Mesh.run(1) as mesh,
        ConnectProxy.run(mesh.network, answer=b"HTTP/1.1 403 Forbidden\r\n\r\n") as proxy,
    ):
        connected(mesh)
        assign(mesh, xds.locality(*mesh.hosts), proxied_by(proxy.address))
        async with mesh.channel() as channel:
            with pytest.raises(
                trxds.RpcError, match=r"proxy 10\.9\.0\.1:3128 answers CONNECT 10\.0\.1\.1:50051 with 403"
            ):
                await ask(channel)


# -- TLS is inside the tunnel


async def test_the_channels_tls_goes_through_the_tunnel_and_the_clusters_is_ignored(ca, autojump_clock):
    async with Mesh.run(1, tls=server_tls(ca, "shop")) as mesh, ConnectProxy.run(mesh.network) as proxy:
        connected(mesh, {**tls(), "common_tls_context": {"validation_context": {"system_root_certs": {}}}})
        assign(mesh, xds.locality(*mesh.hosts), proxied_by(proxy.address))
        async with mesh.channel(credentials=trxds.tls(roots=ca.cert_pem.bytes())) as channel:
            assert await ask(channel) in mesh.hosts
    assert proxy.asked == mesh.hosts


@pytest.mark.parametrize("inner", [True, False], ids=["cluster", "fallback"])
async def test_with_xds_credentials_the_clusters_tls_or_else_the_fallback_is_used(ca, autojump_clock, tmp_path, inner):
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    provider = {"plugin_name": "file_watcher", "config": {"ca_certificate_file": str(tmp_path / "ca.pem")}}
    credentials = trxds.xds_credentials(trxds.insecure())
    async with (
        Mesh.run(1, tls=server_tls(ca, "any") if inner else None) as mesh,
        ConnectProxy.run(mesh.network) as proxy,
    ):
        connected(mesh, tls() if inner else None)
        assign(mesh, xds.locality(*mesh.hosts), proxied_by(proxy.address))
        bootstrap = {**mesh.bootstrap, "certificate_providers": {"mesh": provider}}
        async with mesh.channel(bootstrap=bootstrap, credentials=credentials) as channel:
            assert await ask(channel) in mesh.hosts
    assert proxy.asked == mesh.hosts


# -- updates


async def test_a_new_proxy_of_one_host_makes_one_new_connection_and_fails_no_call(autojump_clock):
    async with (
        Mesh.run(2) as mesh,
        ConnectProxy.run(mesh.network) as old,
        ConnectProxy.run(mesh.network, "10.9.0.2:3128") as new,
    ):
        connected(mesh)
        one, other = mesh.hosts
        assign(mesh, xds.locality(one, other), *[proxied_by(old.address)] * 2)
        async with mesh.channel() as channel:
            assert {await ask(channel) for _ in range(4)} == {one, other}
            assign(mesh, xds.locality(one, other), proxied_by(new.address), proxied_by(old.address))
            for _ in range(20):
                await ask(channel)
                await trio.sleep(0.1)
            assert {await ask(channel) for _ in range(4)} == {one, other}
    assert (sorted(old.asked), new.asked) == ([one, other], [one])


def proxies_of(**hosts):
    return Endpoints(localities=(Locality(LocalityId(), 1, tuple(Endpoint((a,), proxy=p) for a, p in hosts.items())),))


def test_only_another_proxy_of_a_host_that_stays_replaces_the_policies():
    proxies = Proxies().updated(proxies_of(a="p", b=""))
    assert proxies.updated(proxies_of(a="p", b="", c="q")) is proxies
    assert proxies.updated(proxies_of(c="q")) is proxies
    assert (proxies.of("c"), proxies.of("a")) == ("q", "")
    for other in ("", "p"):
        assert proxies.updated(proxies_of(c=other)) is not proxies
        assert proxies.of("c") == "q"  # the policies before go on as they were


async def test_a_host_that_comes_has_its_proxy_and_the_others_keep_their_connections(autojump_clock):
    async with Mesh.run(2) as mesh, ConnectProxy.run(mesh.network) as proxy:
        connected(mesh)
        one, other = mesh.hosts
        common = {"metadata": proxied_by(proxy.address)}
        assign(mesh, xds.locality(one) | common)
        async with mesh.channel() as channel:
            assert await ask(channel) == one
            assign(mesh, xds.locality(one, other) | common)
            await trio.sleep(1)
            assert {await ask(channel) for _ in range(4)} == {one, other}
    assert proxy.asked == [one, other]


async def test_a_cluster_that_begins_to_have_proxies_keeps_the_connections_of_hosts_without_one(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        [host] = mesh.hosts
        assert await ask(channel) == host
        connected(mesh)
        await trio.sleep(1)
        assert await ask(channel) == host
        assert mesh.network.attempts[host] == 1


async def test_a_session_reaches_its_draining_host_through_the_proxy(autojump_clock):
    async with Mesh.run(2) as mesh, ConnectProxy.run(mesh.network) as proxy:
        mesh.plane.put({**xds.cluster("cart", override_statuses=["DRAINING"]), "transport_socket": wrapper()})
        one, other = mesh.hosts
        assign(mesh, xds.locality(one, other, health={one: "DRAINING"}), proxied_by(proxy.address))
        async with mesh.channel() as channel:
            cookie = [("cookie", f"session={encode(one, 'cart')}")]
            assert await method(channel)(b"", metadata=cookie) == one.encode()
    assert proxy.asked == [one]


# -- what people see


async def test_an_explanation_says_how_many_hosts_have_proxies(autojump_clock):
    async with Mesh.run(2) as mesh, ConnectProxy.run(mesh.network) as proxy:
        connected(mesh)
        assign(mesh, xds.locality(*mesh.hosts), proxied_by(proxy.address))
        async with mesh.channel() as channel:
            await ask(channel)
            told = await channel.explain("/shop.Cart/Add")
    assert "1 of 2 addresses through the proxy 10.9.0.1:3128" in str([str(step) for step in told.steps])
