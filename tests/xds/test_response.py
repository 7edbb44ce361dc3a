"""What a DiscoveryResponse says, resource by resource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from trxds.resources import protos
from trxds.resources.context import ParseContext
from trxds.resources.cooperative_parse import run_at_once
from trxds.resources.types import CDS, Parsed
from trxds.testing import resources
from trxds.xds.discovery_response import MAX_NACK_SIZE, ParsedResponse, Raw
from trxds.xds.sotw import SotwProtocol

GOOD = resources.cluster("cart")
BAD = {**resources.cluster("cart"), "lb_policy": "MAGLEV"}


def response(*items: Any) -> Any:
    packed = [item if isinstance(item, protos.AnyProto) else protos.from_json(item) for item in items]
    return protos.DiscoveryResponse(type_url=CDS.type_url, version_info="7", nonce="n", resources=packed)


def reading(*items: Any, known: Mapping[Raw, Parsed] | None = None) -> ParsedResponse:
    return run_at_once(SotwProtocol.read(response(*items), CDS, known or {}, ParseContext()))


def wrapped(resource: dict[str, Any], name: str = "") -> Any:
    return protos.pack(protos.Resource(name=name, resource=protos.from_json(resource)))


def test_a_good_resource_is_a_value_and_no_error() -> None:
    said = reading(GOOD)
    assert (said.type, said.version, said.nonce, said.errors) == (CDS, "7", "n", ())
    [item] = said.items
    assert (item.parsed.name, getattr(item.parsed.value, "name", None)) == ("cart", "cart")


def test_a_bad_resource_is_reported_with_index_name_and_field() -> None:
    assert reading(resources.cluster("other"), BAD).errors == (
        "resource index 1: cart: INVALID_ARGUMENT: errors validating Cluster resource: "
        "[field:lb_policy error:LB policy is not supported]",
    )


def test_the_errors_of_a_thousand_resources_are_the_first_ones_and_a_count() -> None:
    *shown, rest = reading(*({**BAD, "name": f"cart-{index}"} for index in range(1000))).errors
    assert MAX_NACK_SIZE - 200 < sum(map(len, shown)) <= MAX_NACK_SIZE
    assert rest == f"and {1000 - len(shown)} more"


def test_a_resource_in_a_wrapper_is_taken_out_of_it() -> None:
    [item] = reading(wrapped(GOOD, "cart")).items
    assert item == reading(GOOD).items[0]


def test_a_resource_of_another_type_is_an_error() -> None:
    [error] = reading(resources.endpoints("cart")).errors
    assert error.startswith("resource index 0: incorrect resource type 'type.googleapis.com/envoy.config.endpoint")


def test_a_resource_whose_name_is_one_of_another_type_is_an_error_without_a_name() -> None:
    """A47: an xdstp name has the type of its resource in it."""
    said = reading(resources.cluster("xdstp://fleet/envoy.config.endpoint.v3.ClusterLoadAssignment/cart"))
    assert [item.parsed.name for item in said.items] == [None]
    [error] = said.errors
    assert "xdstp://fleet/envoy.config.endpoint.v3.ClusterLoadAssignment/cart: " in error


@pytest.mark.parametrize("type_url", [CDS.type_url, protos.TYPE_PREFIX + protos.type_name(protos.Resource)])
def test_bytes_that_are_no_message_are_an_error_without_a_name(type_url: str) -> None:
    said = reading(protos.AnyProto(type_url=type_url, value=b"\xff\xff"))
    assert said.items[0].parsed.name is None
    assert said.errors[0].startswith("resource index 0: Can't decode")


def test_the_second_of_two_equal_names_is_refused_and_touches_nothing() -> None:
    said = reading(GOOD, BAD)
    assert [item.parsed.name for item in said.items] == ["cart", None]
    assert said.errors == ("resource index 1: cart: duplicate resource name",)


def test_each_of_two_resources_without_a_readable_name_has_its_own_error() -> None:
    broken = protos.AnyProto(type_url=CDS.type_url, value=b"\xff\xff")
    first, second = reading(broken, broken).errors
    assert first.removeprefix("resource index 0: ") == second.removeprefix("resource index 1: ")


def test_known_bytes_are_not_parsed_again() -> None:
    first = reading(GOOD, BAD).items[0]
    again = reading(GOOD, known={first.raw: first.parsed}).items[0]
    assert again.parsed is first.parsed


def test_known_bytes_under_another_wrappers_name_are_not_parsed_again() -> None:
    [first] = reading(wrapped(GOOD, "x")).items
    [again] = reading(wrapped(GOOD, "y"), known={first.raw: first.parsed}).items
    assert again.parsed.name == "y" and again.parsed.value is first.parsed.value


def test_known_bytes_without_a_wrapper_have_their_own_name_again() -> None:
    first, second = reading(wrapped(GOOD, "x"), GOOD).items
    for known in (first, second):
        again = reading(wrapped(GOOD, "x"), GOOD, known={known.raw: known.parsed})
        assert again.errors == ()
        assert [item.parsed.name for item in again.items] == ["x", "cart"]
        assert [item.parsed.value is known.parsed.value for item in again.items] == [True, True]


def test_the_same_bytes_under_another_type_are_not_known() -> None:
    first = reading(GOOD).items[0]
    other = protos.AnyProto(type_url="type.googleapis.com/other", value=first.raw[1])
    assert reading(other, known={first.raw: first.parsed}).errors


def test_reading_pauses_after_every_resource() -> None:
    slices = SotwProtocol.read(response(*(resources.cluster(f"c{n}") for n in range(5))), CDS, {}, ParseContext())
    assert sum(1 for _ in slices) >= 5
