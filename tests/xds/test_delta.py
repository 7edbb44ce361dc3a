"""The incremental protocol, as values: what is asked, and what an answer means."""

from __future__ import annotations

import pytest
from msgspec import structs
from support.talk import TYPES, Bad, Talk

from trxds.resources import protos
from trxds.resources.context import ParseContext
from trxds.resources.cooperative_parse import run_at_once
from trxds.resources.types import CDS, RDS, Parsed
from trxds.testing import resources
from trxds.xds.bootstrap import ServerConfig
from trxds.xds.delta import DeltaProtocol
from trxds.xds.discovery_response import ParsedResponse
from trxds.xds.resource import CacheState


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


def server_with(feature: str) -> ServerConfig:
    return ServerConfig("plane:18000", features=frozenset([feature]))


def in_words(request: protos.DeltaDiscoveryRequest) -> str:
    words = ["NACK" if request.HasField("error_detail") else "ACK" if request.response_nonce else "ASK"]
    words += [request.response_nonce] if request.response_nonce else []
    words += [f"+{name}" for name in request.resource_names_subscribe]
    words += [f"-{name}" for name in request.resource_names_unsubscribe]
    words += [f"{name}={version}" for name, version in sorted(request.initial_resource_versions.items())]
    return " ".join(words)


def test_a_delta_request_has_only_the_changes_of_the_subscription(talk: DeltaTalk) -> None:
    talk.wants("CDS", "a", "b")
    assert talk.opened() == ["ASK +a +b"]
    talk.wants("CDS", "c")
    assert talk.said() == ["ASK +c"]
    talk.drops("CDS", "a", "b")
    assert talk.said() == ["ASK -a -b"]


def test_only_an_ack_or_nack_of_delta_has_a_nonce(talk: DeltaTalk) -> None:
    talk.wants("CDS", "a")
    talk.opened()
    talk.hears("CDS", "1", a="x")
    assert talk.said() == ["ACK n1"]
    talk.wants("CDS", "b")
    assert talk.said() == ["ASK +b"]


def test_a_delta_ack_has_the_changes_of_the_subscription(talk: DeltaTalk) -> None:
    talk.wants("CDS", "a")
    talk.opened()
    talk.hears("CDS", "1", a=Bad("no"))
    talk.wants("CDS", "b")
    assert talk.said() == ["NACK n1 +b"]


def test_a_delta_request_omits_a_name_that_is_unsubscribed_and_subscribed_in_one_step(talk: DeltaTalk) -> None:
    talk.wants("CDS", "a")
    talk.opened()
    talk.drops("CDS", "a")
    talk.wants("CDS", "a")
    assert talk.said() == []


def test_a_delta_resource_that_was_unsubscribed_is_subscribed_again(talk: DeltaTalk) -> None:
    talk.wants("EDS", "a", "b")
    talk.opened()
    talk.hears("EDS", "1", a="x", b="y")
    talk.said()
    talk.drops("EDS", "a")
    assert talk.said() == ["ASK -a"]
    talk.wants("EDS", "a")
    assert talk.said() == ["ASK +a"]


def test_a_delta_resource_goes_with_the_request_without_it_whatever_responses_that_crosses(talk: DeltaTalk) -> None:
    talk.wants("EDS", "a", "b")
    talk.opened()
    talk.hears("EDS", "1", a="x", b="y")
    talk.said()
    talk.drops("EDS", "a")
    request = talk.conversation.next_request(talk.now)
    talk.hears("EDS", "2", a="z")
    talk.conversation.sent(request, talk.now)
    assert talk.wants("EDS", "a") == {}


def test_a_resource_that_a_delta_response_leaves_out_is_unchanged(talk: DeltaTalk) -> None:
    talk.wants("CDS", "a", "b")
    talk.opened()
    talk.hears("CDS", "1", a="x", b="y")
    assert talk.hears("CDS", "2", a="z") == {"a": "z"}
    assert talk.resource("b").value == "y"


@pytest.mark.parametrize("kind", TYPES)
def test_a_removed_resource_is_absent_at_once_for_every_type(talk: DeltaTalk, kind: str) -> None:
    talk.wants(kind, "a")
    talk.opened()
    talk.hears(kind, "1", a="x")
    assert talk.hears(kind, "2", removed=("a",))["a"].startswith("absent: ")


def test_a_removed_resource_that_never_came_is_absent_before_its_timer(talk: DeltaTalk) -> None:
    talk.wants("RDS", "r")
    talk.opened()
    assert talk.hears("RDS", "1", removed=("r",))["r"].startswith("absent: ")
    assert talk.conversation.next_deadline == float("inf")


