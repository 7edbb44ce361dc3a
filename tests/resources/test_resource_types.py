from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from envoy.extensions.filters.http.rbac.v3.rbac_pb2 import RBAC, RBACPerRoute
from google.protobuf.message import Message

import trxds.resources
from trxds.resources import generated_messages, protos
from trxds.resources.cluster import Cluster
from trxds.resources.filters import HTTP_FILTERS
from trxds.resources.lb_policy import LB_POLICIES
from trxds.resources.types import CDS, EDS, LDS, RDS, RESOURCE_TYPES, ParseContext, Parsed, unwrap

CLUSTER = protos.Cluster(
    name="a",
    type=protos.Cluster.EDS,
    eds_cluster_config={"eds_config": {"ads": {}}},
)


def wrapped(**fields: Any) -> Any:
    return protos.pack(protos.Resource(**fields))


def test_resource_types_are_found_by_url_in_the_order_of_requests() -> None:
    assert list(RESOURCE_TYPES.values()) == [LDS, RDS, CDS, EDS]
    assert RESOURCE_TYPES["type.googleapis.com/envoy.config.cluster.v3.Cluster"] is CDS
    assert [each.kind for each in RESOURCE_TYPES.values() if each.full_state] == ["LDS", "CDS"]


def test_a_resource_may_come_in_a_wrapper() -> None:
    inside = wrapped(name="a", resource=protos.pack(CLUSTER))
    assert CDS.read(inside, ParseContext()) == CDS.read(protos.pack(CLUSTER), ParseContext())
    assert unwrap(inside).name == "a" and unwrap(protos.pack(CLUSTER)).name is None


def test_the_name_of_a_wrapper_goes_before_the_resources_own() -> None:
    parsed = CDS.read(wrapped(name="b", resource=protos.pack(CLUSTER)), ParseContext())
    assert (parsed.name, getattr(parsed.value, "name", None)) == ("b", "a")


def test_a_wrapper_that_is_empty_or_broken_is_an_error() -> None:
    assert CDS.read(wrapped(name="a"), ParseContext()) == Parsed(
        "a", None, ("No resource present in Resource proto wrapper",)
    )
    broken = wrapped()
    broken.value = b"\xff"
    assert CDS.read(broken, ParseContext()) == Parsed(None, None, ("Can't decode Resource proto wrapper",))


def test_a_resource_of_another_type_than_the_response_is_an_error() -> None:
    parsed = EDS.read(wrapped(name="a", resource=protos.pack(CLUSTER)), ParseContext())
    assert parsed.name == "a" and parsed.value is None
    assert parsed.errors == (f"incorrect resource type {CDS.type_url!r} (should be {EDS.type_url!r})",)


@pytest.mark.parametrize("kind", RESOURCE_TYPES.values(), ids=lambda kind: kind.kind)
@pytest.mark.parametrize("garbage", [b"\xff", b"\x0a\x05ab", b"\x0a\x01\xff"])
def test_garbage_is_an_error_without_a_name(kind: Any, garbage: bytes) -> None:
    resource = protos.AnyProto(type_url=kind.type_url, value=garbage)
    assert kind.read(resource, ParseContext()) == Parsed(None, None, (f"Can't decode {kind.name} resource",))


def test_garbage_in_a_wrapper_has_the_wrappers_name() -> None:
    inner = protos.AnyProto(type_url=CDS.type_url, value=b"\xff")
    assert CDS.read(wrapped(name="a", resource=inner), ParseContext()).name == "a"


def test_a_complaint_lists_every_error() -> None:
    assert CDS.validation_message(("field:a error:x", "field:b error:y")) == (
        "errors validating Cluster resource: [field:a error:x; field:b error:y]"
    )


def test_equal_resources_are_equal_values() -> None:
    first, second = (CDS.read(protos.pack(CLUSTER), ParseContext()).value for _ in range(2))
    assert isinstance(first, Cluster) and first == second and first is not second


# -- proto-JSON


@pytest.mark.parametrize(
    ("resource", "error"),
    [
        ({"name": "a"}, "field:@type error:@type is missing when parsing any message"),
        ({"@type": 3}, "field:@type error:must be a text such as type.googleapis.com/envoy."),
        ({"@type": "x/unknown.Type"}, "field:@type error:Can not find message descriptor by type_url: x/unknown.Type"),
        (
            {"@type": CDS.type_url, "nme": "a"},
            'field:nme error:Message type "envoy.config.cluster.v3.Cluster" has no field named "nme"',
        ),
        (
            {"@type": CDS.type_url, "eds_cluster_config": {"eds_config": {"adss": {}}}},
            "field:eds_cluster_config.eds_config error:"
            'Message type "envoy.config.core.v3.ConfigSource" has no field named "adss"',
        ),
        (
            {"@type": CDS.type_url, "type": "EDSS"},
            "field:type error:Invalid enum value EDSS for enum type envoy.config.cluster.v3.Cluster.DiscoveryType",
        ),
        (
            {"@type": EDS.type_url, "endpoints": [{}, {"lb_endpoints": "x"}]},
            "field:endpoints[1] error:repeated field lb_endpoints must be in [] which is x",
        ),
        (
            {"@type": CDS.type_url, "eds_cluster_config": {"service_name": {}}},
            "field:eds_cluster_config.service_name error:",
        ),
    ],
)
def test_a_bad_resource_in_json_form_names_its_field(resource: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError) as caught:
        protos.from_json(resource)
    assert str(caught.value).startswith(error)


def test_packing_gives_the_same_bytes_each_time() -> None:
    resource = {"@type": CDS.type_url, "name": "a", "metadata": {"filter_metadata": {x: {} for x in "dcba"}}}
    message = protos.Cluster.FromString(protos.from_json(resource).value)
    assert len({protos.pack(message).value for _ in range(5)}) == 1


def test_names_of_messages_that_are_written_as_text_are_those_of_messages() -> None:
    room = Path(trxds.resources.__file__).parent
    texts = {
        node.value
        for path in room.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    written = {each for each in texts if re.fullmatch(r"(envoy|udpa|xds)(\.\w+)+\.v\d\w*\.[A-Z]\w+", each)}
    # RBAC is known by its names only, because it is a server's filter.
    classes = *vars(generated_messages).values(), RBAC, RBACPerRoute
    messages = {protos.type_name(each) for each in classes if isinstance(each, type) and issubclass(each, Message)}
    assert len(written) > 10
    assert written | LB_POLICIES.keys() | HTTP_FILTERS.keys() <= messages


def test_generated_code_is_imported_by_few_files() -> None:
    room = Path(trxds.resources.__file__).parent
    importers = [
        path.relative_to(room.parent).as_posix()
        for path in room.parent.rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if line.startswith(("from envoy", "import envoy", "from xds.", "from udpa."))
    ]
    assert set(importers) == {"admin/protos.py", "resources/generated_messages.py", "resources/orca_messages.py"}
