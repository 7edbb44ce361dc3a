"""What bad news do to a resource: kept or dropped, and what watchers and CSDS see (A53, A88), as values."""

from __future__ import annotations

import math

import pytest
from support.talk import WHERE, Bad, Talk, shown, since

from trxds.xds.bootstrap import ServerConfig
from trxds.xds.resource import CacheState, Resource
from trxds.xds.resource_error_policy import ResourceErrorPolicy, is_a88_enabled, resource_error_policy

NOT_FOUND, PERMISSION_DENIED, INTERNAL = 5, 7, 13


def talk_with(*features: str, a88: bool = True) -> Talk:
    return Talk(ServerConfig("plane:18000", features=frozenset(features)), a88=a88)


def talk_that_has(*features: str, a88: bool = True) -> Talk:
    """Cluster a came and is x."""
    talk = talk_with(*features, a88=a88)
    talk.wants("CDS", "a")
    talk.opens()
    talk.hears("CDS", "1", a="x")
    return talk


def refused(talk: Talk) -> None:
    talk.hears("CDS", "2", a=Bad("no"))


def deleted(talk: Talk) -> None:
    talk.hears("CDS", "2")


def not_found(talk: Talk) -> None:
    talk.hears_of_failure("CDS", "2", "a", NOT_FOUND, "who?")


def permission_denied(talk: Talk) -> None:
    talk.hears_of_failure("CDS", "2", "a", PERMISSION_DENIED, "not for you")


def internal(talk: Talk) -> None:
    talk.hears_of_failure("CDS", "2", "a", INTERNAL, "my disk is full")


DEFAULT, FAIL, A53 = ("a88",), ("a88", "fail_on_data_errors"), ("ignore_resource_deletion",)

# A88's summary of behaviours, and what stood before it: whether a cached resource stays.
TABLE = [
    (refused, (), True, CacheState.NACKED),
    (refused, DEFAULT, True, CacheState.NACKED),
    (refused, FAIL, False, CacheState.NACKED),
    (deleted, (), False, CacheState.DOES_NOT_EXIST),
    (deleted, A53, True, CacheState.DOES_NOT_EXIST),
    (deleted, DEFAULT, True, CacheState.DOES_NOT_EXIST),
    (deleted, (*DEFAULT, *A53), True, CacheState.DOES_NOT_EXIST),
    (deleted, FAIL, False, CacheState.DOES_NOT_EXIST),
    (deleted, (*FAIL, *A53), False, CacheState.DOES_NOT_EXIST),
    (not_found, (), True, CacheState.RECEIVED_ERROR),
    (not_found, DEFAULT, True, CacheState.RECEIVED_ERROR),
    (not_found, FAIL, False, CacheState.RECEIVED_ERROR),
    (permission_denied, DEFAULT, True, CacheState.RECEIVED_ERROR),
    (permission_denied, FAIL, False, CacheState.RECEIVED_ERROR),
    (internal, DEFAULT, True, CacheState.RECEIVED_ERROR),
    (internal, FAIL, True, CacheState.RECEIVED_ERROR),
]


@pytest.mark.parametrize(("news", "features", "stays", "state"), TABLE)
def test_a_cached_resource_stays_or_goes(news, features, stays, state) -> None:
    talk = talk_that_has(*features, a88="a88" in features)
    news(talk)
    resource = talk.resource("a")
    assert resource.state is state
    assert (resource.value == "x") is stays
    assert resource.last_published is not None
    assert (resource.last_published.ambient if stays else resource.last_published.error) is not None


@pytest.mark.parametrize(("news", "features", "stays", "state"), TABLE)
def test_a_resource_with_an_error_is_acked_when_its_last_valid_version_returns(news, features, stays, state) -> None:
    talk = talk_that_has(*features, a88="a88" in features)
    news(talk)
    assert talk.hears("CDS", "3", a="x") == {"a": "x"}
    assert talk.resource("a").state is CacheState.ACKED


@pytest.mark.parametrize("news", [refused, deleted, not_found, permission_denied, internal])
def test_watchers_never_get_a_status_code_of_the_control_plane(news) -> None:
    for features in ((), ("fail_on_data_errors",)):
        talk = talk_that_has(*features)
        news(talk)
        told = talk.resource("a").last_published
        assert told is not None
        shown(told)  # it asserts that every status is UNAVAILABLE (A54)


