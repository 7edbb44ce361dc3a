"""A control plane names the HTTP CONNECT proxy of each endpoint (A86)."""

from __future__ import annotations

import ssl

import pytest
import trio
import trustme
from support.connect_proxy import ConnectProxy
from support.mesh import PLANE, Mesh, ask, method

import trxds
from trxds.lb.endpoint_set import Endpoints
from trxds.lb.proxies import Proxies
from trxds.resources import protos
from trxds.resources.endpoint import Endpoint, Locality, LocalityId
from trxds.resources.experiments import Experiments
from trxds.resources.types import CDS, EDS, ParseContext
from trxds.resources.upstream_tls import UpstreamTls
from trxds.session_affinity.cookie import encode
from trxds.testing import resources as xds

GUARD = "GRPC_EXPERIMENTAL_XDS_HTTP_CONNECT"
KEY = "envoy.http11_proxy_transport_socket.proxy_address"
ADDRESS = "envoy.config.core.v3.Address"
SOCKETS = "envoy.extensions.transport_sockets"
PROXY, TLS = f"{SOCKETS}.http_11_proxy.v3.Http11ProxyUpstreamTransport", f"{SOCKETS}.tls.v3.UpstreamTlsContext"
TYPE = "type.googleapis.com/"
HTTP_CONNECT = ParseContext(experiments=Experiments(http_connect=True), certificate_providers=frozenset({"mesh"}))


@pytest.fixture(autouse=True)
def guard(monkeypatch):
    monkeypatch.setenv(GUARD, "true")


def wrapper(inner=None):
    """The transport socket of a proxy, around another one or none."""
    around = {} if inner is None else {"transport_socket": {"name": "inner", "typed_config": inner}}
    return {"name": "proxy", "typed_config": {"@type": TYPE + PROXY, **around}}


def tls(roots="mesh"):
    validation = {"ca_certificate_provider_instance": {"instance_name": roots}}
    return {"@type": TYPE + TLS, "common_tls_context": {"validation_context": validation}}


def proxied_by(address, key=KEY, **fields):
    """The metadata that names the proxy."""
    host, _, port = address.rpartition(":")
    value = {"socket_address": {"address": host.strip("[]"), "port_value": int(port), **fields}}
    return {"typed_filter_metadata": {key: {"@type": TYPE + ADDRESS, **value}}}


def assign(mesh, locality, *metadata, cluster="cart"):
    """Give the endpoints of a locality their metadata, in their order."""
    for endpoint, its in zip(locality["lb_endpoints"], metadata, strict=False):
        endpoint["metadata"] = its
    mesh.endpoints(cluster, locality)


def connected(mesh, inner=None):
    """Let the cluster's hosts have proxies."""
    mesh.plane.put({**xds.cluster("cart"), "transport_socket": wrapper(inner)})


# -- what is read


def read(kind, resource, context=HTTP_CONNECT):
    return kind.read(protos.from_json({"@type": kind.type_url, **resource}), context)


def cluster_with(socket, context=HTTP_CONNECT):
    return read(CDS, {**xds.cluster("a"), "transport_socket": socket}, context)


def endpoints_with(metadata, of_locality=None, context=HTTP_CONNECT):
    locality = xds.locality("10.0.0.1:1")
    locality["lb_endpoints"][0]["metadata"] = metadata
    if of_locality is not None:
        locality["metadata"] = of_locality
    return read(EDS, xds.endpoints("a", locality), context)


AT = f"field:transport_socket.typed_config.value[{PROXY}]"


def test_the_wrapper_may_be_around_nothing():
    cluster = cluster_with(wrapper()).value
    assert (cluster.http_connect, cluster.tls) == (True, None)


def test_tls_inside_the_wrapper_is_read_as_outside():
    cluster = cluster_with(wrapper(tls())).value
    assert (cluster.http_connect, cluster.tls) == (True, UpstreamTls("mesh"))
    assert not cluster_with({"name": "tls", "typed_config": tls()}).value.http_connect


@pytest.mark.parametrize(
    ("inner", "error"),
    [
        (
            {"@type": f"{TYPE}{PROXY}"},
            f".transport_socket.typed_config.value[{PROXY}] error:unrecognized transport socket type",
        ),
        (
            tls("nobody"),
            f".transport_socket.typed_config.value[{TLS}].common_tls_context.validation_context"
            ".ca_certificate_provider_instance.instance_name"
            " error:unrecognized certificate provider instance name: nobody",
        ),
    ],
    ids=["another type", "bad TLS"],
)
def test_a_bad_socket_inside_the_wrapper_is_refused_with_its_place(inner, error):
    assert cluster_with(wrapper(inner)).errors == (AT + error,)


