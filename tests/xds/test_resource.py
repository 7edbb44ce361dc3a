"""One resource in the client's cache, by its events: what is kept, since when, and what watchers get (A40, A88)."""

from __future__ import annotations

import pytest
from msgspec import structs

from trxds.resources.types import CDS, Parsed
from trxds.xds.discovery_response import NO_BYTES
from trxds.xds.resource import CacheState, Resource, ResourceFailure, UpdateMetadata

FAILURE = ResourceFailure("server plane:18000", "it is bad")


def update(text: str = "", when: str = "1", **more: str) -> UpdateMetadata:
    return UpdateMetadata("v", ("cds", text.encode()) if text else NO_BYTES, 0.0, "plane:18000", when, **more)


def parsed(text: str) -> Parsed:
    return Parsed("cart", text)


@pytest.fixture
def resource() -> Resource:
    """In use."""
    resource = Resource(CDS, "cart")
    resource.accept(update("x"), parsed("x"))
    return resource


def test_the_version_before_is_the_last_one_with_other_bytes(resource: Resource) -> None:
    first = resource.accepted
    resource.accept(update("y"), parsed("y"))
    resource.accept(update("y"), parsed("y"))
    assert resource.previous == first


def test_a_resource_in_use_is_known_since_its_present_version_came(resource: Resource) -> None:
    resource.accept(update("y", when="2"), parsed("y"))
    assert resource.since == "2"


def test_a_failure_that_comes_again_is_known_since_it_came_first(resource: Resource) -> None:
    for when in ("2", "3"):
        resource.fail(CacheState.RECEIVED_ERROR, update(when=when), FAILURE)
    assert resource.since == "2"


@pytest.mark.parametrize("drop", [True, False])
def test_a_resource_that_stays_in_use_is_not_absent(resource: Resource, drop: bool) -> None:
    resource.fail(CacheState.DOES_NOT_EXIST, update(), FAILURE, drop=drop, absent=True)
    assert resource.absent is drop


def test_a_forgotten_resource_is_as_new(resource: Resource) -> None:
    resource.reject(update("y"), Parsed("cart", None, ("bad",)), FAILURE, drop=False)
    resource.fail(CacheState.DOES_NOT_EXIST, update(), FAILURE, absent=True)
    resource.forget()
    assert structs.asdict(resource) == structs.asdict(Resource(CDS, "cart"))


def test_a_resource_that_is_requested_again_is_used_without_its_error(resource: Resource) -> None:
    resource.reject(update("y"), Parsed("cart", None, ("bad",)), FAILURE, drop=False)
    resource.request_again()
    state = resource.watcher_state(None, "web-1")
    assert state is not None
    assert (state.value, state.ambient) == ("x", None)


def test_an_absent_resource_that_is_requested_again_stays_absent(resource: Resource) -> None:
    resource.fail(CacheState.DOES_NOT_EXIST, update(), FAILURE, absent=True)
    resource.request_again()
    state = resource.watcher_state(None, "web-1")
    assert state is not None
    assert state.absent


def stale() -> Resource:
    resource = Resource(CDS, "cart")
    resource.restore(update("x", stale_since="yesterday"), parsed("x"))
    return resource


@pytest.mark.parametrize(
    ("outage", "reason"), [(None, "the server has sent nothing of it yet"), (FAILURE, FAILURE.reason)]
)
def test_a_value_of_the_cache_on_disk_has_a_note_whatever_else_is_wrong(outage, reason: str) -> None:
    state = stale().watcher_state(outage, "web-1")
    assert state is not None
    assert state.value == "x"
    assert state.ambient is not None
    assert f"stale, from the cache on disk, current until yesterday: {reason}" in state.ambient.message


def test_a_value_of_the_cache_on_disk_is_no_arrival() -> None:
    resource = stale()
    assert resource.awaited and not resource.has_arrived
    resource.fail(CacheState.TIMEOUT, update(), FAILURE, drop=False)
    assert resource.awaited and not resource.has_arrived


def test_a_value_that_is_requested_again_has_not_arrived_since(resource: Resource) -> None:
    assert resource.has_arrived and not resource.awaited
    resource.request_again()
    assert resource.awaited and not resource.has_arrived


@pytest.mark.parametrize("state", [CacheState.TIMEOUT, CacheState.RECEIVED_ERROR])
def test_a_resource_that_is_late_or_in_error_is_awaited(resource: Resource, state: CacheState) -> None:
    resource.fail(state, update(), FAILURE)
    assert resource.awaited and not resource.has_arrived


def test_a_resource_that_does_not_exist_is_not_awaited(resource: Resource) -> None:
    resource.fail(CacheState.DOES_NOT_EXIST, update(), FAILURE)
    assert not resource.awaited and not resource.has_arrived


def test_only_a_deletion_of_a_value_that_stays_in_use_is_ignored(resource: Resource) -> None:
    resource.fail(CacheState.DOES_NOT_EXIST, update(), FAILURE, drop=False)
    assert resource.ignored_deletion
    resource.fail(CacheState.DOES_NOT_EXIST, update(), FAILURE)
    assert not resource.ignored_deletion