def test_a_resource_is_in_state_requested_until_a_response() -> None:
    talk = talk_with()
    talk.wants("CDS", "a")
    assert talk.resource("a").state is CacheState.REQUESTED
    assert repr(talk.resource("a")) == "<Resource CDS a REQUESTED>"


def test_a_resource_that_never_came_does_not_exist_after_15_seconds() -> None:
    talk = talk_with()
    talk.wants("CDS", "a")
    talk.opens()
    assert talk.waits(14.9) == {}
    assert talk.waits(0.1) == {
        "a": f'absent: CDS resource "a" {WHERE}: {since("DOES_NOT_EXIST", 15)}: does not exist, asked 15 s before'
    }
    assert talk.resource("a").state is CacheState.DOES_NOT_EXIST


def test_a_resource_is_late_after_30_seconds_with_resource_timer_is_transient_error() -> None:
    talk = talk_with("resource_timer_is_transient_error")
    talk.wants("CDS", "a")
    talk.opens()
    assert talk.waits(29.9) == {}
    assert talk.waits(0.1) == {
        "a": f'error: CDS resource "a" {WHERE}: {since("TIMEOUT", 30)}: no answer, asked 30 s before'
    }
    assert talk.resource("a").state is CacheState.TIMEOUT


def talk_that_has_and_requested_again(*features: str, a88: bool) -> Talk:
    """Endpoints a came and are x; the watcher went, and came back while the request without them was in flight."""
    talk = talk_with(*features, a88=a88)
    talk.wants("EDS", "a", "b")
    talk.opens()
    talk.hears("EDS", "1", a="x", b="y")
    talk.drops("EDS", "a")
    request = talk.conversation.next_request(talk.now)
    talk.wants("EDS", "a")
    talk.conversation.sent(request, talk.now)
    talk.says()
    return talk


def test_a_value_in_use_that_is_requested_again_and_is_late_stays_in_use() -> None:
    talk = talk_that_has_and_requested_again("resource_timer_is_transient_error", a88=True)
    assert talk.waits(30)["a"].startswith(f'x but EDS resource "a" {WHERE}: {since("TIMEOUT", 30)}: no answer')


@pytest.mark.parametrize(
    ("features", "stays"), [((), False), (A53, True), (DEFAULT, True), (FAIL, False), ((*FAIL, *A53), False)]
)
def test_a_value_in_use_that_is_requested_again_and_does_not_come_stays_or_goes_as_after_a_deletion(
    features, stays
) -> None:
    talk = talk_that_has_and_requested_again(*features, a88="a88" in features)
    why = f'EDS resource "a" {WHERE}: {since("DOES_NOT_EXIST", 15)}: does not exist, asked 15 s before'
    assert talk.waits(15) == {"a": f"x but {why}; the last one is kept" if stays else f"absent: {why}"}


def test_a_late_resource_that_a_response_leaves_out_is_late_as_before() -> None:
    talk = talk_with("resource_timer_is_transient_error")
    talk.wants("CDS", "a", "b")
    talk.opens()
    talk.hears("CDS", "1", b="y")
    talk.waits(30)
    assert talk.hears("CDS", "2", b="z") == {"b": "z"}


def test_a_late_resource_has_a_timer_again_on_a_new_stream() -> None:
    talk = talk_with("resource_timer_is_transient_error")
    talk.wants("CDS", "a")
    talk.opens()
    talk.waits(30)
    talk.breaks()
    talk.opens()
    assert talk.conversation.next_deadline == 60


def test_a_resource_error_stops_the_resource_timer() -> None:
    talk = talk_with()
    talk.wants("CDS", "a")
    talk.opens()
    talk.hears_of_failure("CDS", "1", "a", INTERNAL, "my disk is full")
    assert talk.waits(60) == {}
    assert talk.resource("a").state is CacheState.RECEIVED_ERROR


