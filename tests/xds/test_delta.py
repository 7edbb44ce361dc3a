"""The incremental protocol, as values: what is asked, and what an answer means."""

from __future__ import annotations

import pytest
from support.talk import TYPES, Bad, Talk

from trxds.resources import protos
from trxds.resources.context import ParseContext
from trxds.resources.cooperative_parse import at_once
from trxds.resources.types import CDS, RDS
from trxds.testing import resources
from trxds.xds.delta import DeltaProtocol


@pytest.fixture
def talk() -> DeltaTalk:
    return DeltaTalk(dialect=DeltaProtocol())


class DeltaTalk(Talk):
    """Requests as `+wanted -unwanted`, responses with what was removed."""

    def said(self) -> list[str]:
        return [in_words(request) for request in self.requests()]

    def opened(self) -> list[str]:
        self.conversation.stream_opened()
        return self.said()


def in_words(request: protos.DeltaDiscoveryRequest) -> str:
    words = ["NACK" if request.HasField("error_detail") else "ACK" if request.response_nonce else "ASK"]
    words += [request.response_nonce] if request.response_nonce else []
    words += [f"+{name}" for name in request.resource_names_subscribe]
    words += [f"-{name}" for name in request.resource_names_unsubscribe]
    words += [f"{name}={version}" for name, version in sorted(request.initial_resource_versions.items())]
    return " ".join(words)


def test_only_what_is_more_or_less_is_said(talk: DeltaTalk) -> None:
    talk.wants("CDS", "a", "b")
    assert talk.opened() == ["ASK +a +b"]
    talk.wants("CDS", "c")
    assert talk.said() == ["ASK +c"]
    talk.drops("CDS", "a", "b")
    assert talk.said() == ["ASK -a -b"]


def test_an_answer_has_the_nonce_and_nothing_else_has(talk: DeltaTalk) -> None:
    talk.wants("CDS", "a")
    talk.opened()
    talk.hears("CDS", "1", a="x")
    assert talk.said() == ["ACK n1"]
    talk.wants("CDS", "b")
    assert talk.said() == ["ASK +b"]


def test_a_changed_subscription_rides_on_an_answer(talk: DeltaTalk) -> None:
    talk.wants("CDS", "a")
    talk.opened()
    talk.hears("CDS", "1", a=Bad("no"))
    talk.wants("CDS", "b")
    assert talk.said() == ["NACK n1 +b"]


def test_a_name_that_is_dropped_and_taken_again_in_one_step_is_not_mentioned(talk: DeltaTalk) -> None:
    talk.wants("CDS", "a")
    talk.opened()
    talk.drops("CDS", "a")
    talk.wants("CDS", "a")
    assert talk.said() == []


def test_what_is_left_out_of_a_response_is_as_it_was(talk: DeltaTalk) -> None:
    talk.wants("CDS", "a", "b")
    talk.opened()
    talk.hears("CDS", "1", a="x", b="y")
    assert talk.hears("CDS", "2", a="z") == {"a": "z"}
    assert talk.resource("b").value == "y"


@pytest.mark.parametrize("kind", TYPES)
def test_what_is_removed_is_absent_at_once_whatever_its_type(talk: DeltaTalk, kind: str) -> None:
    talk.wants(kind, "a")
    talk.opened()
    talk.hears(kind, "1", a="x")
    assert talk.hears(kind, "2", removed=("a",))["a"].startswith("absent: ")


def test_what_never_came_and_is_removed_is_absent_without_a_wait(talk: DeltaTalk) -> None:
    talk.wants("RDS", "r")
    talk.opened()
    assert talk.hears("RDS", "1", removed=("r",))["r"].startswith("absent: ")
    assert talk.conversation.next_deadline == float("inf")


def test_a_new_stream_is_told_what_we_have_and_always_has_one_thing_to_send(talk: DeltaTalk) -> None:
    talk.wants("CDS", "a", "b", "c")
    talk.opened()
    talk.hears("CDS", "1", a="x", b="y", c="z")
    talk.breaks()
    assert talk.opened() == ["ASK +a +b +c a= b=1 c=1"]


def test_what_was_deleted_is_not_among_it_and_what_was_refused_has_no_version(talk: DeltaTalk) -> None:
    talk.wants("CDS", "a", "b", "c", "d")
    talk.opened()
    talk.hears("CDS", "1", a="w", b="x", c="y", d="z")
    talk.hears("CDS", "2", b=Bad("no"), removed=("c",))
    talk.breaks()
    assert talk.opened() == ["ASK +a +b +c +d a= b= d=1"]


def test_what_another_server_may_have_replaced_has_no_version(talk: DeltaTalk) -> None:
    talk.wants("CDS", "a", "b")
    talk.opened()
    talk.hears("CDS", "1", a="x", b="y")
    talk.breaks()
    talk.conversation.forget_versions()
    assert talk.opened() == ["ASK +a +b a= b="]


def read(**fields: object) -> object:
    response = protos.DeltaDiscoveryResponse(type_url=CDS.type_url, nonce="n", system_version_info="7", **fields)
    return at_once(DeltaProtocol.read(response, CDS, {}, ParseContext()))


def packed(name: str) -> protos.AnyProto:
    return protos.from_json(resources.cluster(name))


def test_each_resource_has_its_own_version() -> None:
    wrapped = [protos.Resource(name=name, version=f"{name}7", resource=packed(name)) for name in "ab"]
    reading = read(resources=wrapped, removed_resources=["c"])
    assert [(item.parsed.name, item.version) for item in reading.items] == [("a", "a7"), ("b", "b7")]
    assert (reading.removed, reading.partial, reading.nonce) == (("c",), True, "n")


def test_a_resource_without_a_body_says_only_that_it_lives() -> None:
    assert read(resources=[protos.Resource(name="a", version="1")]).items == ()


def test_one_that_cannot_be_read_has_the_name_it_was_sent_under() -> None:
    broken = protos.AnyProto(type_url=CDS.type_url, value=b"\xff")
    [item] = read(resources=[protos.Resource(name="a", version="1", resource=broken)]).items
    assert item.parsed.name == "a"
    assert item.parsed.errors


def test_one_of_another_type_is_refused() -> None:
    wrong = protos.AnyProto(type_url=RDS.type_url)
    [item] = read(resources=[protos.Resource(name="a", resource=wrong)]).items
    assert item.parsed.errors