def test_a_new_delta_stream_has_all_versions_but_one(talk: DeltaTalk) -> None:
    talk.wants("CDS", "a", "b", "c")
    talk.opened()
    talk.hears("CDS", "1", a="x", b="y", c="z")
    talk.breaks()
    assert talk.opened() == ["ASK +a +b +c a= b=1 c=1"]


def test_a_new_delta_stream_omits_deleted_resources_and_versions_of_rejected_ones(talk: DeltaTalk) -> None:
    talk.wants("CDS", "a", "b", "c", "d")
    talk.opened()
    talk.hears("CDS", "1", a="w", b="x", c="y", d="z")
    talk.hears("CDS", "2", b=Bad("no"), removed=("c",))
    talk.breaks()
    assert talk.opened() == ["ASK +a +b +c +d a= b= d=1"]


def test_a_new_delta_stream_has_no_version_of_a_resource_with_an_error() -> None:
    # So the server sends it again, and the error is over (A88).
    talk = DeltaTalk(a88=True, dialect=DeltaProtocol())
    talk.wants("CDS", "a", "b", "c")
    talk.opened()
    talk.hears("CDS", "1", a="x", b="y", c="z")
    talk.hears_of_failure("CDS", "2", "b", 13, "broken")
    talk.breaks()
    assert talk.resource("b").value == "y"
    assert talk.opened() == ["ASK +a +b +c a= b= c=1"]


def test_a_new_delta_stream_has_each_resources_own_version(talk: DeltaTalk) -> None:
    talk.wants("CDS", "a", "b")
    talk.opened()
    item = talk.item("CDS", "b", "y")
    talk.conversation.received(ParsedResponse(CDS, "1", "n1", (structs.replace(item, version="7"),), partial=True), 0.0)
    talk.hears("CDS", "2", a="x")
    talk.breaks()
    assert talk.opened() == ["ASK +a +b a= b=7"]


def test_a_new_delta_stream_has_the_newest_version_of_a_resource_that_came_again_unchanged(talk: DeltaTalk) -> None:
    talk.wants("CDS", "a", "b")
    talk.opened()
    talk.hears("CDS", "1", a="x", b="y")
    talk.hears("CDS", "2", b="y")
    talk.breaks()
    assert talk.opened() == ["ASK +a +b a= b=2"]


def test_a_new_delta_stream_has_no_version_of_a_resource_that_is_requested_again(talk: DeltaTalk) -> None:
    talk.wants("CDS", "a", "b")
    talk.opened()
    talk.hears("CDS", "1", a="x", b="y")
    talk.said()
    talk.drops("CDS", "b")
    request = talk.conversation.next_request(talk.now)
    talk.wants("CDS", "b")
    talk.conversation.sent(request, talk.now)  # without the name, so the server may not have it any more
    talk.breaks()
    assert talk.resource("b").value == "y"
    assert talk.opened() == ["ASK +a +b a= b="]


def test_a_new_delta_stream_has_no_version_of_a_deleted_resource_that_is_kept() -> None:
    talk = DeltaTalk(server_with("ignore_resource_deletion"), dialect=DeltaProtocol())
    talk.wants("CDS", "a", "b", "c")
    talk.opened()
    talk.hears("CDS", "1", a="x", b="y", c="z")
    talk.hears("CDS", "2", removed=("b",))
    talk.breaks()
    assert talk.resource("b").value == "y"
    assert talk.opened() == ["ASK +a +b +c a= b= c=1"]


def test_a_new_delta_stream_has_no_version_of_a_resource_that_did_not_come_when_it_was_requested_again() -> None:
    # The server has it no more, as far as anybody knows; with a version it would not send it again.
    talk = DeltaTalk(server_with("ignore_resource_deletion"), dialect=DeltaProtocol())
    talk.wants("CDS", "a", "b", "c")
    talk.opened()
    talk.hears("CDS", "1", a="x", b="y", c="z")
    talk.said()
    talk.drops("CDS", "b")
    request = talk.conversation.next_request(talk.now)
    talk.wants("CDS", "b")
    talk.conversation.sent(request, talk.now)
    assert talk.said() == ["ASK +b"]
    talk.waits(15)
    assert (talk.resource("b").state, talk.resource("b").value) == (CacheState.DOES_NOT_EXIST, "y")
    talk.breaks()
    assert talk.opened() == ["ASK +a +b +c a= b= c=1"]


def test_a_resource_that_another_server_may_have_replaced_has_no_version(talk: DeltaTalk) -> None:
    talk.wants("CDS", "a", "b")
    talk.opened()
    talk.hears("CDS", "1", a="x", b="y")
    talk.breaks()
    talk.conversation.forget_versions()
    assert talk.opened() == ["ASK +a +b a= b="]


