"""Which of an authority's servers are asked, as values (A71): no socket, no event loop, no clock."""

from __future__ import annotations

import pytest
from support.fallback_mesh import SERVERS, Mesh
from support.talk import since

from trxds.resources.types import CDS, EDS
from trxds.xds.authority import Authority


def test_only_the_first_server_is_used_while_it_works(mesh: Mesh) -> None:
    mesh.watches("x")
    mesh.opens("a")
    mesh.answers("a", x="1")
    assert mesh.servers == "a"


def test_a_failure_while_a_resource_is_missing_requests_everything_from_the_next_server(mesh: Mesh) -> None:
    mesh.watches("x", "y")
    mesh.opens("a")
    mesh.answers("a", x="1")
    mesh.asked["a"].stream_ended("over", 0.0)
    mesh.fails("a")
    assert mesh.servers == "ab"
    assert mesh.opens("b") == {"x", "y"}


def test_watchers_get_no_error_while_a_server_may_still_answer(mesh: Mesh) -> None:
    mesh.watches("x")
    mesh.fails("a")
    mesh.fails("b")
    assert (mesh.servers, mesh.told) == ("abc", {})
    mesh.fails("c")
    assert mesh.told == {"x": "failed"}


def test_an_error_of_all_servers_names_them_all(mesh: Mesh) -> None:
    mesh.watches("x")
    mesh.fails("a")
    mesh.fails("b")
    mesh.asked["c"].stream_ended("no route to host", 0.0)
    [state] = mesh.authority.review([]).values()
    assert state.error is not None
    assert state.error.message == (
        f'CDS resource "x" (servers a:1, b:1, c:1, node "n"): {since("REQUESTED")}: '
        "cannot reach any xDS server since 1970-01-01T00:00:00Z: "
        "a:1: refused; b:1: refused; c:1: no route to host"
    )


def test_a_resource_that_is_missing_is_awaited_from_any_server_that_is_connected(mesh: Mesh) -> None:
    mesh.watches("x")
    assert mesh.authority.describe_pending((CDS, "x")).endswith("there is no stream to the server yet")
    mesh.fails("a")
    mesh.opens("b")
    assert mesh.authority.describe_pending((CDS, "x")).endswith("the server has sent nothing of it yet")
    mesh.answers("b", x="1")
    assert mesh.authority.describe_pending((CDS, "x")).endswith("the channel is about to act on that")


def test_a_resource_is_asked_for_since_its_first_watcher_came(mesh: Mesh) -> None:
    for now in (60.0, 120.0):
        mesh.authority.watch(CDS, "x", now)
    assert mesh.authority.resource(CDS, "x").since == "1970-01-01T00:01:00Z"
    assert mesh.authority.watched_since == 60.0


def test_no_fallback_happens_while_all_resources_are_cached(mesh: Mesh) -> None:
    mesh.watches("x")
    mesh.opens("a")
    mesh.answers("a", x="1")
    mesh.asked["a"].stream_ended("over", 0.0)
    mesh.fails("a")
    assert (mesh.servers, mesh.told) == ("a", {"x": "1 failed"})


@pytest.fixture
def impatient(mesh: Mesh) -> Mesh:
    """One whose authority has `fallback_on_reachability_only` (A95)."""
    mesh.authority = Authority(SERVERS, mesh, "n", fallback_on_reachability_only=True)
    return mesh


def test_an_authority_with_fallback_on_reachability_only_falls_back_with_all_resources_cached(impatient: Mesh) -> None:
    impatient.watches("x")
    impatient.opens("a")
    impatient.answers("a", x="1")
    impatient.asked["a"].stream_ended("over", 0.0)
    impatient.fails("a")
    assert (impatient.servers, impatient.told) == ("ab", {"x": "1"})
    impatient.fails("b")
    assert impatient.servers == "abc"
    assert impatient.opens("c") == {"x"}
    impatient.answers("c", x="3")
    assert impatient.told == {"x": "3"}


def test_an_authority_with_fallback_on_reachability_only_stays_while_its_server_answers(impatient: Mesh) -> None:
    impatient.watches("x", "y")
    impatient.opens("a")
    impatient.answers("a", x="1")
    impatient.asked["a"].stream_ended("over", 0.0)
    impatient.hear(impatient.authority.review([]))
    assert impatient.servers == "a"


def test_an_authority_with_fallback_on_reachability_only_returns_to_its_first_server(impatient: Mesh) -> None:
    impatient.watches("x")
    impatient.fails("a")
    impatient.opens("b")
    impatient.answers("b", x="2")
    impatient.opens("a")
    impatient.answers("a", x="1")
    assert (impatient.servers, impatient.told) == ("a", {"x": "1"})


def test_an_authority_with_fallback_on_reachability_only_keeps_its_resources_when_all_servers_fail(
    impatient: Mesh,
) -> None:
    impatient.watches("x")
    impatient.opens("a")
    impatient.answers("a", x="1")
    impatient.asked["a"].stream_ended("over", 0.0)
    for server in "abc":
        impatient.fails(server)
    assert impatient.told == {"x": "1 failed"}


def test_a_resource_that_does_not_exist_counts_as_cached(mesh: Mesh) -> None:
    mesh.watches("x")
    mesh.opens("a")
    mesh.hear(mesh.authority.review(mesh.asked["a"].expire_timers(15.0)))
    assert mesh.told == {"x": "absent"}
    mesh.fails("a")
    assert mesh.servers == "a"


