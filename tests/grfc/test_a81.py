"""The picked endpoint's host name becomes `:authority`, if a trusted server's route asks for it (A81)."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
import trio
import trio.testing
from msgspec import structs
from support.mesh import METHOD, ask, method
from support.method_config import bind_with, for_all
from support.rewritten_authority import TRUSTED, channel_to, endpoint, entry, list_endpoints, rewritten, seen

import trxds
from trxds.lb.endpoint_set import Endpoints, Hostnames
from trxds.policies import Complete, EndpointList, PolicyType
from trxds.resolver.routes import BoundRoutes
from trxds.resources.endpoint import Endpoint
from trxds.session_affinity.cookie import encode
from trxds.testing import resources as xds

GUARD = "GRPC_EXPERIMENTAL_XDS_AUTHORITY_REWRITE"


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


async def test_of_two_endpoints_the_one_with_a_hostname_has_it_as_its_authority(autojump_clock):
    async with rewritten(hosts=2) as mesh, channel_to(mesh) as channel:
        first, second = mesh.hosts
        list_endpoints(mesh, endpoint(first, "host-1.example"), endpoint(second, ""))
        await trio.testing.wait_all_tasks_blocked()
        assert {await ask(channel) for _ in range(10)} == {"host-1.example", "shop"}


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
