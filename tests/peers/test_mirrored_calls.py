"""Copies of calls beside Envoy's, which are made by the same routes; and with go-control-plane and a grpcio host."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
from support.envoy import SPEAKS_HTTP2, on_a_socket, running
from support.go_peers import plane
from support.grpcio import grpcio_server
from support.mirroring import Notes, mirrored, share

import trxds
from trxds import Mirroring, StatusCode
from trxds.testing import Call, ManagementServer, serve
from trxds.testing import resources as xds

PATIENCE = 60  # seconds for a test, which takes about one
METHOD = "/shop.Cart/Add"
AUTHORITY = "shop.example:8080"


@dataclass
class Shadow:
    """A host that notes the copies that it gets: authority, path and messages."""

    got: list[tuple[str, str, list[bytes]]] = field(default_factory=list)
    changed: trio.Event = field(default_factory=trio.Event)

    async def handle(self, call: Call) -> None:
        messages = [message async for message in call]
        await call.send(b"from the shadow")
        self.got.append((call.authority, call.path, messages))
        self.changed.set()
        self.changed = trio.Event()

    async def wait(self, count: int) -> list[tuple[str, str, list[bytes]]]:
        while len(self.got) < count:
            await self.changed.wait()
        return self.got


async def answer(call: Call) -> None:
    async for _ in call:
        pass
    await call.send(b"from the host")


@asynccontextmanager
async def ways(policy: dict[str, Any]) -> AsyncIterator[tuple[Shadow, trxds.Channel, trxds.Channel]]:
    """The host of copies, a channel that makes them, and one through an Envoy that makes them."""
    shadow, theirs, ours = Shadow(), ManagementServer(), ManagementServer()
    with trio.fail_after(PATIENCE):
        async with (
            serve(fallback=answer) as host,
            serve(fallback=shadow.handle) as other,
            theirs.serve() as their_ads,
            ours.serve() as our_ads,
            running(their_ads, "GRPC") as envoy,
        ):
            listener = xds.listener("shop", routes="routes")
            below = [xds.routes("routes", mirrored(policy, KNOWN))]
            for name, address in (("cart", host.address), ("shadow", other.address)):
                below += [xds.cluster(name) | SPEAKS_HTTP2, xds.endpoints(name, xds.locality(address))]
            theirs.put(on_a_socket(listener), *below)
            await theirs.wait_for_ack("RDS")
            gate = await envoy.address("shop")
            ours.put(listener, *below, xds.listener("gate", routes="gate"), xds.routes("gate", xds.route("gate")))
            ours.put(xds.cluster("gate"), xds.endpoints("gate", xds.locality(gate)))
            options: Any = {"bootstrap": xds.bootstrap(our_ads), "authority": AUTHORITY}
            async with (
                trxds.open_channel("xds:///shop", mirroring=Mirroring(), **options) as direct,
                trxds.open_channel("xds:///gate", **options) as through,
            ):
                yield shadow, direct, through


# A header may name only clusters that some route or policy names.
KNOWN = {"cluster": "shadow", **share(0)}
POLICIES: dict[str, dict[str, Any]] = {
    "a cluster": {"cluster": "shadow"},
    "a cluster that a header names": {"cluster_header": "x-mirror"},
    "without the suffix": {"cluster": "shadow", "disable_shadow_host_suffix_append": True},
    "all of a million": {
        "cluster": "shadow",
        "runtime_fraction": {"default_value": {"numerator": 2_000_000, "denominator": "MILLION"}},
    },
}


@pytest.mark.usefixtures("envoy_peer")
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
async def test_a_copy_is_as_envoy_makes_it(policy: dict[str, Any]) -> None:
    async with ways(policy) as (shadow, direct, through):
        for number, channel in enumerate((direct, through), start=1):
            method = channel.method(METHOD, client_streaming=True)
            reply = await method([b"milk", b"eggs"], metadata=[("x-mirror", "shadow")], wait_for_ready=True)
            assert reply == b"from the host"
            await shadow.wait(number)
        ours, envoys = shadow.got
        assert ours == envoys
        assert ours[1:] == (METHOD, [b"milk", b"eggs"])


@pytest.mark.usefixtures("go_programs")
async def test_a_grpcio_host_gets_the_copies_that_go_control_plane_asks_for() -> None:
    notes = Notes()
    with trio.fail_after(PATIENCE):
        async with plane("sotw") as control, serve(fallback=answer) as host, grpcio_server() as shadow:
            await control.serve(
                xds.listener("shop", routes="shop"),
                xds.routes("shop", mirrored()),
                xds.cluster("cart"),
                xds.endpoints("cart", xds.locality(host.address)),
                xds.cluster("shadow"),
                xds.endpoints("shadow", xds.locality(shadow)),
            )
            bootstrap = xds.bootstrap(control.address)
            async with (
                trxds.open_channel("xds:///shop", bootstrap=bootstrap, mirroring=Mirroring()) as channel,
                trxds.open_channel(f"ipv4:{shadow}") as direct,
            ):
                with channel.observed_by(notes):
                    while not notes.all or notes.results[-1] != "completed":  # until the shadow is connected
                        assert await channel.method("/peer.Echo/set_health")(b"NOT_SERVING") == b"from the host"
                        await trio.sleep(0.01)
                    assert notes.all[-1].status.code is StatusCode.OK
                    assert await direct.method("/grpc.health.v1.Health/Check")(b"") == b"\x08\x02"  # NOT_SERVING
                    bidi = channel.method("/peer.Echo/bidi", client_streaming=True, server_streaming=True)
                    before = len(notes.all)
                    async with bidi.open(b"x" * 100_000) as call:
                        call.done_sending()
                        assert await call.receive() == b"from the host"
                    while len(notes.all) == before:  # noqa: ASYNC110
                        await trio.sleep(0.01)
                    assert notes.all[-1].status.code is StatusCode.OK
            assert control.nacks() == []
