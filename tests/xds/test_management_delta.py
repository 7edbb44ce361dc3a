"""The delta half of the ManagementServer, by its bookkeeping alone."""

from __future__ import annotations

from typing import Any

from trxds.resources import protos
from trxds.resources.types import CDS
from trxds.testing import resources
from trxds.testing.subscriptions import Delta


class Stream:
    """One client's clusters; what is sent is "name" or "-name" for one that is not there."""

    def __init__(self, *names: str) -> None:
        self.delta = Delta()
        self.entries: dict[str, Any] = {}
        self.put(*names)

    def put(self, *names: str, **more: float) -> None:
        self.entries.update((name, protos.from_json(resources.cluster(name, **more))) for name in names)

    def asks(self, *names: str, less: tuple[str, ...] = (), have: dict[str, str] | None = None) -> tuple[str, ...]:
        request = protos.DeltaDiscoveryRequest(
            type_url=CDS.type_url,
            resource_names_subscribe=names,
            resource_names_unsubscribe=less,
            initial_resource_versions=have or {},
        )
        return self.delta.handle_request("CDS", request)

    def sends(self) -> list[str]:
        sending = self.delta.next_response("CDS", self.entries, 1, "n1")
        if sending is None:
            return []
        return [each.name for each in sending.message.resources] + [f"-{n}" for n in sending.message.removed_resources]


def test_the_delta_management_server_sends_a_requested_resource_once() -> None:
    stream = Stream("a", "b")
    assert stream.asks("a") == ("a",)
    assert stream.sends() == ["a"]
    assert stream.sends() == []


def test_the_delta_management_server_sends_only_changed_resources() -> None:
    stream = Stream("a", "b")
    stream.asks("a", "b")
    stream.sends()
    stream.put("b", idle_timeout=5)
    assert stream.sends() == ["b"]


def test_the_endpoints_of_a_cluster_that_changed_follow_it_once_more() -> None:
    stream = Stream("a", "b")
    endpoints = {name: protos.from_json(resources.endpoints(name)) for name in ("a", "b")}
    stream.asks("a", "b")
    stream.sends()
    stream.delta.handle_request("EDS", protos.DeltaDiscoveryRequest(resource_names_subscribe=["a", "b"]))
    first = stream.delta.next_response("EDS", endpoints, 1, "n2")
    assert first is not None
    stream.put("b", idle_timeout=5)
    assert stream.sends() == ["b"]
    again = stream.delta.next_response("EDS", endpoints, 1, "n4")
    assert again is not None
    assert (first.names, again.names) == (("a", "b"), ("b",))


def test_the_delta_management_server_reports_a_missing_resource_once_and_sends_it_later() -> None:
    stream = Stream()
    stream.asks("a")
    assert stream.sends() == ["-a"]
    assert stream.sends() == []
    stream.put("a")
    assert stream.sends() == ["a"]


def test_the_delta_management_server_sends_removed_names() -> None:
    stream = Stream("a")
    stream.asks("a")
    stream.sends()
    stream.entries.clear()
    assert stream.sends() == ["-a"]


def test_the_delta_management_server_sends_an_unsubscribed_resource_only_when_it_is_requested_again() -> None:
    stream = Stream("a", "b")
    stream.asks("a", "b")
    stream.sends()
    assert stream.asks(less=("a",)) == ("b",)
    stream.put("a", idle_timeout=5)
    assert stream.sends() == []
    stream.asks("a")
    assert stream.sends() == ["a"]


def test_the_delta_management_server_sends_a_resource_of_the_clients_version_only_after_a_change() -> None:
    first, second = Stream("a", "b"), Stream("a", "b")
    first.asks("a", "b")
    sending = first.delta.next_response("CDS", first.entries, 1, "n1")
    assert sending is not None
    have = {each.name: each.version for each in sending.message.resources}
    second.put("b", idle_timeout=5)
    second.asks("a", "b", have=have)
    assert second.sends() == ["b"]


def test_the_delta_management_server_removes_a_name_that_the_client_still_has() -> None:
    stream = Stream()
    stream.asks("a", have={"a": "1"})
    assert stream.sends() == ["-a"]


def test_a_first_request_that_names_nothing_asks_for_everything() -> None:
    stream = Stream("a")
    stream.asks()
    assert stream.sends() == ["a"]
    stream.put("b")
    assert stream.sends() == ["b"]
    del stream.entries["a"]
    assert stream.sends() == ["-a"]