def test_a_cached_resource_that_is_requested_again_is_no_reason_to_fall_back(mesh: Mesh) -> None:
    mesh.watches("x", "y")
    mesh.opens("a")
    mesh.answers("a", x="1", y="1")
    mesh.leaves("x")
    request = mesh.asked["a"].next_request(0.0)
    mesh.watches("x")
    mesh.asked["a"].sent(request, 0.0)
    mesh.asked["a"].stream_ended("over", 0.0)
    mesh.fails("a")
    assert mesh.servers == "a"


def test_a_first_watch_while_the_server_fails_uses_the_next_one(mesh: Mesh) -> None:
    mesh.watches("x")
    mesh.opens("a")
    mesh.answers("a", x="1")
    mesh.asked["a"].stream_ended("over", 0.0)
    mesh.fails("a")
    mesh.watches("y")
    assert mesh.servers == "ab"
    assert mesh.told == {"x": "1"}  # the outage is forgotten while there is hope


def test_a_watch_while_all_servers_fail_is_an_error_at_once(mesh: Mesh) -> None:
    mesh.watches("x")
    for server in "abc":
        mesh.fails(server)
    mesh.watches("y")
    assert mesh.told == {"x": "failed", "y": "failed"}


def test_a_server_that_failed_before_it_became_idle_may_still_answer(mesh: Mesh) -> None:
    mesh.watches("x")
    for server in "abc":
        mesh.fails(server)
    mesh.leaves("x")
    mesh.asked["a"].become_idle()  # b and c wait for their next attempts
    mesh.told.clear()
    mesh.watches("y")
    assert mesh.told == {}
    mesh.fails("a")
    assert mesh.told == {"y": "failed"}


def test_resources_of_the_fallback_server_are_used(mesh: Mesh) -> None:
    mesh.watches("x")
    mesh.fails("a")
    mesh.opens("b")
    mesh.answers("b", x="2")
    assert mesh.told == {"x": "2"}


def test_a_server_that_answers_again_replaces_all_below(mesh: Mesh) -> None:
    mesh.watches("x")
    mesh.fails("a")
    mesh.fails("b")
    mesh.opens("c")
    mesh.answers("c", x="3")
    mesh.opens("a")
    assert mesh.servers == "abc"
    mesh.answers("a", x="1")
    assert (mesh.servers, mesh.told) == ("a", {"x": "1"})


def test_a_server_in_the_middle_is_used_until_the_first_answers(mesh: Mesh) -> None:
    mesh.watches("x")
    mesh.fails("a")
    mesh.fails("b")
    mesh.opens("c")
    mesh.answers("c", x="3")
    mesh.opens("b")
    mesh.answers("b", x="2")
    assert (mesh.servers, mesh.told) == ("ab", {"x": "2"})


def test_the_first_server_has_to_send_its_resources_again_after_a_fallback(mesh: Mesh) -> None:
    mesh.watches("x", "y")
    mesh.opens("a")
    mesh.answers("a", x="1")
    mesh.asked["a"].stream_ended("over", 0.0)
    mesh.fails("a")
    mesh.asked["a"].stream_opened()
    request = mesh.asked["a"].next_request(0.0)
    assert request is not None
    assert request.version_info == ""


def test_a_server_above_keeps_no_resource_that_it_sent_before_a_fallback(mesh: Mesh) -> None:
    mesh.watches("x", "y")
    mesh.opens("a")
    mesh.answers("a", x="1")
    mesh.asked["a"].stream_ended("over", 0.0)
    mesh.fails("a")
    mesh.opens("a")
    mesh.answers("a", x="2")
    assert [parsed.value for parsed in mesh.asked["a"].parsed_resources(CDS).values()] == ["2"]


def test_a_server_that_is_used_again_starts_from_scratch(mesh: Mesh) -> None:
    mesh.watches("x")
    mesh.fails("a")
    before = mesh.asked["b"]
    mesh.opens("a")
    mesh.answers("a", x="1")
    mesh.asked["a"].stream_ended("over", 0.0)
    mesh.watches("y")
    mesh.fails("a")
    assert mesh.asked["b"] is not before
    assert mesh.opens("b") == {"x", "y"}


def test_a_resource_timer_of_one_server_ignores_a_resource_from_another(mesh: Mesh) -> None:
    mesh.watches("x", type=EDS)
    mesh.opens("a")
    mesh.asked["a"].stream_ended("over", 0.0)
    mesh.fails("a")
    mesh.opens("a")
    mesh.opens("b")
    mesh.answers("b", EDS, x="2")
    assert mesh.asked["a"].expire_timers(15.0) == []


def test_an_unwatched_resource_is_requested_from_no_server(mesh: Mesh) -> None:
    mesh.watches("x", "y")
    mesh.fails("a")
    mesh.opens("b")
    mesh.answers("b", x="2", y="2")
    mesh.leaves("x")
    assert mesh.says("b") == {"y"}
    assert mesh.opens("a") == {"y"}


def test_a_resource_forgotten_on_one_server_is_not_kept_for_another(mesh: Mesh) -> None:
    mesh.watches("x", "y")
    mesh.fails("a")
    mesh.opens("b")
    mesh.answers("b", x="2", y="2")
    mesh.leaves("x")
    mesh.says("b")
    mesh.told.clear()
    mesh.watches("x")
    assert mesh.told == {}


def test_a_resource_that_one_server_still_sends_is_kept_when_another_forgets_it(mesh: Mesh) -> None:
    mesh.watches("x", "y")
    mesh.fails("a")
    mesh.opens("b")
    mesh.answers("b", x="2", y="2")
    mesh.says("b")
    mesh.leaves("x")  # a has no stream and forgets it; b has not been told yet
    mesh.told.clear()
    mesh.watches("x")
    assert mesh.told == {"x": "2"}
