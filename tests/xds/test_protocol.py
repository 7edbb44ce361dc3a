"""The conversation with an xDS server, as values: no socket, no event loop, no clock."""

from __future__ import annotations

import pytest
from support.talk import SERVER, TYPES, WHERE, Bad, Talk, in_words, since

import trxds
from trxds.core.status import StatusCode
from trxds.resources.endpoint import LocalityId
from trxds.xds.ads_stream_state import AdsStreamState
from trxds.xds.bootstrap import Node


@pytest.fixture
def talk() -> Talk:
    return Talk()


# -- what we say


def test_a_subscription_is_one_subscribe_and_a_response_one_ack(talk: Talk) -> None:
    talk.wants("LDS", "shop")
    assert talk.opens() == ["SUBSCRIBE LDS shop"]
    assert talk.hears("LDS", "1", shop="x") == {"shop": "x"}
    assert talk.says() == ["ACK LDS v=1 n1 shop"]
    assert talk.says() == []


def test_a_stream_asks_for_types_in_the_order_in_which_they_depend(talk: Talk) -> None:
    for kind in ("EDS", "CDS", "RDS", "LDS"):
        talk.wants(kind, "x")
    assert talk.opens() == ["SUBSCRIBE LDS x", "SUBSCRIBE RDS x", "SUBSCRIBE CDS x", "SUBSCRIBE EDS x"]


def test_no_request_is_made_without_a_stream(talk: Talk) -> None:
    talk.wants("LDS", "shop")
    assert talk.says() == []


def test_a_changed_subscription_repeats_version_and_nonce(talk: Talk) -> None:
    talk.wants("CDS", "a")
    talk.opens()
    talk.hears("CDS", "1", a="x")
    talk.says()
    talk.wants("CDS", "b")
    assert talk.says() == ["ACK CDS v=1 n1 a,b"]


def test_requests_coalesce_while_none_can_be_sent(talk: Talk) -> None:
    talk.wants("CDS", "a")
    talk.opens()
    talk.hears("CDS", "1", a="x")
    talk.wants("CDS", "b", "c")
    talk.drops("CDS", "a")
    talk.hears("CDS", "2", a="y")
    assert talk.says() == ["ACK CDS v=2 n2 b,c"]


def test_a_resource_unsubscribed_and_subscribed_in_one_step_needs_no_request(talk: Talk) -> None:
    talk.wants("CDS", "a")
    talk.opens()
    talk.hears("CDS", "1", a="x")
    talk.says()
    talk.drops("CDS", "a")
    assert talk.wants("CDS", "a") == {"a": "x"}
    assert talk.says() == []


def test_a_resource_subscribed_again_after_the_request_went_out_is_new(talk: Talk) -> None:
    talk.wants("CDS", "a", "b")
    talk.opens()
    talk.hears("CDS", "1", a="x", b="y")
    talk.drops("CDS", "a")
    assert talk.says() == ["ACK CDS v=1 n1 b"]
    assert talk.wants("CDS", "a") == {}
    assert talk.says() == ["ACK CDS v=1 n1 b,a"]


def test_the_last_name_of_a_type_leaves_an_empty_list(talk: Talk) -> None:
    talk.wants("CDS", "a")
    talk.opens()
    talk.hears("CDS", "1", a="x")
    talk.drops("CDS", "a")
    assert talk.says() == ["ACK CDS v=1 n1"]


def test_an_empty_list_is_never_a_types_first_request(talk: Talk) -> None:
    talk.wants("LDS", "shop")
    talk.wants("CDS", "a")
    talk.drops("CDS", "a")
    assert talk.opens() == ["SUBSCRIBE LDS shop"]
    talk.hears("CDS", "1", a="x")
    assert talk.says() == []


def test_the_node_goes_with_the_first_request_of_each_stream() -> None:
    node = Node("web-1", "web", LocalityId("eu", "eu-1", "r7"), {"team": "shop"})
    talk = Talk()
    talk.conversation = AdsStreamState(SERVER, node)
    talk.wants("LDS", "shop")
    talk.wants("CDS", "a")
    for _ in range(2):
        talk.conversation.stream_opened()
        first, second = talk.requests()
        assert (first.node.id, first.node.cluster, first.node.locality.sub_zone) == ("web-1", "web", "r7")
        assert dict(first.node.metadata) == {"team": "shop"}
        assert "xds.config.resource-in-sotw" in first.node.client_features
        assert not second.HasField("node")


def test_the_user_agent_has_the_version_of_the_project() -> None:
    talk = Talk()
    talk.wants("CDS", "a")
    talk.conversation.stream_opened()
    assert talk.requests()[0].node.user_agent_version == trxds.__version__


# -- ACK and NACK