def test_a_resource_errors_message_is_published_with_its_server() -> None:
    talk = talk_with(a88=False)
    talk.wants("CDS", "a")
    talk.opens()
    assert talk.hears_of_failure("CDS", "1", "a", PERMISSION_DENIED, "not for you") == {
        "a": f'error: CDS resource "a" {WHERE}: {since("RECEIVED_ERROR")}: '
        "the server reports PERMISSION_DENIED: not for you"
    }


def test_only_the_resource_error_not_found_makes_a_resource_absent() -> None:
    talk = talk_with()
    talk.wants("CDS", "a", "b")
    talk.opens()
    assert talk.hears_of_failure("CDS", "1", "a", NOT_FOUND, "who?")["a"].startswith("absent: ")
    assert talk.hears_of_failure("CDS", "2", "b", INTERNAL, "my disk is full")["b"].startswith("error: ")


def test_a_response_with_resource_errors_is_acked() -> None:
    talk = talk_that_has()
    talk.says()
    talk.hears_of_failure("CDS", "2", "a", NOT_FOUND, "who?")
    assert talk.says() == ["ACK CDS v=2 n2 a"]


def test_a_resource_error_for_an_unsubscribed_name_is_ignored() -> None:
    talk = talk_that_has()
    assert talk.hears_of_failure("RDS", "1", "r", NOT_FOUND, "who?") == {}


def test_a_resource_error_does_not_delete_a_cluster() -> None:
    talk = talk_that_has("fail_on_data_errors")
    talk.hears_of_failure("CDS", "2", "a", INTERNAL, "my disk is full")
    assert talk.resource("a").value == "x"


def test_the_cache_has_each_update_with_its_time() -> None:
    talk = talk_with()
    talk.wants("CDS", "a")
    talk.opens()
    talk.now = 3.0
    talk.hears("CDS", "1", a="x")
    talk.now = 5.0
    talk.hears("CDS", "2", a=Bad("no"))
    resource: Resource = talk.resource("a")
    assert resource.accepted is not None and resource.failed is not None
    assert (resource.accepted.version, resource.accepted.raw, resource.accepted.at) == ("1", ("", b"a=x"), 3.0)
    assert (resource.failed.version, resource.failed.raw, resource.failed.at) == ("2", ("", b"a=no"), 5.0)
    assert repr(resource) == "<Resource CDS a NACKED, cached>"


def test_server_features_of_the_other_grfc_are_ignored() -> None:
    assert (
        resource_error_policy({"fail_on_data_errors", "resource_timer_is_transient_error"}, a88=False)
        == ResourceErrorPolicy()
    )
    assert resource_error_policy({"ignore_resource_deletion"}, a88=True) == resource_error_policy(set(), a88=True)


@pytest.mark.parametrize(("value", "on"), [("true", True), ("TRUE", True), ("false", False), ("", False), ("1", False)])
def test_the_environment_enables_a88(value: str, on: bool) -> None:
    assert is_a88_enabled({"GRPC_EXPERIMENTAL_XDS_DATA_ERROR_HANDLING": value}) is on
    assert not is_a88_enabled({})


def test_an_unknown_code_of_a_resource_error_is_shown_as_its_number() -> None:
    talk = talk_with()
    talk.wants("CDS", "a")
    talk.opens()
    assert talk.hears_of_failure("CDS", "1", "a", 99, "odd")["a"].endswith(": the server reports code 99: odd")


def test_an_absent_resource_that_no_value_stands_in_for_is_not_said_to_be_kept() -> None:
    talk = talk_with("ignore_resource_deletion", a88=False)
    talk.wants("CDS", "a")
    talk.opens()
    talk.hears("CDS", "1", a=Bad("no"))
    assert talk.hears("CDS", "2")["a"].endswith(": does not exist, deleted by the server")


def test_only_a_deletion_that_was_ignored_is_logged(caplog) -> None:
    caplog.set_level("INFO", "trxds.xds")
    talk = talk_that_has(a88=False)
    deleted(talk)
    talk.hears("CDS", "3", a="x")
    deleted(talk)
    talk.drops("CDS", "a")
    talk.says()
    assert caplog.messages == []


def test_an_absent_resource_has_no_timer_on_a_new_stream() -> None:
    talk = talk_that_has(a88=False)
    deleted(talk)
    talk.breaks("over")
    talk.opens()
    assert talk.conversation.next_deadline == math.inf
