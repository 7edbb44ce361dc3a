"""What an ACK claims, and how long we keep a resource that nobody wants (grpc/grpc-go#8125, grpc/grpc#38698)."""

from __future__ import annotations

import math

import pytest
from support.talk import TYPES, Bad, Talk

from trxds.xds.bootstrap import ServerConfig
from trxds.xds.delta import DeltaProtocol


@pytest.fixture
def talk() -> Talk:
    talk = Talk()
    talk.wants("EDS", "a", "b")
    talk.opens()
    talk.hears("EDS", "1", a="x", b="y")
    talk.says()
    return talk


def keeps(talk: Talk, name: str) -> bool:
    return any(raw[1].startswith(name.encode()) for raw in talk.conversation.parsed_resources(TYPES["EDS"]))


# -- a dropped resource is kept until the server knows


def test_a_name_that_comes_back_before_a_request_is_served_from_what_was_kept(talk: Talk) -> None:
    talk.drops("EDS", "a")
    assert talk.wants("EDS", "a") == {"a": "x"}
    assert talk.says() == []


def test_newer_copies_of_a_dropped_resource_are_taken(talk: Talk) -> None:
    talk.drops("EDS", "a")
    assert talk.hears("EDS", "2", a="z") == {}
    assert talk.wants("EDS", "a") == {"a": "z"}
    assert talk.says() == ["ACK EDS v=2 n2 a,b"]


def test_a_dropped_resource_is_kept_while_the_request_without_it_is_in_flight(talk: Talk) -> None:
    talk.drops("EDS", "a")
    request = talk.conversation.next_request(talk.now)
    assert talk.wants("EDS", "a") == {"a": "x"}
    talk.conversation.sent(request, talk.now)
    assert talk.says() == ["ACK EDS v=1 n1 a,b"]


def test_a_dropped_resource_that_the_server_no_longer_has_is_absent_after_the_timer(talk: Talk) -> None:
    talk.drops("EDS", "a")
    request = talk.conversation.next_request(talk.now)
    talk.wants("EDS", "a")
    talk.conversation.sent(request, talk.now)
    talk.says()
    assert talk.waits(14) == {}
    assert talk.waits(1)["a"].startswith("absent: ")


def test_a_dropped_resource_is_kept_if_it_comes_again_while_the_request_is_in_flight(talk: Talk) -> None:
    talk.drops("EDS", "a")
    request = talk.conversation.next_request(talk.now)
    talk.hears("EDS", "2", a="z")
    talk.conversation.sent(request, talk.now)
    assert keeps(talk, "a")
    assert talk.wants("EDS", "a") == {"a": "z"}
    assert talk.says() == ["ACK EDS v=2 n2 a,b"]


def test_a_dropped_resource_goes_with_the_request_that_has_the_nonce_of_its_last_response(talk: Talk) -> None:
    talk.drops("EDS", "a")
    request = talk.conversation.next_request(talk.now)
    talk.hears("EDS", "2", a="z")
    talk.conversation.sent(request, talk.now)
    assert talk.says() == ["ACK EDS v=2 n2 b"]
    assert not keeps(talk, "a")
    assert talk.wants("EDS", "a") == {}


def test_a_nack_with_an_older_nonce_does_not_release_a_dropped_resource(talk: Talk) -> None:
    talk.drops("EDS", "a")
    talk.hears("EDS", "2", b=Bad("no"))
    talk.hears("EDS", "3", a="z")
    request = talk.conversation.next_request(talk.now)
    talk.conversation.sent(request, talk.now)
    assert (request.response_nonce, keeps(talk, "a")) == ("n2", True)
    assert talk.says() == ["ACK EDS v=3 n3 b"]
    assert not keeps(talk, "a")


def test_a_dropped_resource_that_was_never_requested_goes_at_once(talk: Talk) -> None:
    talk.wants("CDS", "c")
    talk.drops("CDS", "c")
    assert talk.says() == []
    assert talk.conversation.has_subscriptions
    talk.drops("EDS", "a", "b")
    assert not talk.conversation.has_subscriptions, "what is kept holds no stream open"