def test_a_wrapper_that_cannot_be_decoded_is_refused():
    packed = protos.from_json({"@type": CDS.type_url, **xds.cluster("a"), "transport_socket": wrapper()})
    cluster = protos.Cluster.FromString(packed.value)
    cluster.transport_socket.typed_config.value = b"\xff"
    assert CDS.read(protos.pack(cluster), HTTP_CONNECT).errors == (
        f"{AT} error:can't decode Http11ProxyUpstreamTransport",
    )


def test_without_the_guard_the_wrapper_is_refused_as_any_unknown_socket():
    errors = cluster_with(wrapper(), ParseContext()).errors
    assert errors == (f"{AT} error:unrecognized transport socket type",)


def test_the_proxy_is_read_from_the_metadata_of_endpoints_and_localities():
    [[locality]] = endpoints_with(proxied_by("10.9.0.1:3128"), proxied_by("[::9]:3128")).value.priorities
    assert (locality.endpoints[0].proxy, locality.proxy) == ("10.9.0.1:3128", "[::9]:3128")


METADATA_AT = f"metadata.typed_filter_metadata[{KEY}]"


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"@type": TYPE + ADDRESS}, ".socket_address error:field not present"),
        ({"@type": TYPE + ADDRESS, "pipe": {"path": "/p"}}, ".socket_address error:field not present"),
        (
            proxied_by("proxy.example:3128")["typed_filter_metadata"][KEY],
            ".socket_address error:Failed to parse address:proxy.example:3128",
        ),
        (
            {"@type": TYPE + ADDRESS, "socket_address": {"address": "10.0.0.1"}},
            ".socket_address.port_value error:field not present",
        ),
        (
            {"@type": TYPE + ADDRESS, "socket_address": {"address": "10.0.0.1", "named_port": "http"}},
            ".socket_address.port_value error:field not present",
        ),
        (
            proxied_by("10.0.0.1:70000")["typed_filter_metadata"][KEY],
            ".socket_address.port_value error:invalid port",
        ),
    ],
    ids=["empty", "a pipe", "a name", "no port", "a named port", "a large port"],
)
def test_a_bad_proxy_address_is_refused_with_its_place(value, error):
    metadata = {"typed_filter_metadata": {KEY: value}}
    context = ParseContext(experiments=Experiments(http_connect=True))
    for _ in range(2):  # the second time too: what is wrong is not remembered as good
        found = endpoints_with(metadata, context=context).errors
        assert found == (f"field:endpoints[0].lb_endpoints[0].{METADATA_AT}.value[{ADDRESS}]{error}",)
    assert endpoints_with({}, metadata).errors == (f"field:endpoints[0].{METADATA_AT}.value[{ADDRESS}]{error}",)


def test_metadata_without_a_type_is_refused_with_its_place():
    errors = endpoints_with({"typed_filter_metadata": {KEY: {}}}).errors
    assert errors == (f"field:endpoints[0].lb_endpoints[0].{METADATA_AT}.type_url error:field not present",)


def test_an_address_under_another_key_is_validated_and_no_proxy():
    [[locality]] = endpoints_with(proxied_by("10.9.0.1:3128", key="other")).value.priorities
    assert locality.endpoints[0].proxy == ""
    assert endpoints_with(proxied_by("name:1", key="other")).errors


@pytest.mark.parametrize(
    "metadata",
    [
        {"filter_metadata": {KEY: {"socket_address": {"address": "10.9.0.1", "port_value": 3128}}}},
        {"typed_filter_metadata": {KEY: {"@type": TYPE + TLS}}},
    ],
    ids=["a Struct", "another type"],
)
def test_a_value_of_another_type_is_ignored(metadata):
    [[locality]] = endpoints_with(metadata).value.priorities
    assert locality.endpoints[0].proxy == ""


def test_without_the_guard_typed_metadata_is_not_looked_at():
    parsed = endpoints_with(proxied_by("name:1"), proxied_by("name:1"), ParseContext())
    [[locality]] = parsed.value.priorities
    assert (locality.endpoints[0].proxy, locality.proxy) == ("", "")


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


@pytest.fixture(scope="module")
def ca():
    return trustme.CA()


def served_by(ca, *names):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(*names).configure_cert(context)
    context.set_alpn_protocols(["h2"])
    return context


async def test_the_channels_tls_goes_through_the_tunnel_and_the_clusters_is_ignored(ca, autojump_clock):
    async with Mesh.run(1, tls=served_by(ca, "shop")) as mesh, ConnectProxy.run(mesh.network) as proxy:
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
        Mesh.run(1, tls=served_by(ca, "any") if inner else None) as mesh,
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
