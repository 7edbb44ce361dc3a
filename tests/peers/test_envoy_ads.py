"""Envoy as a second ADS client of our ManagementServer, in both protocols: it takes what we take.

Each protocol is one run, in which Envoy and our client are given every case in turn; the tests read what they said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
import trio
from support.envoy import FEATURES, SPEAKS_HTTP2, on_a_socket, running
from support.envoy_cases import ACCEPTED, ONLY_ENVOYS, ONLY_OURS, REFUSED, USUAL

from trxds.core.conflating_queue import ConflatingQueue
from trxds.lb.load_report.load_store import LoadStore
from trxds.resources.context import ParseContext
from trxds.resources.types import RESOURCE_TYPES
from trxds.testing import ManagementServer
from trxds.testing import resources as xds
from trxds.transport.connect import TcpNetwork
from trxds.xds.bootstrap import parse
from trxds.xds.xds_client import XdsClient

pytestmark = pytest.mark.usefixtures("envoy_peer")

PATIENCE = 60  # seconds for a whole run, which takes two
NAMES = ("case", "extra")
NEEDED = (
    xds.listener("extra", routes="extra"),
    USUAL["RDS"],
    xds.cluster("extra") | SPEAKS_HTTP2,
    USUAL["EDS"],
    xds.endpoints("case", xds.locality("127.0.0.1:1")),
)

Resource = dict[str, Any]


@dataclass(frozen=True)
class Said:
    """By Envoy and by us, of each case: "ACK", or why it was refused."""

    envoy: Mapping[str, str]
    ours: Mapping[str, str]


@pytest.fixture(scope="module", params=list(FEATURES))
def said(request: pytest.FixtureRequest) -> Said:
    return trio.run(run_cases, request.param)


async def run_cases(protocol: str) -> Said:
    theirs, ours = ManagementServer(), ManagementServer()
    with trio.fail_after(PATIENCE):
        async with theirs.serve() as their_ads, ours.serve() as our_ads, trio.open_nursery() as nursery:
            bootstrap = parse(xds.bootstrap(our_ads, features=[FEATURES[protocol]]))
            nursery.start_soon(
                watch, XdsClient(bootstrap, TcpNetwork(), Random(), ParseContext(mirroring=True), LoadStore())
            )
            async with running(their_ads, protocol):
                said = Said(await answers(theirs, for_envoy), await answers(ours, as_it_is))
            nursery.cancel_scope.cancel()
    return said


async def watch(client: XdsClient) -> None:
    """Our client at work, for somebody who wants all that the cases are about, and reads it."""
    queue: ConflatingQueue[object] = ConflatingQueue()
    for kind, type in RESOURCE_TYPES.items():
        for name in NAMES:
            client.watch(type, name, queue, (kind, name))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run)
        while True:
            await queue.next()


def for_envoy(resource: Resource) -> Resource:
    return on_a_socket(resource) if "api_listener" in resource else resource


def as_it_is(resource: Resource) -> Resource:
    return resource


async def answers(plane: ManagementServer, form: Callable[[Resource], Resource]) -> dict[str, str]:
    """What the plane's client says of each case. What a case has put is taken back, and that has to be an ACK."""
    plane.put(*map(form, NEEDED))
    for kind in ("CDS", "EDS", "LDS", "RDS"):
        await plane.wait_for_ack(kind)
    said = {}
    for name, case in (ACCEPTED | REFUSED | ONLY_OURS | ONLY_ENVOYS).items():
        kind = name[:3]
        plane.put(form(case))
        said[name] = await answer(plane, kind)
        if kind in USUAL:
            plane.put(USUAL[kind])
        else:
            plane.remove(kind, "case")
        assert await answer(plane, kind) == "ACK", f"after {name}"
    return said


async def answer(plane: ManagementServer, kind: str) -> str:
    """To the version that is the present one."""
    version = plane.version(kind)

    def answers_it(request: Any) -> bool:
        sent = plane.responses[int(request.nonce[1:]) - 1] if request.nonce else None
        return request.kind == kind and sent is not None and sent.version >= version

    request = await plane.wait_for(answers_it)
    return request.error or "ACK"


@pytest.mark.parametrize("case", ACCEPTED)
def test_envoy_accepts_what_we_accept(said: Said, case: str) -> None:
    assert (said.envoy[case], said.ours[case]) == ("ACK", "ACK")


@pytest.mark.parametrize("case", REFUSED)
def test_envoy_and_trxds_refuse_the_same_invalid_resources(said: Said, case: str) -> None:
    assert "ACK" not in (said.envoy[case], said.ours[case])


@pytest.mark.parametrize("case", ONLY_OURS)
def test_resources_that_only_envoy_refuses(said: Said, case: str) -> None:
    assert said.ours[case] == "ACK" != said.envoy[case]


@pytest.mark.parametrize("case", ONLY_ENVOYS)
def test_resources_that_only_trxds_refuses(said: Said, case: str) -> None:
    assert said.envoy[case] == "ACK" != said.ours[case]
