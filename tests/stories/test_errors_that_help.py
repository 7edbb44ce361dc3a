"""An RPC that fails because of xDS names resource, type, server, node, state and since when.

Each story provokes one way to fail, a minute after midnight; its row says how the message begins,
and what it says then. The texts are whole: two clients with the same trouble say the same, so failures can be counted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import trio
from support.mesh import METHOD, PLANE, Mesh, ask, bidi, method

import trxds
from trxds import RpcError, StatusCode
from trxds.core.clock import Clock
from trxds.testing import resources as xds

MIDNIGHT = 1_795_219_200  # 2026-11-21T00:00:00Z, which is 0 on Trio's clock
A88 = {"GRPC_EXPERIMENTAL_XDS_DATA_ERROR_HANDLING": "true"}
OTHER = "10.0.0.2:18000"
UNAVAILABLE = StatusCode.UNAVAILABLE


@pytest.fixture(autouse=True)
def _midnight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clock, "now", classmethod(lambda cls: cls(float(MIDNIGHT))))


def at(seconds: int) -> str:
    return f"2026-11-21T00:{seconds // 60:02}:{seconds % 60:02}Z"


def stands(kind: str, name: str, state: str, since: int, where: str = f"server {PLANE}") -> str:
    return f'{kind} resource "{name}" ({where}, node "trxds-test"): {state} since {at(since)}: '


@dataclass(frozen=True)
class Story:
    """`begin` happens before the channel is opened, 60 s after midnight, and `go_on` 60 s later; then comes the call.

    `message` is the whole text of the failure, except that of a resource that is refused the errors follow. Where gRPC
    fixes it the `note` says the rest.
    """

    message: str
    begin: Callable[[Mesh], Any] = lambda mesh: None
    go_on: Callable[[Mesh], Any] = lambda mesh: None
    code: StatusCode = UNAVAILABLE
    features: tuple[str, ...] = ()
    environ: tuple[tuple[str, str], ...] = ()
    servers: tuple[str, ...] = (PLANE,)
    target: str = "xds:///shop"
    timeout: float | None = None
    at_once: bool = False  # the call does not wait for `go_on`
    note: str = ""


def gone(kind: str, name: str) -> Callable[[Mesh], Any]:
    return lambda mesh: mesh.plane.remove(kind, name)


def bad_listener(mesh: Mesh) -> None:
    listener = xds.listener("shop", routes="routes")
    listener["api_listener"]["api_listener"]["http_filters"] = []
    mesh.plane.put(listener)


def plain_listener(mesh: Mesh) -> None:
    listener = xds.listener("shop", routes="routes")
    del listener["api_listener"]
    listener["address"] = {"socket_address": {"address": "10.0.0.9", "port_value": 80}}
    mesh.plane.put(listener)


def domains(*names: str) -> Callable[[Mesh], Any]:
    return lambda mesh: mesh.plane.put(xds.routes("routes", xds.route("cart"), domains=[*names]))


def inline_routes(mesh: Mesh) -> None:
    listener = xds.listener("shop", routes="routes")
    manager = listener["api_listener"]["api_listener"]
    del manager["rds"]
    routes = xds.routes("inline", xds.route("cart", prefix="/other"))
    del routes["@type"]
    manager["route_config"] = routes
    mesh.plane.put(listener)


def redirect(mesh: Mesh) -> None:
    mesh.plane.put(xds.routes("routes", {"match": {"prefix": ""}, "redirect": {"host_redirect": "elsewhere"}}))


def bad_cluster(mesh: Mesh) -> None:
    mesh.plane.put({**xds.cluster("cart"), "lb_policy": "MAGLEV"})


def bad_endpoints(mesh: Mesh) -> None:
    mesh.plane.put(xds.endpoints("cart", xds.locality(mesh.hosts[0], priority=1)))


def health(state: str) -> Callable[[Mesh], Any]:
    return lambda mesh: mesh.endpoints("cart", xds.locality(mesh.hosts[0], health={mesh.hosts[0]: state}))


def weightless(mesh: Mesh) -> None:
    locality = xds.locality(mesh.hosts[0])
    del locality["load_balancing_weight"]
    mesh.endpoints("cart", locality)


def dropping(mesh: Mesh) -> None:
    share = {"category": "load", "drop_percentage": {"numerator": 100, "denominator": "HUNDRED"}}
    mesh.plane.put({**xds.endpoints("cart", xds.locality(mesh.hosts[0])), "policy": {"drop_overloads": [share]}})


def max_requests(limit: int) -> Callable[[Mesh], Any]:
    breakers = {"thresholds": [{"max_requests": limit}]}
    return lambda mesh: mesh.plane.put({**xds.cluster("cart"), "circuit_breakers": breakers})


def faulty(mesh: Mesh) -> None:
    fault = {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault",
        "abort": {"grpc_status": 7, "percentage": {"numerator": 100}},
    }
    mesh.plane.put(xds.listener("shop", routes="routes", filters=[{"name": "fault", "typed_config": fault}]))


def leafless(mesh: Mesh) -> None:
    mesh.plane.put(xds.aggregate("cart", "x", "y"))


def one_leaf(mesh: Mesh) -> None:
    mesh.plane.put(xds.aggregate("cart", "x", "y"), xds.cluster("x"), xds.endpoints("x"))


def too_deep(mesh: Mesh) -> None:
    mesh.plane.put(*(xds.aggregate(f"c{n}", f"c{n + 1}") for n in range(20)), xds.aggregate("cart", "c0"))


def named(mesh: Mesh) -> None:
    mesh.plane.put(xds.logical_dns("cart", "cart.example", 80))


def name_of_another_authority(mesh: Mesh) -> None:
    mesh.listen()
    mesh.plane.put(xds.listener("shop", routes="xdstp://fleet/envoy.config.route.v3.RouteConfiguration/r"))


def refuse(*servers: str) -> Callable[[Mesh], Any]:
    def act(mesh: Mesh) -> None:
        for server in servers:
            mesh.network.refuse(server)
            mesh.network.cut(server)

    return act


def silent(kind: str) -> Callable[[Mesh], Any]:
    return lambda mesh: mesh.plane.withhold(kind)


def fails(kind: str, name: str) -> Callable[[Mesh], Any]:
    return lambda mesh: mesh.plane.fail(kind, name, 7, "not for you")


NO_PLACE = "it has no locality with a load_balancing_weight; add one with endpoints, or give a locality its weight"
NO_HOST = "none of its endpoints takes new requests; they are UNHEALTHY or DRAINING, or it lists none"
ASKED = "does not exist, asked 15 s before"
DELETED = "does not exist, deleted by the server"
BAD = "invalid resource: INVALID_ARGUMENT: errors validating"
REFUSED = "Connection refused; check that it runs, and server_uri in the bootstrap"
LATE = tuple(A88.items())
NO_ROUTE = "No matching route found in xDS route config"
NO_ROUTE_IN = f'no route matches {METHOD} in virtual host "%s"; add one there, or one with the prefix "" for the rest'

STORIES = {
    # nothing came in time
    "no listener": Story(stands("LDS", "shop", "DOES_NOT_EXIST", 75) + ASKED, gone("LDS", "shop")),
    "no routes": Story(stands("RDS", "routes", "DOES_NOT_EXIST", 75) + ASKED, gone("RDS", "routes")),
    "no cluster": Story(stands("CDS", "cart", "DOES_NOT_EXIST", 75) + ASKED, gone("CDS", "cart")),
    "no endpoints": Story("cluster cart: " + stands("EDS", "cart", "DOES_NOT_EXIST", 75) + ASKED, gone("EDS", "cart")),
    "late, and no more than that (A88)": Story(
        stands("LDS", "shop", "TIMEOUT", 90) + "no answer, asked 30 s before",
        silent("LDS"),
        features=("resource_timer_is_transient_error",),
        environ=LATE,
    ),
    # deleted
    "listener deleted": Story(stands("LDS", "shop", "DOES_NOT_EXIST", 120) + DELETED, go_on=gone("LDS", "shop")),
    "cluster deleted": Story(stands("CDS", "cart", "DOES_NOT_EXIST", 120) + DELETED, go_on=gone("CDS", "cart")),
    # refused
    "bad listener": Story(stands("LDS", "shop", "NACKED", 60) + BAD, bad_listener),
    "bad routes": Story(stands("RDS", "routes", "NACKED", 60) + BAD, domains()),
    "bad cluster": Story(stands("CDS", "cart", "NACKED", 60) + BAD, bad_cluster),
    "bad endpoints": Story("cluster cart: " + stands("EDS", "cart", "NACKED", 60) + BAD, bad_endpoints),
    "bad update, and fail_on_data_errors (A88)": Story(
        stands("CDS", "cart", "NACKED", 120) + BAD,
        go_on=bad_cluster,
        features=("fail_on_data_errors",),
        environ=LATE,
    ),
    # the server says why not
    "server's error": Story(
        stands("RDS", "routes", "RECEIVED_ERROR", 60) + "the server reports PERMISSION_DENIED: not for you",
        fails("RDS", "routes"),
    ),
    # nobody to ask
    "server down": Story(
        stands("LDS", "shop", "REQUESTED", 60) + f"cannot reach the xDS server since {at(60)}: {REFUSED}",
        refuse(PLANE),
    ),
    "all servers down": Story(
        stands("LDS", "shop", "REQUESTED", 60, f"servers {PLANE}, {OTHER}")
        + f"cannot reach any xDS server since {at(60)}: {PLANE}: {REFUSED}; {OTHER}: {REFUSED}",
        refuse(PLANE, OTHER),
        servers=(PLANE, OTHER),
    ),
    "unknown authority": Story(
        stands("RDS", "xdstp://fleet/envoy.config.route.v3.RouteConfiguration/r", "REQUESTED", 60, "no server")
        + 'authority "fleet" is not in the bootstrap\'s authorities; add it there',
        name_of_another_authority,
    ),
    # what came is of no use
    "no API listener": Story(
        stands("LDS", "shop", "ACKED", 60) + "it is no API listener; a client needs one with `api_listener` set",
        plain_listener,
    ),
    "no virtual host": Story(
        stands("RDS", "routes", "ACKED", 120)
        + 'it has no virtual host for "shop"; add that domain to one of its virtual hosts',
        go_on=domains("elsewhere"),
    ),
    "no route": Story(
        NO_ROUTE,
        go_on=lambda mesh: mesh.route(xds.route("cart", prefix="/other")),
        note=stands("RDS", "routes", "ACKED", 120) + NO_ROUTE_IN % "routes",
    ),
    "no route of a listener's own": Story(
        NO_ROUTE, inline_routes, note=stands("LDS", "shop", "ACKED", 60) + NO_ROUTE_IN % "inline"
    ),
    "route that gRPC does not know": Story(
        "Matching route has inappropriate action",
        redirect,
        note=stands("RDS", "routes", "ACKED", 60)
        + f'the route that matches {METHOD} in virtual host "routes" has an action unknown to gRPC',
    ),
    "empty cluster": Story(
        "cluster cart: " + stands("EDS", "cart", "ACKED", 120) + NO_PLACE,
        go_on=lambda mesh: mesh.endpoints("cart"),
    ),
    "all draining": Story(
        "cluster cart: " + stands("EDS", "cart", "ACKED", 120) + NO_HOST,
        go_on=health("DRAINING"),
    ),
    "all unhealthy": Story("cluster cart: " + stands("EDS", "cart", "ACKED", 120) + NO_HOST, go_on=health("UNHEALTHY")),
    "weight forgotten": Story("cluster cart: " + stands("EDS", "cart", "ACKED", 120) + NO_PLACE, go_on=weightless),
    "aggregate without leaves": Story(
        stands("CDS", "cart", "ACKED", 60)
        + "its aggregate cluster graph has no leaf clusters "
        + f"({stands('CDS', 'x', 'DOES_NOT_EXIST', 75)}{ASKED}; {stands('CDS', 'y', 'DOES_NOT_EXIST', 75)}{ASKED})",
        leafless,
    ),
    "aggregate with one empty leaf": Story(
        f"cluster cart (x): {stands('EDS', 'x', 'ACKED', 60)}{NO_PLACE}; "
        + f"left out: {stands('CDS', 'y', 'DOES_NOT_EXIST', 75)}{ASKED}",
        one_leaf,
    ),
    "aggregates too deep": Story(
        stands("CDS", "cart", "ACKED", 60) + "it is nested more than 15 aggregate clusters deep", too_deep
    ),
    "unknown DNS name": Story(
        "cluster cart: "
        + stands("CDS", "cart", "ACKED", 60)
        + f'DNS name "cart.example:80" cannot be resolved since {at(60)}: Name or service not known',
        named,
    ),
    # what came says that RPCs shall fail
    "drops": Story(
        "EDS-configured drop: load", go_on=dropping, note=stands("EDS", "cart", "ACKED", 120).removesuffix(": ")
    ),
    "circuit breaker": Story(
        "circuit breaker drop",
        go_on=max_requests(0),
        note=stands("CDS", "cart", "ACKED", 120) + "max_requests is 0, and so many RPCs are in flight",
    ),
    "injected fault": Story(
        "Fault injected",
        faulty,
        code=StatusCode.PERMISSION_DENIED,
        note=f"on a route of {stands('RDS', 'routes', 'ACKED', 60)}".removesuffix(": "),
    ),
    # the caller's own patience
    "no answer before the deadline": Story(
        f"{METHOD}: not done after 5 s, waiting for a configuration from the control plane: "
        + stands("LDS", "shop", "REQUESTED", 60)
        + "the server has sent nothing of it yet",
        silent("LDS"),
        code=StatusCode.DEADLINE_EXCEEDED,
        timeout=5,
        at_once=True,
    ),
    "no stream before the deadline": Story(
        f"{METHOD}: not done after 5 s, waiting for a configuration from the control plane: "
        + stands("LDS", "shop", "REQUESTED", 60)
        + "there is no stream to the server yet",
        lambda mesh: mesh.network.black_hole(PLANE),
        code=StatusCode.DEADLINE_EXCEEDED,
        timeout=5,
        at_once=True,
    ),
}


@asynccontextmanager
async def playing(story: Story) -> AsyncIterator[tuple[Mesh, trxds.Channel]]:
    async with Mesh.run(1, sessions=False) as mesh:
        await trio.sleep_until(60)
        story.begin(mesh)
        bootstrap = xds.bootstrap(*story.servers, features=("xds_v3", *story.features))
        async with mesh.channel(story.target, bootstrap=bootstrap) as channel:
            if not story.at_once:
                await trio.sleep_until(120)
                story.go_on(mesh)
                await trio.sleep(1)
            yield mesh, channel


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
async def test_the_message_of_an_error_names_resource_server_node_state_and_time(
    story: Story, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in story.environ:
        monkeypatch.setenv(name, value)
    async with playing(story) as (_, channel):
        with pytest.raises(RpcError) as caught:
            await ask(channel, timeout=story.timeout)
        status = caught.value.status
        assert status.code is story.code
        message = status.message.partition("errors validating ")
        assert message[0] + message[1].strip() == story.message
        assert status.note == story.note
        assert story.note in str(caught.value)


async def test_a_lost_control_plane_is_named_in_errors_about_pending_resources(
    autojump_clock: trio.testing.MockClock,
) -> None:
    def ask_for_a_cluster_that_does_not_come(mesh: Mesh) -> None:
        mesh.plane.withhold("CDS")
        mesh.route(xds.route("new", prefix="/new"), xds.route("cart"))

    async with playing(Story("", go_on=ask_for_a_cluster_that_does_not_come)) as (mesh, channel):
        refuse(PLANE)(mesh)
        await trio.sleep(5)
        with pytest.raises(RpcError) as caught:
            await method(channel, "/new/m")(b"")
        stream_ended = trio.current_time() - 5
        again = (at(int(stream_ended + delay)) for delay in (0.8, 1.2))
        assert caught.value.status.message in {
            stands("CDS", "new", "REQUESTED", 120) + f"cannot reach the xDS server since {since}: {REFUSED}"
            for since in again
        }
        assert await ask(channel) == mesh.hosts[0], "what is known serves on"


async def test_the_error_text_of_a_problem_stays_while_it_lasts(autojump_clock: trio.testing.MockClock) -> None:
    async with playing(Story("", refuse(PLANE))) as (_, channel):
        texts = set()
        for _ in range(20):
            with pytest.raises(RpcError) as caught:
                await ask(channel)
            texts.add(caught.value.status.message)
            await trio.sleep(100)
    assert len(texts) == 1


async def test_repeated_bad_updates_keep_the_time_of_the_first(autojump_clock: trio.testing.MockClock) -> None:
    async with playing(Story("", bad_cluster)) as (mesh, channel):
        mesh.plane.put({**xds.cluster("cart"), "lb_policy": "CLUSTER_PROVIDED"})
        await trio.sleep(60)
        with pytest.raises(RpcError, match=f"NACKED since {at(60)}"):
            await ask(channel)


async def test_the_error_of_a_full_circuit_breaker_names_the_cluster(autojump_clock: trio.testing.MockClock) -> None:
    async with playing(Story("", max_requests(1))) as (_, channel), bidi(channel).open() as call:
        await call.send(b"one")
        await call.receive()
        with pytest.raises(RpcError) as caught:
            await ask(channel)
        text = "max_requests is 1, and so many RPCs are in flight"
        assert caught.value.status.note == stands("CDS", "cart", "ACKED", 60) + text
