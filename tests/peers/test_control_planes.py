"""go-control-plane and java-control-plane as our control plane, in both ADS protocols and in all of their modes."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
import trio
from support import go_peers, java_peers
from support.peer_plane_world import (
    AT_ONCE,
    CLUSTER,
    REFUSED,
    SETTLED,
    Mode,
    World,
    endpoints,
    host,
    open_channel,
    world,
)
from support.random_snapshots import RandomSnapshot

from trxds import Metadata
from trxds.filters import FilterContext, FilterType, PickArgs
from trxds.testing import resources as xds
from trxds.testing.resources import Resource

KINDS = ("LDS", "RDS", "CDS", "EDS")
GAPS = (0, 1, 10)  # milliseconds between the two snapshots when a resource goes and comes back

MODES = {
    "go-sotw": Mode(go_peers.plane, "sotw"),
    "go-sotw-answers-each-type-alone": Mode(go_peers.plane, "sotw", ("-ads=false",)),
    "go-sotw-ordered": Mode(go_peers.plane, "sotw", ("-ordered",)),
    "go-delta": Mode(go_peers.plane, "delta"),
    "go-delta-answers-each-type-alone": Mode(go_peers.plane, "delta", ("-ads=false",)),
    "java-sotw": Mode(java_peers.plane, "sotw"),
    "java-sotw-version-per-type": Mode(java_peers.plane, "sotw", ("-version-per-type",)),
    "java-delta": Mode(java_peers.plane, "delta"),
    "java-delta-version-per-type": Mode(java_peers.plane, "delta", ("-version-per-type",)),
}


@pytest.fixture
def mode(request: pytest.FixtureRequest) -> Mode:
    """One of the modes. A fixture asks for the program: within the test pytest would lose the reason to skip it."""
    name: str = request.param
    request.getfixturevalue(f"{name.partition('-')[0]}_programs")
    return MODES[name]


def in_modes(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("mode", names, indirect=True)


in_every_mode = in_modes(*MODES)
in_both_protocols = in_modes("go-sotw", "go-delta", "java-sotw", "java-delta")
# In its ADS mode go-control-plane holds an answer until the client has asked for all endpoints of the snapshot.
where_a_part_is_served = in_modes(*(name for name in MODES if name.startswith("java") or name.endswith("alone")))
# What java-control-plane does not do is in test_java_control_plane.py. In the state of the world it is silent about a
# resource that is gone; in delta it forgets who wanted what. If each type has a version of its own, it does not send a
# cluster that is used again.
SILENT = {"java-sotw", "java-sotw-version-per-type"}
FORGETFUL = {"java-delta", "java-delta-version-per-type"}
where_removals_are_told = in_modes(*(name for name in MODES if name not in SILENT))
where_new_names_are_answered = in_modes(*(name for name in MODES if name not in FORGETFUL))
where_versions_are_of_the_snapshot = in_modes(*(name for name in MODES if not name.endswith("version-per-type")))
of_every_kind = pytest.mark.parametrize(
    ("mode", "kind"),
    [
        (name, kind)
        for name in MODES
        for kind in KINDS
        if not (name in SILENT or (name in FORGETFUL and kind in ("RDS", "EDS")))
    ],
    indirect=["mode"],
)


# -- what is served


@in_every_mode
async def test_calls_follow_the_endpoints(mode: Mode) -> None:
    async with world(mode) as shop:
        for address in [*reversed(shop.hosts), *reversed(shop.hosts)]:
            await shop.serve(EDS=endpoints(address))
            await shop.come_to(address)


@of_every_kind
async def test_a_resource_that_goes_and_comes_straight_back_is_served(mode: Mode, kind: str) -> None:
    async with world(mode) as shop:
        for gap in GAPS:
            await goes_and_comes_back(shop, kind, gap)


@pytest.mark.long
@of_every_kind
async def test_a_resource_that_goes_and_comes_back_is_served_at_every_gap(mode: Mode, kind: str) -> None:
    async with world(mode) as shop:
        for gap in range(11):
            await goes_and_comes_back(shop, kind, gap)


async def goes_and_comes_back(shop: World, kind: str, gap: int) -> None:
    await shop.serve(**{kind: None})
    await trio.sleep(gap / 1000)
    await shop.serve()
    await trio.sleep(SETTLED)
    with trio.fail_after(AT_ONCE):
        assert await shop.host() == shop.hosts[0], f"after {gap} ms without {kind}"


@where_removals_are_told
@pytest.mark.parametrize("kind", ("LDS", "CDS"))
async def test_a_resource_that_comes_back_after_calls_have_failed_is_served(mode: Mode, kind: str) -> None:
    async with world(mode) as shop:
        await shop.serve(**{kind: None})
        while await shop.fails() is None:
            pass
        await shop.serve()
        with trio.fail_after(AT_ONCE):
            assert await shop.host() == shop.hosts[0]


@in_every_mode
async def test_a_cluster_and_endpoints_that_come_after_their_route_are_used(mode: Mode) -> None:
    to_next = {"RDS": xds.routes("routes", xds.route("next")), "CDS next": xds.cluster("next")}
    async with world(mode) as shop:
        await shop.serve(RDS=to_next["RDS"])
        await trio.sleep(SETTLED)
        assert await shop.host() == shop.hosts[0]  # a route is not used before all that it needs is there (A74)
        await shop.serve(**to_next)
        await trio.sleep(SETTLED)
        with trio.fail_after(AT_ONCE):
            await shop.serve(**to_next, **{"EDS next": xds.endpoints("next", xds.locality(shop.hosts[1]))})
            await shop.come_to(shop.hosts[1])


@where_new_names_are_answered
async def test_a_route_and_its_new_cluster_come_in_one_snapshot(mode: Mode) -> None:
    async with world(mode) as shop:
        shop.resources |= {"CDS next": xds.cluster("next"), "RDS": xds.routes("routes", xds.route("next"))}
        await shop.serve(**{"EDS next": xds.endpoints("next", xds.locality(shop.hosts[1]))})
        with trio.fail_after(AT_ONCE):
            await shop.come_to(shop.hosts[1])


@where_versions_are_of_the_snapshot
async def test_calls_go_to_another_cluster_and_back(mode: Mode) -> None:
    async with world(mode) as shop:
        one, other = shop.hosts
        shop.resources |= {"CDS next": xds.cluster("next"), "EDS next": xds.endpoints("next", xds.locality(other))}
        await shop.serve()
        for name, address in [("next", other), ("cart", one), ("next", other)]:
            await shop.serve(RDS=xds.routes("routes", xds.route(name)))
            with trio.fail_after(AT_ONCE):
                await shop.come_to(address)
            # java-control-plane may lose a change that comes within milliseconds of a request (docs/peers.md).
            await trio.sleep(SETTLED)


@in_every_mode
async def test_the_last_of_many_snapshots_is_in_force(mode: Mode) -> None:
    async with world(mode) as shop, host(shop.seen) as last:
        for number in range(49):
            await shop.serve(CDS=xds.cluster("cart", idle_timeout=60 + number), EDS=endpoints(shop.hosts[number % 2]))
        await shop.serve(CDS=xds.cluster("cart", idle_timeout=30), EDS=endpoints(last))
        await shop.come_to(last)
        await trio.sleep(SETTLED)
        assert {await shop.host() for _ in range(5)} == {last}
        assert not shop.plane.nacks()


@pytest.mark.long
@in_modes("go-sotw-answers-each-type-alone", "go-delta-answers-each-type-alone")
@pytest.mark.parametrize("seed", range(3))
async def test_no_call_fails_while_random_snapshots_follow_each_other(mode: Mode, seed: int) -> None:
    random = Random(seed)
    async with world(mode) as shop, host(shop.seen) as third, trio.open_nursery() as nursery:
        snapshot = RandomSnapshot(random, [*shop.hosts, third])
        nursery.start_soon(call_all_the_time, shop)
        for _ in range(20):
            for _ in range(random.randint(1, 6)):
                snapshot.change()
                await shop.plane.serve(*snapshot.resources())
                await trio.sleep(random.choice((0, 0.001, 0.01, 0.05)))
            with trio.fail_after(2 * AT_ONCE):
                while {await shop.host() for _ in range(60)} != snapshot.reachable():
                    pass
        nursery.cancel_scope.cancel()
        assert not shop.plane.nacks()


async def call_all_the_time(shop: World) -> None:
    while True:
        assert await shop.fails() is None
        await trio.sleep(0.002)


@in_both_protocols
async def test_clients_of_other_nodes_follow_the_same_snapshot(mode: Mode) -> None:
    async with world(mode) as shop, open_channel(shop.plane, mode, node="another") as channel:
        another = replace(shop, channel=channel)
        for address in reversed(shop.hosts):
            await shop.serve(EDS=endpoints(address))
            await shop.come_to(address)
            await another.come_to(address)


@where_a_part_is_served
async def test_each_client_gets_the_routes_and_endpoints_that_it_asks_for(mode: Mode) -> None:
    async with world(mode) as shop, open_channel(shop.plane, mode, target="till") as channel:
        shop.resources |= {
            "LDS till": xds.listener("till", routes="till"),
            "RDS till": xds.routes("till", xds.route("till")),
            "CDS till": xds.cluster("till"),
        }
        till = replace(shop, channel=channel)
        one, other = shop.hosts
        await shop.serve(**{"EDS till": xds.endpoints("till", xds.locality(other))})
        await till.come_to(other)
        assert await shop.host() == one
        await shop.serve(EDS=endpoints(other), **{"EDS till": xds.endpoints("till", xds.locality(one))})
        await till.come_to(one)
        await shop.come_to(other)


@in_modes("go-sotw")
async def test_go_control_plane_in_ads_mode_forgets_a_client_that_wants_a_part_of_a_snapshot(mode: Mode) -> None:
    """Up to v0.14.0 it holds an answer back and sends none of that type later (its pull request 1356)."""
    async with world(mode) as shop:
        one, other = shop.hosts
        shop.resources["EDS"] = endpoints(other)
        await shop.serve(**{"EDS next": xds.endpoints("next", xds.locality(one))})
        await shop.serve()
        await trio.sleep(SETTLED)
        assert await shop.host() == one
        shop.resources |= {"CDS next": xds.cluster("next"), "EDS next": xds.endpoints("next", xds.locality(other))}
        await shop.serve(RDS=xds.routes("routes", xds.route({"cart": 1, "next": 1})))
        await shop.come_to(other)
        assert {await shop.host() for _ in range(20)} == {other}


@in_both_protocols
async def test_calls_go_on_without_the_control_plane_and_follow_it_when_it_is_back(mode: Mode) -> None:
    async with world(mode) as shop, shop.restarted():
        assert await shop.host() == shop.hosts[0]
        await shop.serve(EDS=endpoints(shop.hosts[1]))
        await shop.come_to(shop.hosts[1])


@in_both_protocols
async def test_a_session_stays_on_its_host_while_that_drains(mode: Mode) -> None:
    keeps = xds.cluster("cart", override_statuses=["UNKNOWN", "HEALTHY", "DRAINING"])
    async with world(mode, filters=(xds.stateful_session(),)) as shop, shop.channel.session() as session:
        add = session.method("/shop.Cart/Add")
        one, other = shop.hosts
        await shop.serve(CDS=keeps)
        assert await add(b"") == one.encode()
        draining = xds.locality(one, other, health={one: "DRAINING"})
        await shop.serve(CDS=keeps, EDS=xds.endpoints("cart", draining))
        await shop.come_to(other)
        assert {await add(b"") for _ in range(5)} == {one.encode()}


# -- what is refused


@pytest.mark.long
@in_both_protocols
async def test_an_invalid_cluster_is_nacked_less_than_fifty_times_in_five_seconds(mode: Mode) -> None:
    """go-control-plane answers each NACK with the same response again, at once."""
    async with world(mode) as shop:
        await shop.serve(CDS=REFUSED)
        await trio.sleep(5)
        assert await shop.host() == shop.hosts[0]
        nacks = shop.plane.nacks()
        assert 1 <= len(nacks) < 50
        assert {"cart" in nack["error"] for nack in nacks} == {True}, nacks[0]


@in_both_protocols
async def test_other_resource_types_are_served_while_a_cluster_is_nacked(mode: Mode) -> None:
    async with world(mode) as shop:
        await shop.serve(CDS=REFUSED)
        await shop.plane.wait_for_request(CLUSTER, refused=True)
        with trio.fail_after(AT_ONCE):
            await shop.serve(CDS=REFUSED, EDS=endpoints(shop.hosts[1]))
            await shop.come_to(shop.hosts[1])


@in_both_protocols
async def test_a_repaired_cluster_is_acked_with_the_next_response(mode: Mode) -> None:
    """In the state-of-the-world protocol go-control-plane sends nothing while it waits for the NACK."""
    async with world(mode) as shop:
        await shop.serve(CDS=REFUSED)
        await trio.sleep(2)  # by then NACKs are a second apart
        with trio.fail_after(AT_ONCE):
            await shop.serve(CDS=xds.cluster("cart", idle_timeout=30))
            await shop.plane.wait_for_request(CLUSTER, refused=False)


# -- a filter of the program's own


TENANT = "my.pkg.Tenant"  # a TypedStruct, so the control plane needs no message of that name
LISTENER = xds.listener("shop", routes="routes")["@type"]


class Tenant:
    """Adds the header that its configuration names."""

    def __init__(self, header: str, context: FilterContext) -> None:
        self.header = header

    def start(self, call: PickArgs) -> None:
        call.metadata = Metadata([*call.metadata, (self.header, "anna")])


def tenant(**fields: str) -> tuple[Resource]:
    return (xds.custom_filter("tenant", TENANT, **fields),)


@in_both_protocols
async def test_a_filter_of_the_programs_own_is_configured_overridden_and_refused(mode: Mode) -> None:
    filters = {TENANT: FilterType(Tenant, lambda fields: str(fields["header"]))}
    async with world(mode, filters=tenant(header="x-tenant"), http_filters=filters) as shop:
        assert (await shop.metadata()).first("x-tenant") == "anna"
        shop.resources["RDS"] = xds.routes(
            "routes", xds.route("cart") | xds.filter_overrides(tenant=xds.typed_struct(TENANT, header="x-shop"))
        )
        await shop.serve()
        with trio.fail_after(AT_ONCE):
            while (await shop.metadata()).first("x-shop") is None:
                pass
        await shop.serve(LDS=xds.listener("shop", routes="routes", filters=tenant(name="x")))
        await shop.plane.wait_for_request(LISTENER, refused=True)
        assert "filter \"tenant\": KeyError: 'header'" in shop.plane.nacks()[-1]["error"]
        assert (await shop.metadata()).first("x-shop") == "anna"  # by the last good one
