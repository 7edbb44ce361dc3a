"""The picked endpoint's host name becomes `:authority`, if a trusted server's route asks for it (A81)."""

from __future__ import annotations

import logging
import ssl
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trio
import trio.testing
import trustme
from msgspec import structs
from support.mesh import METHOD, PLANE, Mesh, ask, bidi, method
from support.method_config import bind_with, for_all
from support.pki import NO_TEXT, Authority, bundle, bundle_map
from support.verified_chain import show_verified_chains

import trxds
from trxds.lb.endpoint_set import Endpoints, Hostnames
from trxds.policies import Complete, EndpointList, PolicyType
from trxds.resolver.routes import BoundRoutes
from trxds.resources.endpoint import Endpoint
from trxds.session_affinity.cookie import encode
from trxds.testing import resources as xds
from trxds.transport import authority_check

GUARD = "GRPC_EXPERIMENTAL_XDS_AUTHORITY_REWRITE"
TRUSTED = ("xds_v3", "trusted_xds_server")
TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"


def entry(rewrite=True, cluster="cart", **action):
    """A route to the cluster."""
    route = xds.route(cluster)
    route["route"] |= {"auto_host_rewrite": rewrite, **action}
    return route


def endpoint(address, hostname, health="HEALTHY"):
    locality = xds.locality(address, health={address: health})
    locality["lb_endpoints"][0]["endpoint"]["hostname"] = hostname
    return locality["lb_endpoints"][0]


def list_endpoints(mesh, *endpoints, cluster="cart"):
    locality = xds.locality()
    locality["lb_endpoints"] = list(endpoints)
    mesh.endpoints(cluster, locality)


@asynccontextmanager
async def rewritten(hosts=1, names="host-{}.example", route=None, **knobs):
    """A mesh whose hosts answer with the `:authority` that they see; their names are by number."""
    async with Mesh.run(hosts, **knobs) as mesh:
        mesh.seen = []

        async def tell(call):
            mesh.seen.append(call.authority)
            async for _ in call:
                await call.send(call.authority.encode())

        for server in mesh.servers.values():
            server.handlers[METHOD] = tell
        mesh.route(route or entry())
        list_endpoints(mesh, *(endpoint(each, names.format(number)) for number, each in enumerate(mesh.hosts, 1)))
        yield mesh


def channel_to(mesh, features=TRUSTED, **more):
    return mesh.channel(bootstrap=xds.bootstrap(PLANE, features=features), **more)


async def seen(mesh, features=TRUSTED, **more):
    """The `:authority` that the host sees."""
    async with channel_to(mesh, features, **more) as channel:
        return await ask(channel)


# -- the switches


async def test_the_hostname_of_the_endpoint_becomes_the_authority(autojump_clock):
    async with rewritten() as mesh:
        assert await seen(mesh) == "host-1.example"


@pytest.mark.parametrize(
    ("features", "value"), [(("xds_v3",), ""), (TRUSTED, "false")], ids=["not trusted", "switched off"]
)
async def test_without_a_trusted_server_or_switched_off_the_authority_is_the_channels(
    autojump_clock, monkeypatch, features, value
):
    monkeypatch.setenv(GUARD, value)
    async with rewritten() as mesh:
        assert await seen(mesh, features) == "shop"


async def test_a_route_without_auto_host_rewrite_keeps_the_authority(autojump_clock):
    async with rewritten(route=entry(rewrite=False)) as mesh:
        assert await seen(mesh) == "shop"


async def test_an_endpoint_without_a_hostname_keeps_the_authority(autojump_clock):
    async with rewritten(names="") as mesh:
        assert await seen(mesh) == "shop"


async def test_the_rewritten_authority_goes_before_that_of_the_channel(autojump_clock):
    async with rewritten() as mesh:
        assert await seen(mesh, authority="depot") == "host-1.example"


async def test_the_callers_authority_goes_before_the_rewritten_one(autojump_clock):
    async with rewritten() as mesh, channel_to(mesh) as channel:
        assert await ask(channel, authority="mine.example:8443") == "mine.example:8443"
        async with method(channel).open(b"", authority="mine.example") as call:
            assert await call.receive() == b"mine.example"
        assert await ask(channel) == "host-1.example"


