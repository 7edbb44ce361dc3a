"""go-control-plane as our control plane, in both ADS protocols and in the modes of its cache and its server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import trio
from support.go_peers import Plane, plane

import trxds
from trxds import Metadata
from trxds.filters import FilterContext, FilterType, PickArgs
from trxds.testing import Call, serve
from trxds.testing import resources as xds
from trxds.testing.resources import Resource
from trxds.xds import delta

pytestmark = pytest.mark.usefixtures("go_programs")

PATIENCE = 60  # seconds for a whole test, most of which take one
AT_ONCE = 3  # seconds within which a client on a busy machine has noticed what it would otherwise notice never
SETTLED = 0.1  # seconds after which a change has surely been noticed, if only by what it broke
KINDS = ("LDS", "RDS", "CDS", "EDS")
GAPS = (0, 1, 10)  # milliseconds between the two snapshots when a resource goes and comes back

PROTOCOLS = {"sotw": "xds_v3", "delta": delta.FEATURE}
MODES = {
    "sotw": ("sotw",),
    "sotw-answers-each-type-alone": ("sotw", "-ads=false"),
    "sotw-ordered": ("sotw", "-ordered"),
    "delta": ("delta",),
    "delta-answers-each-type-alone": ("delta", "-ads=false"),
}
in_every_mode = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
in_both_protocols = pytest.mark.parametrize("mode", [MODES["sotw"], MODES["delta"]], ids=PROTOCOLS)


@dataclass
class World:
    """A control plane, two hosts, and a channel that is led to the first."""

    plane: Plane
    hosts: list[str]
    channel: trxds.Channel
    resources: dict[str, Resource]
    seen: list[Metadata]  # of the calls that reached a host

    async def serve(self, **changed: Resource | None) -> None:
        """Another snapshot: without the kinds that are None."""
        resources = self.resources | changed
        await self.plane.serve(*(resource for resource in resources.values() if resource is not None))

    async def host(self) -> str:
        """Who answers a call that waits for a host."""
        reply: bytes = await self.channel.method("/shop.Cart/Add")(b"", wait_for_ready=True)
        return reply.decode()

    async def fails(self) -> trxds.Status | None:
        """Of a call that does not wait for a host, how it fails."""
        try:
            await self.channel.method("/shop.Cart/Add")(b"")
        except trxds.RpcError as error:
            return error.status
        return None

    async def metadata(self) -> Metadata:
        """What reaches a host with a call."""
        await self.host()
        return self.seen[-1]

    async def come_to(self, host: str) -> None:
        """Wait until that one answers."""
        while await self.host() != host:
            pass


@asynccontextmanager
async def world(protocol: str, *flags: str, filters: tuple[Resource, ...] = (), **more: Any) -> AsyncIterator[World]:
    seen: list[Metadata] = []
    with trio.fail_after(PATIENCE):
        async with plane(*flags) as control, host(seen) as one, host(seen) as other:
            bootstrap = xds.bootstrap(control.address, features=["xds_v3", PROTOCOLS[protocol]])
            async with trxds.open_channel("xds:///shop", bootstrap=bootstrap, **more) as channel:
                resources = {
                    "LDS": xds.listener("shop", routes="routes", filters=filters),
                    "RDS": xds.routes("routes", xds.route("cart")),
                    "CDS": xds.cluster("cart"),
                    "EDS": endpoints(one),
                }
                shop = World(control, [one, other], channel, resources, seen)
                await shop.serve()
                await shop.come_to(one)
                yield shop


@asynccontextmanager
async def host(seen: list[Metadata]) -> AsyncIterator[str]:
    """One that says its own address, which is the value, and keeps the metadata of its calls."""
    async with serve() as server:

        async def say_address(call: Call) -> None:
            seen.append(call.metadata)
            await call.send(server.address.encode())

        server.fallback = say_address
        yield server.address


def endpoints(*addresses: str) -> Resource:
    return xds.endpoints("cart", xds.locality(*addresses))


CLUSTER = xds.cluster("cart")["@type"]
REFUSED = xds.cluster("cart") | {"lb_policy": "MAGLEV"}  # gRPC has no such policy


# -- what is served


@in_every_mode
async def test_calls_follow_the_endpoints(mode: tuple[str, ...]) -> None:
    async with world(*mode) as shop:
        for address in [*reversed(shop.hosts), *reversed(shop.hosts)]:
            await shop.serve(EDS=endpoints(address))
            await shop.come_to(address)


@in_every_mode
@pytest.mark.parametrize("kind", KINDS)
async def test_a_resource_that_goes_and_comes_straight_back_is_served(mode: tuple[str, ...], kind: str) -> None:
    async with world(*mode) as shop:
        for gap in GAPS:
            await goes_and_comes_back(shop, kind, gap)


@pytest.mark.long
@in_every_mode
@pytest.mark.parametrize("kind", KINDS)
async def test_a_resource_that_goes_and_comes_back_is_served_at_every_gap(mode: tuple[str, ...], kind: str) -> None:
    async with world(*mode) as shop:
        for gap in range(11):
            await goes_and_comes_back(shop, kind, gap)


async def goes_and_comes_back(shop: World, kind: str, gap: int) -> None:
    await shop.serve(**{kind: None})
    await trio.sleep(gap / 1000)
    await shop.serve()
    await trio.sleep(SETTLED)
    with trio.fail_after(AT_ONCE):
        assert await shop.host() == shop.hosts[0], f"after {gap} ms without {kind}"


@in_every_mode
@pytest.mark.parametrize("kind", ("LDS", "CDS"))
async def test_a_resource_that_comes_back_after_calls_have_failed_is_served(mode: tuple[str, ...], kind: str) -> None:
    async with world(*mode) as shop:
        await shop.serve(**{kind: None})
        while await shop.fails() is None:
            pass
        await shop.serve()
        with trio.fail_after(AT_ONCE):
            assert await shop.host() == shop.hosts[0]


@in_both_protocols
async def test_calls_go_on_without_the_control_plane_and_follow_it_when_it_is_back(mode: tuple[str, ...]) -> None:
    async with world(*mode) as shop:
        await shop.plane.kill()
        assert await shop.host() == shop.hosts[0]
        async with plane(*mode[1:], "-listen", shop.plane.address) as shop.plane:
            await shop.serve(EDS=endpoints(shop.hosts[1]))
            await shop.come_to(shop.hosts[1])


@in_both_protocols
async def test_a_session_stays_on_its_host_while_that_drains(mode: tuple[str, ...]) -> None:
    keeps = xds.cluster("cart", override_statuses=["UNKNOWN", "HEALTHY", "DRAINING"])
    async with world(*mode, filters=(xds.stateful_session(),)) as shop, shop.channel.session() as session:
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
async def test_an_invalid_cluster_is_nacked_less_than_fifty_times_in_five_seconds(mode: tuple[str, ...]) -> None:
    """go-control-plane answers each NACK with the same response again, at once."""
    async with world(*mode) as shop:
        await shop.serve(CDS=REFUSED)
        await trio.sleep(5)
        assert await shop.host() == shop.hosts[0]
        nacks = shop.plane.nacks()
        assert 1 <= len(nacks) < 50
        assert {"cart" in nack["error"] for nack in nacks} == {True}, nacks[0]


@in_both_protocols
async def test_other_resource_types_are_served_while_a_cluster_is_nacked(mode: tuple[str, ...]) -> None:
    async with world(*mode) as shop:
        await shop.serve(CDS=REFUSED)
        await shop.plane.wait_for_request(CLUSTER, refused=True)
        with trio.fail_after(AT_ONCE):
            await shop.serve(CDS=REFUSED, EDS=endpoints(shop.hosts[1]))
            await shop.come_to(shop.hosts[1])


@in_both_protocols
async def test_a_repaired_cluster_is_acked_with_the_next_response(mode: tuple[str, ...]) -> None:
    """In the state-of-the-world protocol go-control-plane sends nothing while it waits for the NACK."""
    async with world(*mode) as shop:
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
async def test_a_filter_of_the_programs_own_is_configured_overridden_and_refused(mode: tuple[str, ...]) -> None:
    filters = {TENANT: FilterType(Tenant, lambda fields: str(fields["header"]))}
    async with world(*mode, filters=tenant(header="x-tenant"), http_filters=filters) as shop:
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