def test_a_dropped_resource_goes_with_the_stream(talk: Talk) -> None:
    talk.drops("EDS", "a")
    talk.breaks()
    assert not keeps(talk, "a")
    assert talk.wants("EDS", "a") == {}


def test_a_dropped_cluster_that_is_left_out_was_deleted_if_it_was_still_requested() -> None:
    talk = clusters()
    talk.drops("CDS", "a")
    talk.hears("CDS", "2", b="y")
    assert talk.wants("CDS", "a")["a"].startswith("absent: ")


def test_a_dropped_cluster_that_is_left_out_and_was_not_requested_is_used_until_the_server_answers() -> None:
    talk = clusters()
    talk.drops("CDS", "a")
    request = talk.conversation.next_request(talk.now)
    talk.hears("CDS", "2", a="x", b="y")
    talk.conversation.sent(request, talk.now)
    talk.hears("CDS", "3", b="y")
    assert talk.wants("CDS", "a") == {"a": "x"}
    assert talk.says() == ["ACK CDS v=3 n3 a,b"]
    assert talk.waits(15)["a"].startswith("absent: ")


def test_a_dropped_cluster_that_is_left_out_while_the_request_without_it_is_in_flight_was_not_deleted() -> None:
    talk = clusters()
    talk.drops("CDS", "a")
    talk.conversation.next_request(talk.now)
    talk.hears("CDS", "2", b="y")  # the server may have the request already
    assert talk.wants("CDS", "a") == {"a": "x"}


def test_an_ignored_deletion_of_a_dropped_resource_is_kept_too() -> None:
    talk = Talk(ServerConfig("plane:18000", features=frozenset({"ignore_resource_deletion"})))
    talk.wants("CDS", "a", "b")
    talk.opens()
    talk.hears("CDS", "1", a="x", b="y")
    talk.hears("CDS", "2", b="y")
    talk.says()
    talk.drops("CDS", "a")
    assert talk.wants("CDS", "a")["a"].startswith("x but ")


def test_a_dropped_resource_that_was_requested_again_is_kept_without_a_stream() -> None:
    talk = clusters()
    talk.drops("CDS", "a")
    request = talk.conversation.next_request(talk.now)
    talk.wants("CDS", "a")
    talk.conversation.sent(request, talk.now)
    talk.breaks("over")
    talk.drops("CDS", "a")
    assert talk.wants("CDS", "a") == {"a": "x"}


def test_a_deleted_resource_that_is_dropped_without_a_stream_is_still_absent() -> None:
    talk = clusters()
    talk.hears("CDS", "2", b="y")
    talk.breaks("over")
    talk.drops("CDS", "a")
    assert talk.wants("CDS", "a")["a"].startswith("absent: ")


def test_a_watched_resource_that_a_server_need_not_send_for_a_moment_is_requested_anew() -> None:
    talk = clusters()
    watched = talk.resource("a")
    talk.conversation.unsubscribe(watched)  # the authority is back at a better server, which
    talk.conversation.subscribe(watched)  # fails again
    assert talk.says() == ["ACK CDS v=1 n1 b", "ACK CDS v=1 n1 b,a"]


def test_a_request_that_names_a_resource_that_the_server_need_not_send_any_more_starts_no_timer(talk: Talk) -> None:
    talk.wants("EDS", "c")
    request = talk.conversation.next_request(talk.now)
    talk.conversation.unsubscribe(talk.resource("c"))  # the authority is back at a better server
    talk.conversation.sent(request, talk.now)
    assert talk.conversation.next_deadline == math.inf


def test_a_dropped_resource_is_not_published(talk: Talk) -> None:
    talk.drops("EDS", "a")
    reading = talk.reading("EDS", "2", a="z", b="y")
    assert talk.conversation.received(reading, talk.now) == []
    assert [resource.name for resource in talk.authority.resources] == ["b"]


# -- an ACK names nothing that was not taken


