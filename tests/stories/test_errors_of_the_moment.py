"""While a new configuration is incomplete, an error names the resources that are missing now.

Each story breaks something, restores a part of it, and checks all places that show the error: a call, a call that waits
for ready until its deadline, `channel.explain`, the state stream behind `trxds ruok`, `lb` and `xds`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import trio
from support.mesh import METHOD, PLANE, Mesh, ask

import trxds
from trxds import RpcError, StatusCode
from trxds.admin import state_stream
from trxds.cli.running.pages import RUOK
from trxds.core.clock import Clock
from trxds.testing import resources as xds

pytestmark = pytest.mark.slow

MIDNIGHT = 1_795_219_200  # 2026-11-21T00:00:00Z, which is 0 on Trio's clock
NOTHING_YET = "the server has sent nothing of it yet"


@pytest.fixture(autouse=True)
def _midnight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clock, "now", classmethod(lambda cls: cls(float(MIDNIGHT))))


def awaited(kind: str, name: str, server: str = PLANE) -> str:
    return f'{kind} resource "{name}" (server {server}, node "trxds-test"): REQUESTED since 2026-11-21T00:02:00Z: '


@dataclass(frozen=True)
class Story:
    """`broken` happens a minute after midnight, `returns` two minutes after it; then calls fail with `message`."""

    broken: Callable[[Mesh], Any]
    returns: Callable[[Mesh], Any]
    message: str

    @property
    def problem(self) -> str:
        """The message without the cluster that it begins with."""
        return re.sub(r"^cluster cart( \(\w+\))?: ", "", self.message)


def listener_deleted(mesh: Mesh) -> None:
    mesh.plane.remove("LDS", "shop")


def listener_deleted_and_routes_changed(mesh: Mesh) -> None:
    listener_deleted(mesh)
    routed_to_another(mesh)


def cluster_deleted(mesh: Mesh) -> None:
    mesh.plane.remove("CDS", "cart")


def no_virtual_host(mesh: Mesh) -> None:
    mesh.plane.put(xds.routes("routes", xds.route("cart"), domains=["elsewhere"]))


def no_endpoints(mesh: Mesh) -> None:
    mesh.endpoints("cart")


def routes_refused(mesh: Mesh) -> None:
    mesh.plane.put(xds.routes("refused", xds.route("cart"), domains=[]))
    mesh.plane.put(xds.listener("shop", routes="refused"))


def unknown_authority(mesh: Mesh) -> None:
    mesh.plane.put(xds.listener("shop", routes="xdstp://fleet/envoy.config.route.v3.RouteConfiguration/r"))


def leaf_deleted(mesh: Mesh) -> None:
    mesh.plane.put(xds.aggregate("cart", "empty", "gone"))
    mesh.cluster("empty")
    mesh.endpoints("empty")


def without(kind: str, *then: Callable[[Mesh], Any]) -> Callable[[Mesh], Any]:
    """Put these resources, and none of that kind."""

    def returns(mesh: Mesh) -> None:
        mesh.plane.withhold(kind)
        for step in then:
            step(mesh)

    return returns


def listens(mesh: Mesh) -> None:
    mesh.listen(sessions=False)


def listens_for_others(mesh: Mesh) -> None:
    mesh.plane.put(xds.listener("shop", routes="others"))


def routed_to_another(mesh: Mesh) -> None:
    mesh.route("new")


def cart(mesh: Mesh) -> None:
    mesh.cluster("cart")


def of_another_service(mesh: Mesh) -> None:
    mesh.plane.put(xds.cluster("cart") | {"eds_cluster_config": {"service_name": "s", "eds_config": {"ads": {}}}})


def leaf(mesh: Mesh) -> None:
    mesh.cluster("gone")


STORIES = {
    "listener back, other routes awaited": Story(
        listener_deleted, without("RDS", listens_for_others), awaited("RDS", "others") + NOTHING_YET
    ),
    "listener back, another cluster awaited": Story(
        listener_deleted_and_routes_changed, without("CDS", listens), awaited("CDS", "new") + NOTHING_YET
    ),
    "listener back, other endpoints awaited": Story(
        listener_deleted, without("EDS", of_another_service, listens), awaited("EDS", "s") + NOTHING_YET
    ),
    "other routes, and they are awaited": Story(
        no_virtual_host, without("RDS", listens_for_others), awaited("RDS", "others") + NOTHING_YET
    ),
    "routes refused, others awaited": Story(
        routes_refused, without("RDS", listens_for_others), awaited("RDS", "others") + NOTHING_YET
    ),
    "routes of an unknown authority, others awaited": Story(
        unknown_authority, without("RDS", listens_for_others), awaited("RDS", "others") + NOTHING_YET
    ),
    "cluster back, endpoints awaited": Story(
        cluster_deleted, without("EDS", cart), "cluster cart: " + awaited("EDS", "cart") + NOTHING_YET
    ),
    "endpoints of another service awaited": Story(
        no_endpoints, without("EDS", of_another_service), "cluster cart: " + awaited("EDS", "s") + NOTHING_YET
    ),
    "an aggregate's leaf back, its endpoints awaited": Story(
        leaf_deleted, without("EDS", leaf), "cluster cart (gone): " + awaited("EDS", "gone") + NOTHING_YET
    ),
}


def leaf_deleted_and_host_lost(mesh: Mesh) -> None:
    mesh.plane.put(xds.aggregate("cart", "full", "gone"))
    mesh.cluster("full")
    mesh.endpoints("full", mesh.hosts)
    for host in mesh.hosts:
        mesh.network.refuse(host)
        mesh.network.cut(host)


@asynccontextmanager
async def playing(story: Story) -> AsyncIterator[tuple[Mesh, trxds.Channel]]:
    async with Mesh.run(1, sessions=False) as mesh, mesh.channel() as channel:
        await ask(channel)
        await trio.sleep_until(60)
        story.broken(mesh)
        await trio.sleep_until(119)
        with pytest.raises(RpcError):
            await ask(channel)
        await trio.sleep_until(120)
        story.returns(mesh)
        await trio.sleep(1)
        yield mesh, channel


told = pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)


@told
async def test_a_calls_error_names_the_present_problem(story: Story, autojump_clock: trio.testing.MockClock) -> None:
    async with playing(story) as (_, channel):
        with pytest.raises(RpcError) as caught:
            await ask(channel)
        assert caught.value.status.code is StatusCode.UNAVAILABLE
        assert caught.value.status.message == story.message


@told
async def test_the_deadline_error_of_a_wait_for_ready_call_names_the_present_problem(
    story: Story, autojump_clock: trio.testing.MockClock
) -> None:
    async with playing(Story(story.broken, lambda mesh: None, "")) as (mesh, channel):

        async def wait() -> None:
            with pytest.raises(RpcError) as caught:
                await ask(channel, wait_for_ready=True, timeout=10)
            assert caught.value.status.code is StatusCode.DEADLINE_EXCEEDED
            assert caught.value.status.message.endswith(f": {story.message.replace('00:02:00', '00:02:02')}")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep_until(122)
            story.returns(mesh)


@told
async def test_an_explanation_names_the_present_problem(story: Story, autojump_clock: trio.testing.MockClock) -> None:
    async with playing(story) as (_, channel):
        told = str(await channel.explain(METHOD))
        assert told.count(story.problem) > 0
        assert "DOES_NOT_EXIST" not in told and "deleted" not in told


@told
async def test_admin_pages_name_the_present_problem(story: Story, autojump_clock: trio.testing.MockClock) -> None:
    async with playing(story) as (_, channel), state_stream.open(channel) as states:
        state = await states.snapshot()
        said = "\n".join(RUOK.lines(state, 0.0))
        assert story.problem in said
        for word in ("DOES_NOT_EXIST", "deleted", "NACKED"):
            assert word not in said
        errors = [row["error"] for row in state["channels"].values()] + [row["says"] for row in state["nodes"].values()]
        assert any(story.problem in error for error in errors)
        kind, name = story.problem.split(" resource ")[0], story.message.split('"')[1]
        assert state["resources"][f"shop/{kind}/{name}"]["state"] == "requested"


async def test_the_error_of_an_aggregate_does_not_name_a_leaf_that_has_returned(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with playing(Story(leaf_deleted_and_host_lost, without("EDS", leaf), "")) as (_, channel):
        with pytest.raises(RpcError) as caught:
            await ask(channel)
        assert "cannot connect" in caught.value.status.message
        assert "left out" not in caught.value.status.message


async def test_the_error_of_a_cluster_does_not_wait_for_other_clusters(autojump_clock: trio.testing.MockClock) -> None:
    def back_and_routed_beside_one_that_does_not_come(mesh: Mesh) -> None:
        cart(mesh)
        mesh.route(xds.route("new", prefix="/new"), xds.route("cart"))

    async with playing(Story(cluster_deleted, back_and_routed_beside_one_that_does_not_come, "")) as (mesh, channel):
        assert await ask(channel) == mesh.hosts[0]


async def test_no_step_of_a_recovery_shows_an_earlier_error(autojump_clock: trio.testing.MockClock) -> None:
    async with playing(Story(listener_deleted, lambda mesh: None, "")) as (mesh, channel):
        mesh.plane.put(xds.routes("others", xds.route("cart")))
        listens_for_others(mesh)
        seen = []
        for _ in range(200):
            problem = channel._state.data_plane.problem
            seen.append("" if problem is None else problem.message)
            await trio.lowlevel.checkpoint()
        since = next(at for at, text in enumerate(seen) if "deleted" not in text)
        assert seen[since:] and not any("deleted" in text for text in seen[since:])
        assert any('"others"' in text and "REQUESTED" in text for text in seen)
        assert seen[-1] == ""
