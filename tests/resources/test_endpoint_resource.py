"""ClusterLoadAssignment: what is refused with which text (as the C++ client does), and what it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trxds.resources import protos
from trxds.resources.address import address_text
from trxds.resources.endpoint import (
    ClusterLoadAssignment,
    DropOverload,
    Endpoint,
    HealthStatus,
    Locality,
    LocalityId,
)
from trxds.resources.experiments import Experiments
from trxds.resources.types import EDS, ParseContext, unwrap

BIG = 2**32 - 1


def address(ip: str, port: int = 80) -> dict[str, Any]:
    return {"address": {"socket_address": {"address": ip, "port_value": port}}}


def host(ip: str, port: int = 80, also: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    endpoint = address(ip, port)
    if also:
        endpoint["additional_addresses"] = [address(each) for each in also]
    return {"endpoint": endpoint, **more}


def locality(*hosts: Mapping[str, Any], zone: str = "z", weight: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "locality": {"region": "r", "zone": zone},
        "load_balancing_weight": weight,
        "lb_endpoints": list(hosts),
        **more,
    }


def eds(*localities: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"cluster_name": "a", "endpoints": list(localities), **more}


def drops(**overload: Any) -> dict[str, Any]:
    return eds(policy={"drop_overloads": [overload]})


HOST = "endpoints[0].lb_endpoints[0]"

REFUSED = {
    "priority gap": (
        eds(locality(host("10.0.0.1")), locality(host("10.0.0.2"), zone="y", priority=2)),
        "endpoints[1].priority error:priority 2 >= number of localities (2)",
    ),
    "no priority 0": (
        eds(locality(priority=1)),
        "endpoints[0].priority error:priority 1 >= number of localities (1)",
    ),
    "priority left empty by a locality of weight 0": (
        eds(locality(weight=0), locality(zone="y", priority=1)),
        "endpoints error:priority 0 empty",
    ),
    "gap between priorities": (
        eds(locality(), locality(zone="y", priority=2), locality(zone="x", priority=2)),
        "endpoints error:priority 1 empty",
    ),
    "locality weights of a lower priority beyond 32 bits": (
        eds(locality(), locality(weight=BIG, priority=1), locality(zone="y", weight=1, priority=1)),
        "endpoints error:sum of locality weights for priority 1 exceeds uint32 max",
    ),
    "locality weights beyond 32 bits": (
        eds(locality(weight=BIG), locality(zone="y", weight=1)),
        "endpoints error:sum of locality weights for priority 0 exceeds uint32 max",
    ),
    "repeated locality": (
        eds(locality(), locality()),
        'endpoints[1] error:duplicate locality {region="r", zone="z", sub_zone=""} found in priority 0',
    ),
    "no locality": (
        eds({"load_balancing_weight": 1}),
        "endpoints[0].locality error:field not present",
    ),
    "repeated endpoint": (
        eds(locality(host("10.0.0.1"), host("10.0.0.1"))),
        'endpoints[0].lb_endpoints[1] error:duplicate endpoint address "ipv4:10.0.0.1:80"',
    ),
    "repeated endpoint in another priority": (
        eds(locality(host("10.0.0.1")), locality(host("10.0.0.1"), priority=1)),
        'endpoints[1].lb_endpoints[0] error:duplicate endpoint address "ipv4:10.0.0.1:80"',
    ),
    "repeated address within an endpoint": (
        eds(locality(host("10.0.0.1", also=("10.0.0.2", "10.0.0.1")))),
        f'{HOST} error:duplicate endpoint address "ipv4:10.0.0.1:80"',
    ),
    "one address in two spellings": (
        eds(locality(host("::1"), host("0:0::0:1"))),
        'endpoints[0].lb_endpoints[1] error:duplicate endpoint address "ipv6:[::1]:80"',
    ),
    "endpoint weight 0": (
        eds(locality(host("10.0.0.1", load_balancing_weight=0))),
        f"{HOST}.load_balancing_weight error:must be greater than 0",
    ),
    "no endpoint": (eds(locality({})), f"{HOST}.endpoint error:field not present"),
    "no address": (eds(locality({"endpoint": {}})), f"{HOST}.endpoint.address error:field not present"),
    "no address beside a valid weight": (
        eds(locality({"endpoint": {}, "load_balancing_weight": 2})),
        f"{HOST}.endpoint.address error:field not present",
    ),
    "host name": (
        eds(locality(host("localhost"))),
        f"{HOST}.endpoint.address.socket_address error:Failed to parse address:localhost:80",
    ),
    "port beyond 16 bits": (
        eds(locality(host("10.0.0.1", 70000))),
        f"{HOST}.endpoint.address.socket_address.port_value error:invalid port",
    ),
    "unix socket": (
        eds(locality({"endpoint": {"address": {"pipe": {"path": "/run/x"}}}})),
        f"{HOST}.endpoint.address.socket_address error:field not present",
    ),
    "additional address that is a host name": (
        eds(locality(host("10.0.0.1", also=("10.0.0.2", "x")))),
        f"{HOST}.endpoint.additional_addresses[1].address.socket_address error:Failed to parse address:x:80",
    ),
    "additional address that is missing": (
        eds(locality({"endpoint": {**address("10.0.0.1"), "additional_addresses": [{}]}})),
        f"{HOST}.endpoint.additional_addresses[0].address error:field not present",
    ),
    "drop without a category": (
        drops(drop_percentage={"numerator": 1}),
        "policy.drop_overloads[0].category error:empty drop category name",
    ),
    "drop with an unknown denominator": (
        drops(category="c", drop_percentage={"numerator": 1, "denominator": 9}),
        "policy.drop_overloads[0].drop_percentage.denominator error:unknown denominator type",
    ),
    "drop without a percentage": (
        drops(category="c"),
        "policy.drop_overloads[0].drop_percentage error:field not present",
    ),
}


@pytest.mark.parametrize(("resource", "error"), REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_resource_is_refused_with_its_field(read: Any, resource: dict[str, Any], error: str) -> None:
    parsed = read(EDS, resource)
    assert parsed.errors == (f"field:{error}",)
    assert parsed.name == "a" and parsed.value is None


def test_every_error_of_a_resource_is_reported(read: Any) -> None:
    bad = eds(locality(host("x"), {}, host("10.0.0.1", 70000, load_balancing_weight=0)), {"load_balancing_weight": 1})
    assert len(read(EDS, bad).errors) == 5


# -- what it becomes


def assignment(read: Any, resource: dict[str, Any], context: ParseContext | None = None) -> ClusterLoadAssignment:
    value = read(EDS, resource, context).value
    assert isinstance(value, ClusterLoadAssignment)
    return value


def test_a_resource_becomes_a_value(read: Any) -> None:
    resource = eds(
        locality(host("10.0.0.1", load_balancing_weight=3), host("::1", health_status="HEALTHY"), weight=7),
        locality(host("10.0.0.2", also=("fe80::1",)), zone="y", priority=1),
        policy={"drop_overloads": [{"category": "c", "drop_percentage": {"numerator": 5}}]},
    )
    assert assignment(read, resource) == ClusterLoadAssignment(
        "a",
        (
            (
                Locality(
                    LocalityId("r", "z"),
                    7,
                    (
                        Endpoint(("10.0.0.1:80",), HealthStatus.UNKNOWN, 3),
                        Endpoint(("[::1]:80",), HealthStatus.HEALTHY),
                    ),
                ),
            ),
            (Locality(LocalityId("r", "y"), 1, (Endpoint(("10.0.0.2:80", "[fe80::1]:80")),)),),
        ),
        (DropOverload("c", 50_000),),
    )


def test_a_cluster_load_assignment_may_have_no_localities_or_endpoints(read: Any) -> None:
    assert assignment(read, eds()).priorities == ()
    assert assignment(read, eds(locality())).priorities == ((Locality(LocalityId("r", "z"), 1, ()),),)


def test_a_locality_without_weight_is_not_validated(read: Any) -> None:
    broken = host("no address")
    assert assignment(read, eds(locality(broken, weight=0), {"lb_endpoints": [broken]})).priorities == ()


def test_a_locality_may_be_in_two_priorities(read: Any) -> None:
    assert len(assignment(read, eds(locality(), locality(priority=1))).priorities) == 2


def test_localities_come_by_priority_whatever_their_order(read: Any) -> None:
    found = assignment(read, eds(locality(zone="low", priority=1), locality(zone="high")))
    assert [each[0].id.zone for each in found.priorities] == ["high", "low"]


def test_localities_of_a_priority_come_by_name_whatever_their_order(read: Any) -> None:
    found = assignment(read, eds(locality(zone="z"), locality(zone="a"), {**locality(), "locality": {"region": "R"}}))
    assert [each.id for each in found.priorities[0]] == [LocalityId("R"), LocalityId("r", "a"), LocalityId("r", "z")]


@pytest.mark.parametrize("health", ["UNHEALTHY", "TIMEOUT", "DEGRADED"])
def test_an_endpoint_in_another_health_state_is_not_validated(read: Any, health: str) -> None:
    found = assignment(read, eds(locality(host("no address", health_status=health))))
    assert found.priorities[0][0].endpoints == ()


def test_draining_is_kept_for_session_affinity_only(read: Any) -> None:
    resource = eds(locality(host("10.0.0.1", health_status="DRAINING")))
    (endpoint,) = assignment(read, resource).priorities[0][0].endpoints
    assert endpoint.health is HealthStatus.DRAINING
    switched_off = assignment(read, resource, ParseContext(experiments=Experiments(override_host=False)))
    assert switched_off.priorities[0][0].endpoints == ()


def test_locality_weights_may_sum_to_the_largest_number_of_32_bits(read: Any) -> None:
    parsed = read(EDS, eds(locality(weight=BIG - 1), locality(zone="y", weight=1)))
    assert [each.weight for each in parsed.value.priorities[0]] == [1, BIG - 1]


def test_endpoint_weights_may_sum_to_anything(read: Any) -> None:
    hosts = [host(f"10.0.0.{number}", load_balancing_weight=BIG) for number in (1, 2)]
    assert not read(EDS, eds(locality(*hosts))).errors


def test_drops_beyond_everything_are_everything(read: Any) -> None:
    assert assignment(read, drops(category="c", drop_percentage={"numerator": 200})).drops == (
        DropOverload("c", 10**6),
    )


def test_the_repr_counts_and_a_locality_prints_as_in_messages(read: Any) -> None:
    found = assignment(read, eds(locality(host("10.0.0.1"))))
    assert repr(found) == "<ClusterLoadAssignment a: 1 priorities, 1 endpoints>"
    assert str(LocalityId("r", "z", "s")) == '{region="r", zone="z", sub_zone="s"}'


# -- addresses


@pytest.mark.parametrize(
    ("ip", "text"),
    [
        ("10.0.0.1", "10.0.0.1:443"),
        ("0:0:0:0:0:0:0:1", "[::1]:443"),
        ("::FFFF:1.2.3.4", "[::ffff:1.2.3.4]:443"),
        ("fe80::1%eth0", "[fe80::1%eth0]:443"),
        ("", None),
        ("localhost", None),
        ("10.0.0", None),
        ("010.0.0.1", None),
        ("10.0.0.1 ", None),
        ("[::1]", None),
        ("10.0.0.1\0", None),
        ("10.0.0.1%eth0", None),
    ],
)
def test_an_endpoint_address_must_be_an_ip_address(ip: str, text: str | None) -> None:
    assert address_text(ip, 443) == text


def test_a_port_may_have_all_16_bits(read: Any) -> None:
    (priority,) = read(EDS, eds(locality(host("10.0.0.1", 65535)))).value.priorities
    assert priority[0].endpoints[0].addresses == ("10.0.0.1:65535",)


@given(st.ip_addresses())
def test_every_ip_address_has_one_text(ip: Any) -> None:
    text = address_text(str(ip), 80)
    assert text is not None and text == address_text(ip.exploded, 80)


# -- size


def many(count: int, per_locality: int) -> Any:
    hosts = [host(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}") for number in range(count)]
    localities = [
        locality(*hosts[start : start + per_locality], zone=str(start)) for start in range(0, count, per_locality)
    ]
    return protos.from_json({"@type": EDS.type_url, **eds(*localities)})


@pytest.mark.parametrize("per_locality", [1, 10, 2000])
def test_many_endpoints_are_parsed_in_slices_however_they_are_spread(per_locality: int) -> None:
    slices = EDS.read_in_slices(unwrap(many(2000, per_locality)), ParseContext())
    assert 30 <= sum(1 for _ in slices) <= 80


def test_slices_add_up_to_what_is_parsed_at_once() -> None:
    resource = many(500, 7)
    slices = EDS.read_in_slices(unwrap(resource), ParseContext())
    while True:
        try:
            next(slices)
        except StopIteration as end:
            assert end.value == EDS.read(resource, ParseContext())
            return


@pytest.mark.parametrize(
    ("metadata", "key"),
    [
        ({"envoy.lb": {"hash_key": "pod-7"}}, "pod-7"),
        ({"envoy.lb": {"hash_key": 7}}, ""),
        ({"envoy.lb": {"canary": True}}, ""),
        ({"other": {"hash_key": "pod-7"}}, ""),
        ({}, ""),
    ],
)
def test_the_hash_key_is_a_text_in_envoys_metadata(read: Any, metadata: dict[str, Any], key: str) -> None:
    value = read(EDS, eds(locality(host("10.0.0.1", metadata={"filter_metadata": metadata})))).value
    assert isinstance(value, ClusterLoadAssignment)
    assert value.priorities[0][0].endpoints[0].hash_key == key


def test_endpoints_that_did_not_change_are_the_same_objects():
    context = ParseContext()

    def read(*weights):
        message = {
            "cluster_name": "c",
            "endpoints": [
                {
                    "locality": {},
                    "load_balancing_weight": 1,
                    "lb_endpoints": [
                        {
                            "endpoint": {"address": {"socket_address": {"address": f"10.0.0.{n}", "port_value": 1}}},
                            "load_balancing_weight": weight,
                        }
                        for n, weight in enumerate(weights)
                    ],
                }
            ],
        }
        kind = {"@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"}
        value = EDS.read(protos.from_json(kind | message), context).value
        return value.priorities[0][0].endpoints

    before, after = read(1, 1, 1), read(1, 2, 1)
    assert [one is other for one, other in zip(before, after, strict=True)] == [True, False, True]
    del before, after
    assert len(context.endpoints) == 0, "nothing is kept that no resource has"
