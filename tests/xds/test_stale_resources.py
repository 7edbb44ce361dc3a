"""A resource of the cache on disk on its way back to a server, as values: no socket, no event loop, no clock."""

from __future__ import annotations

import pytest

from trxds.resources.types import CDS, Parsed
from trxds.xds.ads_stream_state import AdsStreamState
from trxds.xds.bootstrap import Node, ServerConfig
from trxds.xds.delta import DeltaProtocol
from trxds.xds.discovery_response import ParsedResource, ParsedResponse
from trxds.xds.resource import CacheState, Resource, UpdateMetadata
from trxds.xds.resource_error_policy import ResourceErrorPolicy
from trxds.xds.sotw import SotwProtocol

SERVER = ServerConfig("a:1")
RAW = (CDS.type_url, b"1")


def stale(name: str = "cart") -> Resource:
    resource = Resource(CDS, name)
    update = UpdateMetadata("7", RAW, 0.0, SERVER.uri, "2026-11-21T03:12:45Z", "2026-11-22T03:12:45Z")
    resource.restore(update, Parsed(name, "the value of the cache"))
    return resource


def asked(resource: Resource, state: AdsStreamState) -> object:
    state.subscribe(resource)
    state.stream_opened()
    request = state.next_request(0.0)
    assert request is not None
    state.sent(request, 0.0)
    return request


def received(state: AdsStreamState, *items: ParsedResource) -> None:
    state.received(ParsedResponse(CDS, "1", "n1", items), 1.0)


def test_a_delta_server_gets_the_names_of_stale_resources_and_not_their_versions() -> None:
    state = AdsStreamState(SERVER, Node("n"), DeltaProtocol())
    state.subscribe(stale("cart"))
    request = asked(stale("shop"), state)
    assert list(request.resource_names_subscribe) == ["cart", "shop"]  # type: ignore[attr-defined]
    assert dict(request.initial_resource_versions) == {"cart": "", "shop": ""}  # type: ignore[attr-defined]


def test_a_state_of_the_world_server_gets_no_version_with_a_stale_resource() -> None:
    request = asked(stale(), AdsStreamState(SERVER, Node("n"), SotwProtocol()))
    assert (request.version_info, list(request.resource_names)) == ("", ["cart"])  # type: ignore[attr-defined]


def test_a_stale_resource_that_a_complete_response_leaves_out_waits_for_its_timer() -> None:
    """The response may answer an earlier request (A57), as for a resource that never came."""
    resource, state = stale(), AdsStreamState(SERVER, Node("n"))
    asked(resource, state)
    received(state)
    assert (resource.value, resource.state) == ("the value of the cache", CacheState.REQUESTED)
    state.expire_timers(15.0)
    assert (resource.value, resource.state) == (None, CacheState.DOES_NOT_EXIST)


@pytest.mark.parametrize("late_is_absent", [True, False])
def test_the_timer_keeps_a_stale_resource_of_a_server_that_never_answered(late_is_absent: bool) -> None:
    resource = stale()
    state = AdsStreamState(SERVER, Node("n"), error_policy=ResourceErrorPolicy(late_is_absent=late_is_absent))
    asked(resource, state)
    state.expire_timers(15.0)
    assert (resource.value, resource.state) == ("the value of the cache", CacheState.TIMEOUT)


def test_a_server_that_may_be_slow_keeps_a_stale_resource_that_is_late() -> None:
    """A88: with resource_timer_is_transient_error a resource that does not come is late, and not absent."""
    resource = stale()
    state = AdsStreamState(SERVER, Node("n"), error_policy=ResourceErrorPolicy(late_is_absent=False))
    asked(resource, state)
    received(state)
    state.expire_timers(15.0)
    assert (resource.value, resource.state) == ("the value of the cache", CacheState.TIMEOUT)


def test_a_resource_that_comes_is_stale_no_longer() -> None:
    resource, state = stale(), AdsStreamState(SERVER, Node("n"))
    asked(resource, state)
    received(state, ParsedResource((CDS.type_url, b"2"), Parsed("cart", "new")))
    assert (resource.value, resource.is_stale, resource.shown_state) == ("new", False, "acked")