def test_a_resource_that_came_unrequested_is_requested_after_the_ack(talk: Talk) -> None:
    """go-control-plane sends everything to who asks for nothing, and takes an ACK's names for what we have."""
    talk.hears("EDS", "2", c="z")
    talk.wants("EDS", "c")
    assert talk.says() == ["ACK EDS v=2 n2 a,b", "ACK EDS v=2 n2 a,b,c"]


def test_a_resource_that_came_unrequested_twice_is_requested_after_the_second_ack(talk: Talk) -> None:
    talk.hears("EDS", "2", c="z")
    talk.says()
    talk.hears("EDS", "3", c="z")
    talk.wants("EDS", "c")
    assert talk.says() == ["ACK EDS v=3 n3 a,b", "ACK EDS v=3 n3 a,b,c"]


def test_a_name_that_was_dropped_and_came_back_is_not_in_the_ack_of_a_response_that_crossed(talk: Talk) -> None:
    """The server ignored both requests if it had sent that response: it still thinks that we have the resource."""
    talk.drops("EDS", "a")
    assert talk.says() == ["ACK EDS v=1 n1 b"]
    talk.wants("EDS", "a")
    assert talk.says() == ["ACK EDS v=1 n1 b,a"]
    talk.hears("EDS", "2", b="z")
    assert talk.says() == ["ACK EDS v=2 n2 b", "ACK EDS v=2 n2 b,a"]


def test_a_server_with_constant_updates_still_gets_the_request_for_a_dropped_name(talk: Talk) -> None:
    """It answers each ACK at once, and so ignores the request behind it. Every other ACK has all names."""
    talk.drops("EDS", "a")
    talk.says()
    talk.wants("EDS", "a")
    talk.says()
    talk.hears("EDS", "2", b="z")
    talk.says()
    talk.hears("EDS", "3", b="y")
    assert talk.says() == ["ACK EDS v=3 n3 b,a", "ACK EDS v=3 n3 b", "ACK EDS v=3 n3 b,a"]


def test_a_nack_has_all_names_and_takes_back_what_it_claims(talk: Talk) -> None:
    """go-control-plane answers it at once, and Istio ignores its names."""
    talk.hears("EDS", "2", b=Bad("no"), c="z")
    talk.wants("EDS", "c")
    assert talk.says() == ["NACK EDS v=1 n2 a,b,c", "ACK EDS v=1 n2 a,b", "ACK EDS v=1 n2 a,b,c"]


def test_a_resource_that_came_and_was_taken_is_in_the_ack(talk: Talk) -> None:
    talk.drops("EDS", "a")
    talk.says()
    talk.wants("EDS", "a")
    talk.says()
    talk.hears("EDS", "2", a="z")
    assert talk.says() == ["ACK EDS v=2 n2 b,a"]


def test_a_complete_response_without_a_name_clears_the_doubt_about_it() -> None:
    talk = clusters()
    talk.drops("CDS", "a")
    talk.says()
    talk.hears("CDS", "2", b="z")
    talk.wants("CDS", "a")
    assert talk.says() == ["ACK CDS v=2 n2 b,a"]


def test_an_ack_that_leaves_a_name_out_does_not_restart_its_timer(talk: Talk) -> None:
    talk.hears("EDS", "2", c="z")
    talk.says()
    talk.wants("EDS", "c")
    talk.says()
    for version in range(3, 6):
        talk.waits(4)
        talk.hears("EDS", str(version), b=str(version))
        talk.says()
    assert talk.waits(3)["c"].startswith("absent: ")


def test_a_delta_ack_subscribes_to_new_names() -> None:
    talk = Talk(dialect=DeltaProtocol())
    talk.wants("EDS", "a")
    talk.opens_silently()
    talk.hears("EDS", "1", a="x", c="z")
    talk.wants("EDS", "c")
    [request] = talk.requests()
    assert (request.response_nonce, list(request.resource_names_subscribe)) == ("n1", ["c"])


def clusters() -> Talk:
    talk = Talk()
    talk.wants("CDS", "a", "b")
    talk.opens()
    talk.hears("CDS", "1", a="x", b="y")
    talk.says()
    return talk
