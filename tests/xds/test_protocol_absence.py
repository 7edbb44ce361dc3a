"""Resources that are not there: the wait for an answer, and deletion."""

from __future__ import annotations

import math

import pytest
from support.talk import WHERE, Bad, Talk, since

from trxds.xds.bootstrap import ServerConfig


@pytest.fixture
def talk() -> Talk:
    return Talk()


# -- does not exist


def test_a_resource_that_does_not_come_in_15_seconds_does_not_exist(talk: Talk) -> None:
    talk.wants("CDS", "a")
    talk.opens()
    assert talk.conversation.next_deadline == 15
    assert talk.waits(14.9) == {}
    assert talk.waits(0.1) == {
        "a": f'absent: CDS resource "a" {WHERE}: {since("DOES_NOT_EXIST", 15)}: does not exist, asked 15 s before'
    }
    assert talk.conversation.next_deadline == math.inf


def test_the_resource_timer_starts_when_the_request_was_sent(talk: Talk) -> None:
    talk.wants("CDS", "a")
    talk.conversation.stream_opened()
    request = talk.conversation.next_request(talk.now)
    assert request is not None
    talk.now = 100
    assert talk.conversation.next_deadline == math.inf
    talk.conversation.sent(request, talk.now)
    assert talk.conversation.next_deadline == 115


def test_a_repeated_request_does_not_restart_the_resource_timer(talk: Talk) -> None:
    talk.wants("CDS", "a")
    talk.opens()
    talk.waits(10)
    talk.wants("CDS", "b")
    talk.says()
    assert list(talk.waits(5)) == ["a"]
    assert list(talk.waits(10)) == ["b"]


def test_a_response_stops_the_resource_timer_even_if_it_is_rejected(talk: Talk) -> None:
    talk.wants("CDS", "a", "b")
    talk.opens()
    talk.hears("CDS", "1", a="x", b=Bad("no"))
    talk.says()
    assert talk.conversation.next_deadline == math.inf


def test_an_unsubscribed_resource_has_no_timer(talk: Talk) -> None:
    talk.wants("CDS", "a")
    talk.opens()
    talk.drops("CDS", "a")
    talk.says()
    assert talk.conversation.next_deadline == math.inf


def test_the_resource_timer_starts_anew_with_each_stream(talk: Talk) -> None:
    talk.wants("CDS", "a")
    talk.opens()
    talk.waits(10)
    talk.breaks()
    assert talk.conversation.next_deadline == math.inf
    talk.opens()
    assert talk.conversation.next_deadline == 25


def test_a_cached_resource_has_no_timer_on_a_new_stream(talk: Talk) -> None:
    talk.wants("EDS", "a")
    talk.opens()
    talk.hears("EDS", "1", a="x")
    talk.breaks()
    talk.opens()
    assert talk.conversation.next_deadline == math.inf


def test_a_new_watcher_of_a_resource_that_does_not_exist_gets_the_error_at_once(talk: Talk) -> None:
    talk.wants("CDS", "a")
    talk.opens()
    talk.waits(15)
    assert talk.wants("CDS", "a")["a"].startswith("absent:")


def test_a_resource_may_come_after_its_timer_expired(talk: Talk) -> None:
    talk.wants("CDS", "a")
    talk.opens()
    talk.waits(15)
    assert talk.hears("CDS", "1", a="x") == {"a": "x"}


# -- deletion


@pytest.mark.parametrize("kind", ["LDS", "CDS"])
def test_a_cached_listener_or_cluster_that_is_left_out_is_deleted(talk: Talk, kind: str) -> None:
    talk.wants(kind, "a", "b")
    talk.opens()
    talk.hears(kind, "1", a="x", b="y")
    text = f'absent: {kind} resource "a" {WHERE}: {since("DOES_NOT_EXIST")}: does not exist, deleted by the server'
    assert talk.hears(kind, "2", b="y") == {"a": text}


@pytest.mark.parametrize("kind", ["RDS", "EDS"])
def test_routes_and_endpoints_that_are_left_out_stay(talk: Talk, kind: str) -> None:
    talk.wants(kind, "a", "b")
    talk.opens()
    talk.hears(kind, "1", a="x", b="y")
    assert talk.hears(kind, "2", b="z") == {"b": "z"}


def test_a_cluster_never_received_keeps_waiting_when_it_is_left_out(talk: Talk) -> None:
    talk.wants("CDS", "a", "b")
    talk.opens()
    assert talk.hears("CDS", "1", b="y") == {"b": "y"}
    assert list(talk.waits(15)) == ["a"]


def test_a_cluster_that_is_refused_is_not_deleted(talk: Talk) -> None:
    talk.wants("CDS", "a")
    talk.opens()
    talk.hears("CDS", "1", a="x")
    assert talk.hears("CDS", "2", a=Bad("no"))["a"].startswith("x but")


def test_a_response_with_an_unreadable_name_deletes_nothing(talk: Talk) -> None:
    talk.wants("CDS", "a")
    talk.opens()
    talk.hears("CDS", "1", a="x")
    assert talk.hears("CDS", "2", Bad("garbage")) == {}
    assert talk.says() == ["NACK CDS v=1 n2 a"]


def test_a_deleted_cluster_may_return(talk: Talk) -> None:
    talk.wants("CDS", "a")
    talk.opens()
    talk.hears("CDS", "1", a="x")
    talk.hears("CDS", "2")
    assert talk.hears("CDS", "3", a="x") == {"a": "x"}


def test_a_server_may_be_forbidden_to_delete() -> None:
    talk = Talk(ServerConfig("plane:1", features=frozenset({"ignore_resource_deletion"})))
    talk.wants("CDS", "a")
    talk.opens()
    talk.hears("CDS", "1", a="x")
    stands = f'CDS resource "a" (server plane:1, node "web-1"): {since("DOES_NOT_EXIST")}'
    gone = f"x but {stands}: does not exist, deleted by the server; "
    assert talk.hears("CDS", "2") == {"a": gone + "the last one is kept"}
    assert talk.says() == ["ACK CDS v=2 n2 a"]
    assert talk.hears("CDS", "3") == {}
    assert talk.hears("CDS", "4", a="x") == {"a": "x"}


def test_a_deletion_stops_the_timer_of_a_rejected_resource(talk: Talk) -> None:
    talk.wants("CDS", "a")
    talk.opens()
    talk.hears("CDS", "1", a=Bad("no"))
    talk.breaks()
    talk.opens()
    talk.hears("CDS", "2")
    assert talk.conversation.next_deadline == math.inf