def test_a_nack_has_the_last_accepted_version_and_every_error(talk: Talk) -> None:
    talk.wants("CDS", "a", "b")
    talk.opens()
    talk.hears("CDS", "1", a="x", b="y")
    talk.says()
    talk.hears("CDS", "2", a=Bad("no"), b=Bad("never"))
    [request] = talk.requests()
    assert in_words(request) == "NACK CDS v=1 n2 a,b"
    assert request.error_detail.code == StatusCode.INVALID_ARGUMENT
    assert request.error_detail.message == (
        "xDS response validation errors: ["
        "resource index 0: a: INVALID_ARGUMENT: errors validating Cluster resource: [no]; "
        "resource index 1: b: INVALID_ARGUMENT: errors validating Cluster resource: [never]]"
    )


def test_a_first_response_that_is_refused_leaves_no_version(talk: Talk) -> None:
    talk.wants("CDS", "a")
    talk.opens()
    talk.hears("CDS", "1", a=Bad("no"))
    assert talk.says() == ["NACK CDS n1 a"]


def test_an_error_is_reported_once(talk: Talk) -> None:
    talk.wants("CDS", "a")
    talk.opens()
    talk.hears("CDS", "1", a=Bad("no"))
    talk.says()
    talk.wants("CDS", "b")
    assert talk.says() == ["ACK CDS n1 a,b"]


def test_the_good_resources_of_a_refused_response_are_used(talk: Talk) -> None:
    talk.wants("CDS", "a", "b")
    talk.opens()
    changes = talk.hears("CDS", "1", a="x", b=Bad("no"))
    assert changes["a"] == "x"
    assert changes["b"] == (
        f'error: CDS resource "b" {WHERE}: {since("NACKED")}: invalid resource: '
        "INVALID_ARGUMENT: errors validating Cluster resource: [no]"
    )


def test_an_invalid_update_leaves_the_last_good_value_and_says_so(talk: Talk) -> None:
    talk.wants("EDS", "a")
    talk.opens()
    talk.hears("EDS", "1", a="x")
    assert talk.hears("EDS", "2", a=Bad("no"))["a"].startswith(f'x but EDS resource "a" {WHERE}: {since("NACKED")}: ')
    assert talk.hears("EDS", "3", a="x") == {"a": "x"}


def test_a_bad_resource_that_nobody_asked_for_is_refused_too(talk: Talk) -> None:
    talk.wants("CDS", "a")
    talk.opens()
    assert talk.hears("CDS", "1", a="x", z=Bad("no")) == {"a": "x"}
    assert talk.says() == ["NACK CDS n1 a"]


def test_a_good_resource_that_nobody_asked_for_is_ignored(talk: Talk) -> None:
    talk.wants("CDS", "a")
    talk.opens()
    assert talk.hears("CDS", "1", a="x", z="y") == {"a": "x"}
    assert talk.wants("CDS", "z") == {}


def test_an_unchanged_resource_is_not_published_again(talk: Talk) -> None:
    talk.wants("CDS", "a", "b")
    talk.opens()
    talk.hears("CDS", "1", a="x", b="y")
    assert talk.hears("CDS", "2", a="x", b="z") == {"b": "z"}
    assert talk.says() == ["ACK CDS v=2 n2 a,b"]


def test_a_parsed_resource_is_cached_while_it_is_subscribed(talk: Talk) -> None:
    talk.wants("CDS", "a", "b")
    talk.opens()
    talk.hears("CDS", "1", a="x", b=Bad("no"))
    talk.hears("CDS", "2", a="y", b=Bad("no"))
    known = talk.conversation.parsed_resources(TYPES["CDS"])
    assert set(known) == {("", b"a=y"), ("", b"b=no")}
    talk.drops("CDS", "a", "b")
    talk.says()
    assert not known


def test_a_nack_is_not_replaced_by_a_later_ack(talk: Talk) -> None:
    talk.wants("EDS", "a", "b")
    talk.opens()
    talk.hears("EDS", "1", a="x", b="y")
    talk.says()
    talk.hears("EDS", "2", a=Bad("no"))
    talk.hears("EDS", "3", b="z")
    refusal, answer = talk.requests()
    assert [in_words(refusal), in_words(answer)] == ["NACK EDS v=1 n2 a,b", "ACK EDS v=3 n3 a,b"]
    assert "[no]" in refusal.error_detail.message


def test_many_responses_get_the_first_nack_and_the_last_ack(talk: Talk) -> None:
    talk.wants("EDS", "a")
    talk.opens()
    for version in range(1, 9):
        talk.hears("EDS", str(version), a=Bad("no") if version % 2 else "x")
    assert talk.says() == ["NACK EDS n1 a", "ACK EDS v=8 n8 a"]