def told_versions_to_a_second_stream(talk: DeltaTalk) -> None:
    talk.wants("CDS", "a", "b")
    talk.opened()
    talk.hears("CDS", "1", a="x", b="y")
    talk.breaks()
    assert talk.opened() == ["ASK +a +b a= b=1"]


def test_resources_that_another_server_may_replace_are_subscribed_again_on_a_delta_stream_that_told_their_versions(
    talk: DeltaTalk,
) -> None:
    told_versions_to_a_second_stream(talk)
    talk.conversation.forget_versions()
    assert talk.said() == ["ASK +a +b"]


def test_a_delta_request_that_subscribes_all_again_unsubscribes_what_is_wanted_no_longer(talk: DeltaTalk) -> None:
    told_versions_to_a_second_stream(talk)
    talk.drops("CDS", "b")
    talk.conversation.forget_versions()
    assert talk.said() == ["ASK +a -b"]


def test_resources_that_another_server_may_replace_are_subscribed_again_after_a_request_with_versions_in_flight(
    talk: DeltaTalk,
) -> None:
    talk.wants("CDS", "a")
    talk.opened()
    talk.hears("CDS", "1", a="x")
    talk.breaks()
    talk.conversation.stream_opened()
    request = talk.conversation.next_request(0.0)
    talk.conversation.forget_versions()
    talk.conversation.sent(request, 0.0)
    assert talk.said() == ["ASK +a"]


def read(**fields: object) -> object:
    response = protos.DeltaDiscoveryResponse(type_url=CDS.type_url, nonce="n", system_version_info="7", **fields)
    return run_at_once(DeltaProtocol.read(response, CDS, {}, ParseContext()))


def packed(name: str) -> protos.AnyProto:
    return protos.from_json(resources.cluster(name))


def test_each_delta_resource_has_its_own_version() -> None:
    wrapped = [protos.Resource(name=name, version=f"{name}7", resource=packed(name)) for name in "ab"]
    reading = read(resources=wrapped, removed_resources=["c"])
    assert [(item.parsed.name, item.version) for item in reading.items] == [("a", "a7"), ("b", "b7")]
    assert (reading.removed, reading.partial, reading.nonce) == (("c",), True, "n")


def test_a_delta_resource_has_the_name_that_it_was_sent_with() -> None:
    wrapped = [protos.Resource(name=name, version="1", resource=packed("a")) for name in ("x", "y?b=2&a=1")]
    wrapped.append(protos.Resource(name="xdstp://z/envoy.config.cluster.v3.Cluster/y?b=2&a=1", resource=packed("a")))
    assert [item.parsed.name for item in read(resources=wrapped).items] == [
        "x",
        "y?b=2&a=1",
        "xdstp://z/envoy.config.cluster.v3.Cluster/y?a=1&b=2",
    ]


def test_the_second_of_two_delta_resources_of_one_name_touches_nothing() -> None:
    wrapped = [protos.Resource(name="x", version=version, resource=packed("a")) for version in "12"]
    reading = read(resources=wrapped)
    assert [item.parsed.name for item in reading.items] == ["x", None]
    assert reading.errors == ("resource index 1: x: duplicate resource name",)


def test_a_delta_response_that_sends_and_removes_a_resource_is_rejected_and_neither_counts() -> None:
    wrapped = [protos.Resource(name=name, version="1", resource=packed("a")) for name in "xy"]
    reading = read(resources=wrapped, removed_resources=["x", "z"])
    assert [item.parsed.name for item in reading.items] == [None, "y"]
    assert reading.removed == ("z",)
    assert reading.errors == ("resource index 0: x: among the resources and among the removed ones",)


def test_known_bytes_of_a_delta_resource_under_another_name_are_another_resource() -> None:
    response = protos.DeltaDiscoveryResponse(resources=[protos.Resource(name="x", resource=packed("a"))])
    known = {(CDS.type_url, packed("a").value): Parsed("a", None)}
    [item] = run_at_once(DeltaProtocol.read(response, CDS, known, ParseContext())).items
    assert item.parsed.name == "x"


def test_a_delta_resource_without_a_body_is_only_a_heartbeat() -> None:
    assert read(resources=[protos.Resource(name="a", version="1")]).items == ()


def test_a_delta_resource_that_cannot_be_parsed_has_the_name_of_its_wrapper() -> None:
    broken = protos.AnyProto(type_url=CDS.type_url, value=b"\xff")
    [item] = read(resources=[protos.Resource(name="a", version="1", resource=broken)]).items
    assert item.parsed.name == "a"
    assert item.parsed.errors


def test_a_delta_resource_of_another_type_is_rejected() -> None:
    wrong = protos.AnyProto(type_url=RDS.type_url)
    [item] = read(resources=[protos.Resource(name="a", resource=wrong)]).items
    assert item.parsed.errors