class _Naming:
    """A policy of a program's own, which gives each RPC an authority."""

    def __init__(self, channel_control):
        self._endpoints = EndpointList(lambda ready: self)

    def decide(self, inputs, now):
        self._hosts = inputs.hosts
        return self._endpoints.decide(inputs, now)

    def pick(self, call):
        return Complete(next(iter(self._hosts.values())), authority="policy.example", metadata=[("tier", "gold")])


@pytest.mark.parametrize(("name", "seen"), [("", "policy.example"), ("host.example", "host.example")])
async def test_the_hosts_name_goes_before_that_of_a_custom_policy(autojump_clock, name, seen):
    async with rewritten(names=name) as mesh:
        mesh.plane.put(xds.cluster("cart") | xds.custom_policy("my.Policy"))
        async with channel_to(mesh, policies={"my.Policy": PolicyType(_Naming)}) as channel:
            assert await ask(channel) == seen


@pytest.mark.parametrize("name", ["", "host.example"])
async def test_the_metadata_of_a_custom_policy_stays_beside_the_hosts_name(autojump_clock, name):
    tiers = []

    async def note(call):
        tiers.append(call.metadata.first("tier"))
        await call.send(b"")

    async with rewritten(names=name) as mesh:
        mesh.plane.put(xds.cluster("cart") | xds.custom_policy("my.Policy"))
        mesh.servers[mesh.hosts[0]].handlers[METHOD] = note
        async with channel_to(mesh, policies={"my.Policy": PolicyType(_Naming)}) as channel:
            await ask(channel)
    assert tiers == ["gold"]


async def test_an_interceptor_may_choose_the_authority(autojump_clock):
    def choose(details, next):
        assert details.authority == "asked.example"
        return next(replace(details, authority="chosen.example"))

    async with rewritten() as mesh, channel_to(mesh, interceptors=[choose]) as channel:
        assert await ask(channel, authority="asked.example") == "chosen.example"


async def test_a_callers_authority_that_is_none_is_an_error_at_once(autojump_clock):
    async with rewritten() as mesh, channel_to(mesh) as channel:
        with pytest.raises(ValueError, match="authority 'a/b' is no host or host:port"):
            await ask(channel, authority="a/b")


# -- where the name comes from


async def test_all_hosts_of_logical_dns_have_the_name_that_is_resolved_with_its_port(autojump_clock):
    async with rewritten() as mesh:
        host, _, port = mesh.hosts[0].partition(":")
        mesh.network.names["cart.example"] = [host]
        mesh.plane.put(xds.logical_dns("by-name", "cart.example", int(port)))
        mesh.route(entry(cluster="by-name"))
        assert await seen(mesh) == f"cart.example:{port}"


async def test_the_host_of_an_aggregates_cluster_has_its_name(autojump_clock):
    async with rewritten() as mesh:
        mesh.plane.put(xds.aggregate("all", "cart"))
        mesh.route(entry(cluster="all"))
        assert await seen(mesh) == "host-1.example"


def test_every_address_of_an_endpoint_has_its_name():
    names = Hostnames(Endpoints((Endpoint(("10.0.0.1:1", "10.0.0.2:1"), hostname="a"), Endpoint(("10.0.0.3:1",)))))
    assert [names.of(f"10.0.0.{each}:1") for each in (1, 2, 3, 4)] == ["a", "a", "", ""]


async def test_a_new_hostname_holds_for_the_next_rpc_over_the_same_connection(autojump_clock):
    async with rewritten() as mesh, channel_to(mesh) as channel:
        [host] = mesh.hosts
        assert await ask(channel) == "host-1.example"
        list_endpoints(mesh, endpoint(host, "moved.example"))
        await trio.testing.wait_all_tasks_blocked()
        assert await ask(channel) == "moved.example"
        list_endpoints(mesh, endpoint(host, ""))
        await trio.testing.wait_all_tasks_blocked()
        assert await ask(channel) == "shop"
        assert mesh.network.attempts[host] == 1


