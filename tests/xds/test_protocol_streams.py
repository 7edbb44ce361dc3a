"""The conversation over several streams: what outlives one, and what its end means."""

from __future__ import annotations

import pytest
from support.talk import WHERE, Bad, Talk


@pytest.fixture
def talk() -> Talk:
    return Talk()


def test_a_new_stream_has_the_old_version_and_no_nonce(talk: Talk) -> None:
    talk.wants("LDS", "shop")
    talk.wants("CDS", "a")
    talk.opens()
    talk.hears("LDS", "7", shop="x")
    talk.breaks()
    assert talk.opens() == ["SUBSCRIBE LDS v=7 shop", "SUBSCRIBE CDS a"]


def test_a_stream_that_told_its_versions_asks_again_without_when_another_server_may_replace_resources(
    talk: Talk,
) -> None:
    talk.wants("CDS", "a")
    talk.opens()
    talk.hears("CDS", "7", a="x")
    talk.breaks()
    assert talk.opens() == ["SUBSCRIBE CDS v=7 a"]
    talk.conversation.forget_versions()
    assert talk.says() == ["SUBSCRIBE CDS a"]


def test_the_version_outlives_the_last_subscription(talk: Talk) -> None:
    talk.wants("CDS", "a")
    talk.opens()
    talk.hears("CDS", "1", a="x")
    talk.drops("CDS", "a")
    talk.says()
    talk.breaks()
    talk.wants("CDS", "b")
    assert talk.opens() == ["SUBSCRIBE CDS v=1 b"]


def test_the_end_of_a_stream_that_answered_is_no_error(talk: Talk) -> None:
    talk.wants("CDS", "a", "b")
    talk.opens()
    talk.hears("CDS", "1", a="x")
    assert talk.breaks() == {}


def test_a_stream_that_never_answered_is_an_error_for_every_watcher(talk: Talk) -> None:
    talk.wants("LDS", "shop")
    talk.opens()
    talk.hears("LDS", "1", shop="x")
    talk.breaks()
    talk.wants("CDS", "a")
    talk.opens()
    since = "since 1970-01-01T00:00:00Z"
    reason = f"{since}: cannot reach the xDS server {since}: Connection refused"
    assert talk.breaks() == {
        "shop": f'x but LDS resource "shop" {WHERE}: ACKED {reason}',
        "a": f'error: CDS resource "a" {WHERE}: REQUESTED {reason}',
    }


def test_a_server_that_cannot_be_connected_is_an_error_without_a_stream(talk: Talk) -> None:
    talk.wants("LDS", "shop")
    assert talk.breaks("Network is unreachable")["shop"].endswith("Network is unreachable")


def test_the_same_failure_of_the_server_is_published_once(talk: Talk) -> None:
    talk.wants("LDS", "shop")
    talk.breaks()
    assert talk.breaks() == {}


def test_a_new_watcher_during_a_failure_of_the_server_gets_it_at_once(talk: Talk) -> None:
    talk.wants("LDS", "shop")
    talk.breaks()
    assert talk.wants("CDS", "a")["a"].endswith("Connection refused")


def test_the_first_response_clears_the_failure_of_every_type(talk: Talk) -> None:
    talk.wants("LDS", "shop")
    talk.wants("CDS", "a")
    talk.opens()
    talk.hears("LDS", "1", shop="x")
    talk.hears("CDS", "1", a="y")
    talk.breaks()
    talk.breaks()
    talk.opens()
    assert talk.hears("LDS", "1", shop="x") == {"shop": "x", "a": "y"}


def test_an_error_of_the_resource_goes_before_a_failure_of_the_server(talk: Talk) -> None:
    talk.wants("CDS", "a", "b")
    talk.opens()
    talk.hears("CDS", "1", a=Bad("no"))
    talk.waits(15)
    talk.breaks()
    assert talk.breaks() == {}
