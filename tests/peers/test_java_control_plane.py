"""What java-control-plane alone does: versions for each type, and errors of its own, with what ends them.

In the state of the world a watch that cannot be answered is lost (its issue 219), and resources count as known that the
client has left. In delta every client gets all listeners and clusters, asked for or not, and not again when it asks; a
resource that is removed has no subscribers any more; and what a client says that it has is not read (its issue 463).
"""

from __future__ import annotations

import pytest
import trio
from support import java_peers
from support.peer_plane_world import AT_ONCE, CLUSTER, REFUSED, SETTLED, Mode, World, endpoints, world

from trxds.testing import resources as xds
from trxds.testing.resources import Resource

pytestmark = pytest.mark.usefixtures("java_programs")

VERSION_PER_TYPE = ("-version-per-type",)
SOTW = Mode(java_peers.plane, "sotw")
DELTA = Mode(java_peers.plane, "delta")
MODES = {
    "sotw": SOTW,
    "sotw-version-per-type": SOTW._replace(flags=VERSION_PER_TYPE),
    "delta": DELTA,
    "delta-version-per-type": DELTA._replace(flags=VERSION_PER_TYPE),
}
ENDPOINTS = xds.endpoints("cart")["@type"]


def modes(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("mode", [MODES[name] for name in names], ids=names)


def another_cluster(name: str, host: str) -> dict[str, Resource]:
    return {f"CDS {name}": xds.cluster(name), f"EDS {name}": xds.endpoints(name, xds.locality(host))}


async def stays_on(shop: World, host: str) -> None:
    """Hold that no change reaches the client, which would have reached it by now."""
    await trio.sleep(SETTLED)
    assert await shop.host() == host


@modes("sotw-version-per-type", "delta-version-per-type")
async def test_a_change_of_endpoints_alone_is_sent_alone(mode: Mode) -> None:
    async with world(mode) as shop:
        before = len(shop.plane.requests())
        await shop.serve(EDS=endpoints(shop.hosts[1]))
        await shop.come_to(shop.hosts[1])
        await shop.plane.wait_for_request(ENDPOINTS, refused=False)
        assert {request["type_url"] for request in shop.plane.requests()[before:]} == {ENDPOINTS}


@pytest.mark.long
@modes(*MODES)
@pytest.mark.parametrize("versions", ["the-same", "others"])
async def test_a_restarted_control_plane_is_followed_whatever_its_versions(mode: Mode, versions: str) -> None:
    prefix = () if versions == "the-same" else ("-version-prefix", "other")
    async with world(mode) as shop, shop.restarted(*prefix):
        await shop.serve(EDS=endpoints(shop.hosts[1]))
        with trio.move_on_after(AT_ONCE) as too_early:
            await shop.come_to(shop.hosts[1])
        if too_early.cancelled_caught:
            # The client asked before there was a snapshot, whose version is the one that it has: such a watch is lost.
            await shop.serve(EDS=endpoints(shop.hosts[1]))
            await shop.come_to(shop.hosts[1])
        await shop.serve()
        await shop.come_to(shop.hosts[0])


@modes("sotw", "sotw-version-per-type")
async def test_after_a_removal_it_sends_none_of_the_type_until_other_names_are_asked_for(mode: Mode) -> None:
    async with world(mode) as shop:
        one, other = shop.hosts
        await shop.serve(EDS=None)
        await stays_on(shop, one)
        shop.resources["EDS"] = endpoints(other)
        await shop.serve()
        await stays_on(shop, one)
        shop.resources["RDS"] = xds.routes("routes", xds.route({"cart": 1, "next": 1}))
        await shop.serve(**another_cluster("next", other))
        await shop.come_to(other)
        assert {await shop.host() for _ in range(20)} == {other}


@modes("sotw-version-per-type")
async def test_a_cluster_that_is_used_again_is_not_sent_before_a_cluster_changes(mode: Mode) -> None:
    async with world(mode) as shop:
        one, other = shop.hosts
        shop.resources |= another_cluster("next", other)
        await shop.serve(RDS=xds.routes("routes", xds.route("next")))
        await shop.come_to(other)
        await shop.serve()
        await stays_on(shop, other)
        await shop.serve(CDS=xds.cluster("cart", idle_timeout=30))
        await shop.come_to(one)


@modes("delta", "delta-version-per-type")
async def test_a_cluster_that_comes_with_its_route_is_not_sent_before_it_changes(mode: Mode) -> None:
    async with world(mode) as shop:
        one, other = shop.hosts
        shop.resources |= {"RDS": xds.routes("routes", xds.route("next")), **another_cluster("next", other)}
        await shop.serve()
        await stays_on(shop, one)
        await shop.serve(**{"CDS next": xds.cluster("next", idle_timeout=30)})
        await shop.come_to(other)


@modes("delta")
async def test_a_cluster_for_envoy_that_nobody_asked_for_is_refused_and_the_others_are_in_force(mode: Mode) -> None:
    async with world(mode) as shop:
        shop.resources["CDS envoy"] = REFUSED | {"name": "envoy"}
        await shop.serve(EDS=endpoints(shop.hosts[1]))
        await shop.plane.wait_for_request(CLUSTER, refused=True)
        await shop.come_to(shop.hosts[1])


@pytest.mark.long
@modes("delta", "delta-version-per-type")
@pytest.mark.parametrize("kind", ["RDS", "EDS"])
async def test_routes_and_endpoints_that_come_back_are_not_sent_on_the_same_stream(mode: Mode, kind: str) -> None:
    async with world(mode) as shop:
        await shop.serve(**{kind: None})
        while await shop.fails() is None:
            pass
        await shop.serve()
        await trio.sleep(SETTLED)
        assert await shop.fails() is not None
        async with shop.restarted():
            await shop.serve()
            await shop.come_to(shop.hosts[0])


@pytest.mark.long
@modes("delta", "delta-version-per-type")
async def test_a_listener_that_went_while_it_was_away_is_not_told(mode: Mode) -> None:
    async with world(mode) as shop, shop.restarted():
        await shop.serve(LDS=None)
        await shop.plane.wait_for_request(ENDPOINTS, refused=False)
        await stays_on(shop, shop.hosts[0])
