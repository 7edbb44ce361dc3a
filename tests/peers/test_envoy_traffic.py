"""RPCs through an Envoy that our ManagementServer configures, and session cookies from Envoy to us and back."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import pytest
import trio
from support.envoy import FEATURES, SPEAKS_HTTP2, on_a_socket, running

import trxds
from trxds.testing import Call, ManagementServer, serve
from trxds.testing import resources as xds
from trxds.testing.management import Request

pytestmark = pytest.mark.usefixtures("envoy_peer")

PATIENCE = 60  # seconds for a test, which takes less than one
CALLS = 8
NAME = "session"
METHOD = "/shop.Cart/Add"
KINDS = ("CDS", "EDS", "LDS", "RDS")
STATUSES = ["HEALTHY", "DRAINING"]


@dataclass
class Answer:
    host: str
    cookie: str | None  # what is to be said from now on, with its quotes if it has any


class Way:
    """To the hosts, over a channel of ours."""

    def __init__(self, channel: trxds.Channel) -> None:
        self._method = channel.method(METHOD)

    async def ask(self, cookie: str | None = None) -> Answer:
        metadata = [("cookie", f"{NAME}={cookie}")] if cookie is not None else []
        async with self._method.open(b"", metadata=metadata, wait_for_ready=True) as call:
            reply = await call.receive()
            assert reply is not None and call.initial_metadata is not None
            given = call.initial_metadata.first("set-cookie")
        return Answer(reply.decode(), str(given).partition("=")[2].partition(";")[0] if given else None)

    async def hosts(self, cookie: str | None = None) -> set[str]:
        """Who answers several in a row."""
        return {(await self.ask(cookie)).host for _ in range(CALLS)}

    async def come_to(self, hosts: set[str], cookie: str | None = None) -> None:
        """Wait until those answer and no others: an ACK is a little earlier than the threads that serve."""
        while await self.hosts(cookie) != hosts:
            pass


@dataclass
class Sight:
    """Two hosts; `ours` leads there as our client does it, `envoys` through Envoy."""

    plane: ManagementServer  # Envoy's
    hosts: list[str]
    ours: Way
    envoys: Way


@asynccontextmanager
async def both(protocol: str = "GRPC") -> AsyncIterator[Sight]:
    theirs, ours = ManagementServer(), ManagementServer()
    with trio.fail_after(PATIENCE):
        async with (
            host() as one,
            host() as other,
            theirs.serve() as their_ads,
            ours.serve() as our_ads,
            running(their_ads, protocol) as envoy,
        ):
            listener = xds.listener("shop", routes="routes", filters=[xds.stateful_session(NAME, ttl=60)])
            below = xds.routes("routes", xds.route("cart")), cluster(), xds.endpoints("cart", xds.locality(one, other))
            theirs.put(on_a_socket(listener), *below)
            await theirs.wait_for_ack("RDS")
            ours.put(listener, *below)
            ours.put(xds.listener("gate", routes="gate"), xds.routes("gate", xds.route("gate")), xds.cluster("gate"))
            ours.put(xds.endpoints("gate", xds.locality(await envoy.address("shop"))))
            bootstrap = xds.bootstrap(our_ads)
            async with (
                trxds.open_channel("xds:///shop", bootstrap=bootstrap) as direct,
                trxds.open_channel("xds:///gate", bootstrap=bootstrap) as through,
            ):
                yield Sight(theirs, [one, other], Way(direct), Way(through))


@asynccontextmanager
async def host() -> AsyncIterator[str]:
    """One that says its own address, which is the value."""
    async with serve() as server:

        async def say_address(call: Call) -> None:
            await call.send(server.address.encode())

        server.fallback = say_address
        yield server.address


def cluster(**more: str) -> dict[str, object]:
    return xds.cluster("cart", override_statuses=STATUSES) | SPEAKS_HTTP2 | more


# -- traffic, as the control plane changes it


@pytest.mark.parametrize("protocol", FEATURES)
async def test_envoy_spreads_calls_over_the_hosts_and_follows_them(protocol: str) -> None:
    async with both(protocol) as sight:
        await sight.envoys.come_to(set(sight.hosts))
        sight.plane.put(xds.endpoints("cart", xds.locality(sight.hosts[1])))
        await sight.envoys.come_to({sight.hosts[1]})


@pytest.mark.parametrize("protocol", FEATURES)
async def test_a_cluster_that_changes_is_in_force_at_once(protocol: str) -> None:
    async with both(protocol) as sight:
        await sight.envoys.ask()
        with trio.fail_after(10):  # Envoy would give up waiting for endpoints after 15
            sight.plane.put(cluster(lb_policy="LEAST_REQUEST"))
            await sight.plane.wait_for_ack("CDS")
        assert await sight.envoys.hosts() <= set(sight.hosts)


@pytest.mark.parametrize("protocol", FEATURES)
async def test_a_new_stream_takes_up_where_the_last_one_ended(protocol: str) -> None:
    async with both(protocol) as sight:
        await sight.envoys.ask()
        sight.plane.drop_streams()
        sight.plane.put(xds.endpoints("cart", xds.locality(sight.hosts[0])))
        await sight.envoys.come_to({sight.hosts[0]})
        for kind in KINDS:
            await sight.plane.wait_for(partial(asked_again, kind))
        brought = {response.kind for response in sight.plane.responses if response.stream == 2}
        assert brought == {"EDS"} if protocol == "DELTA_GRPC" else brought >= {"CDS", "EDS"}
        assert not [request for request in sight.plane.requests if request.error]


def asked_again(kind: str, request: Request) -> bool:
    return request.kind == kind and request.stream == 2


# -- sessions


async def test_a_session_of_envoys_stays_and_ours_leads_to_the_same_host() -> None:
    async with both() as sight:
        for _ in sight.hosts:  # round robin: one session on each
            first = await sight.envoys.ask()
            assert first.cookie is not None and first.cookie.startswith('"')
            assert await sight.envoys.hosts(first.cookie) == {first.host}
            assert (await sight.envoys.ask(first.cookie)).cookie is None
            assert await sight.ours.hosts(first.cookie) == {first.host}


async def test_a_session_of_ours_goes_on_as_one_of_envoys_only_from_its_next_cookie() -> None:
    """Envoy takes "ip:port;cluster" for the name of a host, and there is none of that name
    (docs/reference/sessions.md).
    """
    async with both() as sight:
        first = await sight.ours.ask()
        assert await sight.ours.hosts(first.cookie) == {first.host}
        assert await sight.envoys.hosts(first.cookie) == set(sight.hosts)
        renewed = await sight.envoys.ask(first.cookie)
        assert renewed.cookie is not None
        assert await sight.envoys.hosts(renewed.cookie) == await sight.ours.hosts(renewed.cookie) == {renewed.host}


async def test_base64_of_the_bare_address_is_honoured_by_both() -> None:
    async with both() as sight:
        for address in sight.hosts:
            cookie = base64.b64encode(address.encode()).decode()
            assert await sight.envoys.hosts(cookie) == await sight.ours.hosts(cookie) == {address}


async def test_a_session_without_a_control_plane_and_one_of_envoys_lead_to_each_others_hosts() -> None:
    async with (
        both() as sight,
        trxds.open_channel(
            f"ipv4:{','.join(sight.hosts)}",
            affinity=trxds.CookieAffinity(NAME),
            service_config={"loadBalancingConfig": [{"round_robin": {}}]},
        ) as channel,
    ):
        plain = Way(channel)
        await plain.come_to(set(sight.hosts))
        for _ in sight.hosts:  # round robin: one session on each
            ours, envoys = await plain.ask(), await sight.envoys.ask()
            assert await sight.envoys.hosts(ours.cookie) == await plain.hosts(ours.cookie) == {ours.host}
            assert await plain.hosts(envoys.cookie) == await sight.envoys.hosts(envoys.cookie) == {envoys.host}
            assert ours.cookie != envoys.cookie and (await plain.ask(ours.cookie)).cookie is None


@pytest.mark.parametrize("protocol", FEATURES)
async def test_a_draining_host_keeps_its_session_and_gets_nobody_elses(protocol: str) -> None:
    async with both(protocol) as sight:
        pinned = await sight.envoys.ask()
        sight.plane.put(xds.endpoints("cart", xds.locality(*sight.hosts, health={pinned.host: "DRAINING"})))
        await sight.envoys.come_to(set(sight.hosts) - {pinned.host})
        assert await sight.envoys.hosts(pinned.cookie) == {pinned.host}
