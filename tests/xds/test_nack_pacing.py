"""NACKs that say nothing new wait: the first goes at once, then they back off to one a second."""

from __future__ import annotations

import math

import pytest
from support.talk import Bad, Talk, in_words

from trxds.xds.delta import DeltaProtocol


@pytest.fixture
def talk() -> Talk:
    """The first NACK has gone out."""
    talk = Talk()
    talk.wants("CDS", "a", "b")
    talk.opens()
    talk.hears("CDS", "1", a="x", b="y")
    talk.says()
    talk.hears("CDS", "2", a=Bad("no"), b="y")
    assert talk.says() == ["NACK CDS v=1 n2 a,b"]
    return talk


def test_a_server_that_sends_what_was_refused_at_once_gets_a_nack_a_second(talk: Talk) -> None:
    began, times = talk.now, []
    for _ in range(8):
        talk.hears("CDS", "2", a=Bad("no"), b="y")
        assert talk.says() == []
        talk.waits(talk.conversation.next_deadline - talk.now)
        assert len(talk.says()) == 1
        times.append(round(talk.now - began, 3))
    assert times == [0.1, 0.3, 0.7, 1.5, 2.5, 3.5, 4.5, 5.5]


def test_nacks_that_repeat_an_old_one_are_paced_from_now(talk: Talk) -> None:
    talk.waits(100)
    talk.hears("CDS", "2", a=Bad("no"), b="y")
    assert talk.says() == ["NACK CDS v=1 n3 a,b"]
    talk.hears("CDS", "2", a=Bad("no"), b="y")
    assert talk.says() == []


def test_a_nack_that_waits_has_the_last_nonce(talk: Talk) -> None:
    talk.hears("CDS", "2", a=Bad("no"), b="y")
    talk.hears("CDS", "3", a=Bad("no"), b="z")
    assert talk.says() == []
    talk.waits(0.1)
    assert talk.says() == ["NACK CDS v=1 n4 a,b"]


def test_a_nack_that_may_go_leaves_no_deadline_while_the_server_does_not_read(talk: Talk) -> None:
    # The clock would wait for a time that is over, again and again.
    talk.hears("CDS", "2", a=Bad("no"), b="y")
    talk.says()
    talk.waits(0.1)
    assert talk.conversation.next_deadline == math.inf
    assert talk.says() == ["NACK CDS v=1 n3 a,b"]


def test_a_nack_that_was_sent_leaves_no_deadline(talk: Talk) -> None:
    talk.hears("CDS", "2", a=Bad("no"), b="y")
    talk.says()
    talk.waits(0.1)
    talk.says()
    assert talk.conversation.next_deadline == math.inf


def test_a_valid_update_is_acknowledged_at_once_while_a_nack_waits(talk: Talk) -> None:
    talk.hears("CDS", "2", a=Bad("no"), b="y")
    talk.says()
    talk.hears("CDS", "3", a="z", b="y")
    assert talk.says() == ["ACK CDS v=3 n4 a,b"]
    assert talk.conversation.next_deadline == math.inf


def test_a_nack_with_another_error_goes_at_once(talk: Talk) -> None:
    talk.hears("CDS", "2", a=Bad("no"), b="y")
    talk.hears("CDS", "3", a=Bad("never"), b="y")
    assert talk.says() == ["NACK CDS v=1 n4 a,b"]


def test_a_nack_with_the_same_error_of_another_resource_goes_at_once(talk: Talk) -> None:
    talk.hears("CDS", "2", a=Bad("no"), b=Bad("no"))
    assert talk.says() == ["NACK CDS v=1 n3 a,b"]


def test_an_error_after_a_valid_update_goes_at_once(talk: Talk) -> None:
    talk.hears("CDS", "3", a="z", b="y")
    talk.hears("CDS", "4", a=Bad("no"), b="y")
    assert talk.says() == ["NACK CDS v=3 n4 a,b"]


def test_a_nack_with_the_same_errors_in_another_order_waits(talk: Talk) -> None:
    """go-control-plane's maps have none, and the error's text has the index."""
    talk.hears("CDS", "2", b="y", a=Bad("no"))
    assert talk.says() == []