# -- each attempt's own host


async def test_a_retry_on_another_host_has_that_hosts_name(autojump_clock):
    asked = []

    async def fail_once(call):
        async for _ in call:
            asked.append(call.authority)
            if len(asked) == 1:
                call.abort(trxds.StatusCode.UNAVAILABLE, "not now")
            await call.send(b"")

    route = entry(retry_policy={"retry_on": "unavailable", "num_retries": 1})
    async with rewritten(2, route=route) as mesh, channel_to(mesh) as channel:
        for server in mesh.servers.values():
            server.handlers[METHOD] = fail_once
        await method(channel)(b"")
        assert sorted(asked) == ["host-1.example", "host-2.example"]


async def test_each_hedge_has_the_name_of_its_own_host(autojump_clock, monkeypatch):
    policy = for_all(hedgingPolicy={"maxAttempts": 2, "hedgingDelay": "1s"})

    def bind(routes, route, number):
        return structs.replace(bind_with(policy)(routes, route, number), auto_host_rewrite=True)

    async def slowly(call):
        mesh.seen.append(call.authority)
        await trio.sleep(1.5)
        await call.send(b"")

    monkeypatch.setattr(BoundRoutes, "_bind", bind)
    async with rewritten(2) as mesh, channel_to(mesh) as channel:
        for server in mesh.servers.values():
            server.handlers[METHOD] = slowly
        await method(channel)(b"", timeout=10)
        assert sorted(mesh.seen) == ["host-1.example", "host-2.example"]


async def test_a_sessions_host_decides_the_authority_also_while_it_is_draining(autojump_clock):
    async with rewritten(2) as mesh:
        mesh.cluster("cart", override_statuses=["HEALTHY", "DRAINING"])
        one, other = mesh.hosts
        list_endpoints(mesh, endpoint(one, "one.example", "DRAINING"), endpoint(other, "other.example"))
        async with channel_to(mesh) as channel:
            cookie = [("cookie", f"session={encode(one, 'cart')}")]
            assert {await ask(channel, metadata=cookie) for _ in range(4)} == {"one.example"}
            assert {await ask(channel) for _ in range(4)} == {"other.example"}


# -- what the host has to prove


@pytest.fixture(scope="module")
def ca():
    return trustme.CA()


def served_by(ca, *names):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(*names).configure_cert(context)
    context.set_alpn_protocols(["h2"])
    return context


def trusting(ca, **more):
    return trxds.tls(roots=ca.cert_pem.bytes(), **more)


@pytest.mark.parametrize("name", ["host-1.example", "HOST-1.example:443", "a.w.example", "10.0.1.1:50051", "[::1]:1"])
async def test_a_host_that_proves_the_rewritten_name_gets_the_rpc(ca, autojump_clock, name):
    tls = served_by(ca, "shop", "host-1.example", "*.w.example", "10.0.1.1", "::1")
    async with rewritten(names=name, tls=tls) as mesh:
        assert await seen(mesh, credentials=trusting(ca)) == name


@pytest.mark.parametrize("name", ["host-2.example", "a.b.w.example", "10.0.1.2", "shop.example", "cart.mesh"])
async def test_an_rpc_fails_if_its_host_does_not_prove_the_rewritten_name(ca, autojump_clock, name):
    async with rewritten(names=name, tls=served_by(ca, "shop", "*.w.example", "*.mesh", "10.0.1.1")) as mesh:
        async with channel_to(mesh, credentials=trusting(ca)) as channel:
            with pytest.raises(trxds.RpcError) as caught:
                await ask(channel, wait_for_ready=True)
        assert caught.value.status.code is trxds.StatusCode.UNAVAILABLE
        text = f"10.0.1.1:50051: its certificate does not prove the authority '{name}', only shop, *.w.example, *.mesh"
        assert text in caught.value.status.message
        assert not mesh.seen


