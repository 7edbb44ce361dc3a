"""What was under way when another server took over, as values (A71): updates, responses and requests."""

from __future__ import annotations

import math
from time import process_time
from weakref import ref

from support.fallback_mesh import SERVERS, Mesh

from trxds.resources.types import CDS, EDS, Parsed
from trxds.xds.authority import Authority
from trxds.xds.discovery_response import ParsedResource, ParsedResponse


def test_an_update_that_was_not_reviewed_when_another_server_took_over_reaches_its_watchers(mesh: Mesh) -> None:
    mesh.watches("x", type=EDS)
    mesh.fails("a")
    mesh.opens("b")
    late = ParsedResponse(EDS, "v9", "n9", (ParsedResource(("x", b"2"), Parsed("x", "2")),))
    mesh.asked["b"].received(late, 0.0)  # the next message is parsed before the review
    mesh.opens("a")
    mesh.answers("a", EDS)
    assert (mesh.servers, mesh.told) == ("a", {"x": "2"})


def test_the_first_response_of_the_next_server_deletes_a_cluster_that_it_does_not_have(mesh: Mesh) -> None:
    mesh.watches("x")
    mesh.opens("a")
    mesh.answers("a", x="1")
    mesh.asked["a"].stream_ended("over", 0.0)
    mesh.fails("a")
    mesh.watches("y")
    assert mesh.opens("b") == {"x", "y"}
    mesh.answers("b", y="2")
    assert mesh.told == {"x": "absent", "y": "2"}


def test_a_shared_server_is_no_longer_asked_for_what_a_better_one_sends(mesh: Mesh, monkeypatch) -> None:
    monkeypatch.setattr(mesh, "release_stream", lambda conversation: None)  # the other authority uses it
    Authority([SERVERS[1]], mesh, "n").watch(CDS, "z", 0.0)
    mesh.opens("b")
    mesh.answers("b", z="2")
    mesh.says("b")
    mesh.watches("x")
    mesh.fails("a")
    assert mesh.says("b") == {"x", "z"}
    mesh.opens("a")
    mesh.answers("a", x="1")
    assert mesh.says("b") == {"z"}


def fall_back_to_a_shared_server(mesh: Mesh) -> None:
    """Have the first server send "x", and then fail: "x" and "y" are watched at the one that also sends "z"."""
    mesh.watches("x")
    mesh.opens("a")
    mesh.answers("a", x="1")
    mesh.asked["a"].stream_ended("over", 0.0)
    mesh.fails("a")
    mesh.watches("y")


def test_a_response_that_a_shared_server_made_before_the_fallback_deletes_nothing(mesh: Mesh) -> None:
    Authority([SERVERS[1]], mesh, "n").watch(CDS, "z", 0.0)
    mesh.opens("b")
    mesh.answers("b", z="2")
    fall_back_to_a_shared_server(mesh)
    assert mesh.says("b") == {"x", "y", "z"}
    mesh.answers("b", z="3")
    assert mesh.told == {"x": "1"}
    mesh.answers("b", z="3")
    assert mesh.told == {"x": "absent"}


def test_a_response_deletes_nothing_whose_first_request_is_in_flight(mesh: Mesh) -> None:
    Authority([SERVERS[1]], mesh, "n").watch(CDS, "z", 0.0)
    mesh.opens("b")
    mesh.answers("b", z="2")
    mesh.says("b")
    fall_back_to_a_shared_server(mesh)
    assert set(mesh.asked["b"].next_request(0.0).resource_names) == {"x", "y", "z"}
    mesh.answers("b", z="3")
    assert mesh.told == {"x": "1"}


def test_a_response_that_was_being_parsed_while_another_server_took_over_is_ignored(mesh: Mesh) -> None:
    mesh.watches("x")
    mesh.fails("a")
    mesh.opens("b")
    late = mesh.asked["b"]
    mesh.opens("a")
    mesh.answers("a", x="1")
    assert late.received(ParsedResponse(CDS, "v9", "n9", (ParsedResource(("x", b"2"), Parsed("x", "2")),)), 0.0) == []
    assert mesh.told == {"x": "1"}


def test_a_request_that_was_being_sent_while_another_server_took_over_is_of_no_account(mesh: Mesh) -> None:
    mesh.watches("x")
    mesh.fails("a")
    mesh.opens("b")
    late = mesh.asked["b"]
    mesh.watches("y")
    request = late.next_request(0.0)
    mesh.opens("a")
    mesh.answers("a", x="1")
    late.sent(request, 0.0)
    assert late.next_deadline == math.inf


def test_a_server_that_never_knew_of_an_unwatched_resource_is_no_longer_used(mesh: Mesh) -> None:
    mesh.watches("x", "y")
    mesh.opens("a")
    mesh.answers("a", EDS)
    mesh.leaves("x")
    mesh.asked["a"].stream_ended("over", 0.0)
    mesh.fails("a")
    mesh.opens("b")
    mesh.opens("a")
    mesh.answers("a", y="1")
    assert (mesh.servers, mesh.told) == ("a", {"y": "1"})


def test_an_unwatched_resource_is_kept_until_no_server_has_it(mesh: Mesh) -> None:
    mesh.watches("x", "y")
    mesh.opens("a")
    mesh.answers("a", x="1", y="1")
    mesh.says("a")
    left = ref(mesh.authority.resource(CDS, "x"))
    mesh.leaves("x")
    assert left() is not None
    assert mesh.says("a") == {"y"}
    assert left() is None, "a program that watches ever new names would leak them"


def test_thousands_of_resources_are_unwatched_at_once(mesh: Mesh) -> None:
    names = [f"c{number}" for number in range(8_000)]
    mesh.watches(*names)
    mesh.opens("a")
    started = process_time()
    for name in names:
        mesh.leaves(name)
    assert process_time() - started < 0.5, "it takes a few milliseconds, unless each looks at all others"