def test_a_nack_waits_while_only_another_resource_changes() -> None:
    talk = Talk()
    talk.wants("EDS", "a", "b")
    talk.opens()
    for version in range(20):
        talk.hears("EDS", str(version), a=Bad("no"))
        talk.hears("EDS", str(version), b=str(version))
        talk.says()
    talk.hears("EDS", "20", a=Bad("no"))
    assert talk.says() == []


def test_a_change_of_names_takes_the_waiting_nack_along(talk: Talk) -> None:
    talk.hears("CDS", "2", a=Bad("no"), b="y")
    talk.says()
    talk.wants("CDS", "c")
    [request] = talk.requests()
    assert (request.response_nonce, list(request.resource_names)) == ("n3", ["a", "b", "c"])
    assert "[no]" in request.error_detail.message


def test_a_change_of_names_that_crossed_a_response_goes_with_its_nack_at_once(talk: Talk) -> None:
    talk.wants("CDS", "c")
    talk.says()
    talk.hears("CDS", "2", a=Bad("no"), b="y")
    assert talk.says() == ["NACK CDS v=1 n3 a,b,c"]
    talk.hears("CDS", "2", a=Bad("no"), b="y")
    assert talk.says() == []


def test_a_waiting_nack_holds_back_other_requests_of_its_type(talk: Talk) -> None:
    """It would carry the nonce without the error."""
    talk.hears("CDS", "2", a=Bad("no"), c="z")
    talk.wants("CDS", "c")
    assert says_one(talk) == "NACK CDS v=1 n3 a,b,c"
    assert says_one(talk) == "ACK CDS v=1 n3 a,b"
    talk.hears("CDS", "2", a=Bad("no"))
    assert talk.says() == []
    talk.waits(1)
    assert talk.says() == ["NACK CDS v=1 n4 a,b,c"]


def says_one(talk: Talk) -> str:
    request = talk.conversation.next_request(talk.now)
    assert request is not None
    talk.conversation.sent(request, talk.now)
    return in_words(request)


def test_a_waiting_nack_does_not_hold_back_other_types(talk: Talk) -> None:
    talk.hears("CDS", "2", a=Bad("no"), b="y")
    talk.wants("EDS", "a")
    assert talk.says() == ["SUBSCRIBE EDS a"]
    talk.hears("EDS", "1", a="x")
    assert talk.says() == ["ACK EDS v=1 n4 a"]


def test_each_type_has_its_own_nack_delay(talk: Talk) -> None:
    talk.wants("EDS", "a")
    talk.says()
    talk.hears("EDS", "1", a=Bad("no"))
    assert talk.says() == ["NACK EDS n3 a"]


def test_a_new_stream_begins_without_a_nack_delay(talk: Talk) -> None:
    talk.breaks()
    talk.opens()
    talk.hears("CDS", "2", a=Bad("no"), b="y")
    assert talk.says() == ["NACK CDS v=1 n3 a,b"]


def test_each_delta_response_gets_its_answer_and_acks_do_not_wait_for_a_nack() -> None:
    talk = Talk(dialect=DeltaProtocol())
    talk.wants("CDS", "a", "b")
    talk.opens_silently()
    for _ in range(3):
        talk.hears("CDS", "1", a=Bad("no"))
    talk.hears("CDS", "2", b="y")
    talk.wants("CDS", "c")
    requests = talk.requests()
    assert [(each.response_nonce, each.HasField("error_detail")) for each in requests] == [("n1", True), ("n4", False)]
    talk.waits(0.1)
    requests = talk.requests()
    assert [(each.response_nonce, each.HasField("error_detail")) for each in requests] == [("n2", True), ("n3", True)]


def test_a_delta_subscription_does_not_wait_for_a_nack() -> None:
    talk = Talk(dialect=DeltaProtocol())
    talk.wants("CDS", "a")
    talk.opens_silently()
    for _ in range(2):
        talk.hears("CDS", "1", a=Bad("no"))
        talk.requests()
    talk.wants("CDS", "b")
    [request] = talk.requests()
    assert (list(request.resource_names_subscribe), request.HasField("error_detail")) == (["b"], False)