async def test_the_handshake_is_for_the_channels_name_whatever_is_rewritten(ca, autojump_clock):
    tls, asked = served_by(ca, "host-1.example"), []
    tls.sni_callback = lambda _socket, name, _context: asked.append(name)
    async with rewritten(tls=tls) as mesh, channel_to(mesh, credentials=trusting(ca)) as channel:
        with pytest.raises(trxds.RpcError, match="as 'shop': certificate verify failed: Hostname mismatch"):
            await ask(channel)
    assert set(asked) == {"shop"}


async def test_a_retry_may_reach_a_host_that_proves_its_name(ca, autojump_clock):
    route = entry(retry_policy={"retry_on": "unavailable", "num_retries": 1})
    tls = served_by(ca, "shop", "host-2.example")
    async with rewritten(2, route=route, tls=tls) as mesh, channel_to(mesh, credentials=trusting(ca)) as channel:
        assert {await ask(channel) for _ in range(6)} == {"host-2.example"}


async def test_a_callers_authority_has_to_be_proved_too(ca, autojump_clock):
    tls = served_by(ca, "shop", "mine.example")
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
    async with rewritten(tls=served_by(ca, "front")) as mesh, channel_to(mesh, credentials=credentials) as channel:
        assert await ask(channel, authority="shop") == "shop"


async def test_the_check_of_a_name_is_made_once_for_a_connection(ca, autojump_clock, monkeypatch):
    checked = []

    def prove(kind, name, host):
        checked.append(host)
        return True

    monkeypatch.setattr(authority_check, "_proves", prove)
    async with rewritten(tls=served_by(ca, "shop")) as mesh, channel_to(mesh, credentials=trusting(ca)) as channel:
        assert {await ask(channel) for _ in range(5)} == {"host-1.example"}
    assert checked == ["host-1.example"]


async def test_many_calls_that_wait_for_a_stream_fail_when_their_host_does_not_prove_the_name(ca, autojump_clock):
    failed = []

    async def fail(channel):
        with pytest.raises(trxds.RpcError, match="does not prove the authority 'yours'") as caught:
            await ask(channel, authority="yours")
        failed.append(caught.value.status.code)

    tls = served_by(ca, "shop")
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
    async with rewritten(tls=served_by(ca, "other.example")) as mesh:
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
    async with rewritten(tls=served_by(ca, "shop")) as mesh, by_cluster(mesh, ca, tmp_path, trusting(ca)) as channel:
        with pytest.raises(trxds.RpcError, match=r"does not prove the authority 'host-1\.example'"):
            await ask(channel)


async def test_a_context_that_checks_no_host_names_inhibits_the_check(ca, autojump_clock):
    context = ssl.create_default_context()
    ca.configure_trust(context)
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    async with rewritten(tls=served_by(ca, "other")) as mesh:
        assert await seen(mesh, credentials=trxds.tls(context)) == "host-1.example"


async def test_a_name_that_no_header_can_carry_fails_the_rpc(autojump_clock):
    async with rewritten(names="host 1\nx-admin: yes") as mesh, channel_to(mesh) as channel:
        with pytest.raises(trxds.RpcError, match="is no host or host:port") as caught:
            await ask(channel)
    assert caught.value.status.code is trxds.StatusCode.INTERNAL


# -- what people see


async def test_an_explanation_shows_the_rewritten_authority(autojump_clock):
    async with rewritten() as mesh, channel_to(mesh) as channel:
        await ask(channel)
        told = await channel.explain(METHOD)
        assert str(told.outcome) == "goes to 10.0.1.1:50051 (READY), with the authority host-1.example"


async def test_the_log_of_decisions_has_the_authority(autojump_clock, caplog):
    caplog.set_level(logging.DEBUG, "trxds.lb")
    async with rewritten() as mesh, channel_to(mesh) as channel:
        await ask(channel)
        await ask(channel, authority="mine.example")
    said = [each.getMessage().partition(" goes to ")[2] for each in caplog.records if " goes to " in each.getMessage()]
    goes = "host 10.0.1.1:50051 of cluster cart, with the authority"
    assert said == [f"{goes} host-1.example", f"{goes} mine.example"]
