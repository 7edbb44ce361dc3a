"""Valid resources of which some fields are changed at random, for clients that must judge them alike.

Whatever field a message of the xDS API has may be set, removed, doubled or get another value, also inside of an Any.
`peers/test_grpcio_validation.py` compares what two clients refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf import any_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from support.random_mesh import Draws, endpoints_case, routes_case

from trxds.resources import protos
from trxds.testing import resources as xds

_TYPES = "type.googleapis.com/envoy.extensions."
_POLICIES = (
    *("round_robin.v3.RoundRobin", "ring_hash.v3.RingHash", "pick_first.v3.PickFirst"),
    *("wrr_locality.v3.WrrLocality", "client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin"),
)
_PROVIDER = {"instance_name": "files"}
CERTIFICATE_PROVIDERS = frozenset({"files"})
"""The providers of certificates that the bootstrap has to name."""

_TEXTS = (
    "",
    "x",
    "*",
    "a,b",
    "/",
    "\\1",
    "[",
    "a" * 300,
    "x-bin",
    ":path",
    "grpc-x",
    "envoy.x",
    "127.0.0.1",
    "UNKNOWN",
)
_SIGNED = (0, 1, -1, 5, 2**31 - 1, -(2**31), 999_999_999, 1_000_000_000)
_UNSIGNED = (0, 1, 2, 50, 100, 101, 1000, 2**23, 2**23 + 1, 65_535, 65_536, 2**32 - 1)
_REAL = (0, 1, -1, 0.5, 50, 100, 101, float("nan"), float("inf"), 1e9)
_VALUES = {
    FieldDescriptor.CPPTYPE_INT32: _SIGNED,
    FieldDescriptor.CPPTYPE_INT64: (*_SIGNED, 315_576_000_000, 315_576_000_001),
    FieldDescriptor.CPPTYPE_UINT32: _UNSIGNED,
    FieldDescriptor.CPPTYPE_UINT64: _UNSIGNED,
    FieldDescriptor.CPPTYPE_DOUBLE: _REAL,
    FieldDescriptor.CPPTYPE_FLOAT: _REAL,
    FieldDescriptor.CPPTYPE_BOOL: (False, True),
}


@dataclass(frozen=True)
class Judged:
    """A resource that a client of `target` needs, and `others` with which it finds it; `changes` were made to it."""

    kind: str
    name: str
    resource: Any  # an Any
    others: tuple[Any, ...]
    target: str
    changes: tuple[str, ...]


# -- valid resources, each with what leads a client to it


def draw_resource(draw: Draws, kind: str, number: int) -> Judged:
    """Draw a resource of this kind, with up to three changes."""
    if kind in ("LDS", "RDS"):
        case = routes_case(draw, 3 * number + 1)  # none of those that have mistakes already
        listener, routes = case.resources
        if kind == "LDS":
            made, others = _listener(draw, listener, routes), ()
        else:
            made, others = routes, (listener,)
        target = case.target
    else:
        case = endpoints_case(draw, 2 * number, [f"127.0.0.1:{port}" for port in range(5001, 5011)])
        cluster, endpoints, _, _ = case.resources
        made, others = (_cluster(draw, cluster), ()) if kind == "CDS" else (endpoints, (cluster,))
        target = cluster["name"]
    message = _unpack(protos.from_json(made))
    changes = tuple(change(draw, message) for _ in range(draw.choice([0, 1, 1, 1, 2, 3])))
    name = made["cluster_name"] if kind == "EDS" else made["name"]
    return Judged(kind, name, protos.pack(message), others, target, changes)


def _listener(draw: Draws, listener: dict[str, Any], routes: dict[str, Any]) -> dict[str, Any]:
    filters = [xds.stateful_session("s")] if draw.chance(0.5) else []
    listener = xds.listener(listener["name"], routes="r", filters=filters)
    if draw.chance(0.5):
        manager = listener["api_listener"]["api_listener"]
        del manager["rds"]
        manager["route_config"] = {name: value for name, value in routes.items() if name != "@type"}
    return listener


def _cluster(draw: Draws, cluster: dict[str, Any]) -> dict[str, Any]:
    name = cluster["name"]
    if draw.chance(0.15):
        return xds.aggregate(name, "other") | {"lb_policy": "ROUND_ROBIN"}
    if draw.chance(0.2):
        cluster = xds.logical_dns(name, "localhost", 80)
    if draw.chance(0.4):
        cluster["outlier_detection"] = {"interval": "1s", "enforcing_failure_percentage": 50}
    if draw.chance(0.4):
        cluster["circuit_breakers"] = {"thresholds": [{"max_requests": 5}]}
    if draw.chance(0.3):
        policy = {"@type": f"{_TYPES}load_balancing_policies.{draw.choice(_POLICIES)}"}
        if "wrr_locality" in policy["@type"]:
            policy["endpoint_picking_policy"] = _policies({"@type": f"{_TYPES}load_balancing_policies.{_POLICIES[0]}"})
        cluster["load_balancing_policy"] = _policies(policy)
    if draw.chance(0.3):
        trust = {"ca_certificate_provider_instance": _PROVIDER, "match_subject_alt_names": [{"exact": "x"}]}
        own = {"tls_certificate_provider_instance": _PROVIDER} if draw.chance(0.5) else {}
        tls = {"@type": f"{_TYPES}transport_sockets.tls.v3.UpstreamTlsContext"}
        tls["common_tls_context"] = {"validation_context": trust, **own}
        cluster["transport_socket"] = {"name": "tls", "typed_config": tls}
    if draw.chance(0.3):
        cluster["lrs_server"] = {"self": {}}
    return cluster


def _policies(config: dict[str, Any]) -> dict[str, Any]:
    return {"policies": [{"typed_extension_config": {"name": "p", "typed_config": config}}]}


# -- changes


def change(draw: Draws, message: Message) -> str:
    """Change something of the message or below it, but its name; return what."""
    place, path, repack = draw.choice(list(_places(message)))
    if isinstance(place, any_pb2.Any):
        place.type_url = draw.choice([f"{place.type_url}x", "", "type.googleapis.com/xds.type.v3.TypedStruct", "no"])
        changed = f"{path}.type_url set"
    else:
        changed = path + _change_field(draw, place, {"name", "cluster_name"} if place is message else set())
    repack()
    return changed


def _change_field(draw: Draws, place: Message, kept: set[str]) -> str:
    fields = [field for field in place.DESCRIPTOR.fields if field.name not in kept and not _is_map(field)]
    there = [field for field, _ in place.ListFields() if field in fields]
    if not fields:
        return ""
    field = draw.choice(there if there and draw.chance(0.5) else fields)
    if field in there and draw.chance(0.4):
        place.ClearField(field.name)
        return f".{field.name} cleared"
    if field in there and field.is_repeated and draw.chance(0.4):
        values = getattr(place, field.name)
        values.extend([values[0]])
        return f".{field.name} doubled"
    _set(draw, place, field, depth=draw.randint(0, 3))
    return f".{field.name} set"


def _set(draw: Draws, place: Message, field: FieldDescriptor, depth: int) -> None:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        if not field.is_repeated:
            place.ClearField(field.name)
        value = getattr(place, field.name)
        below = value.add() if field.is_repeated else value
        below.SetInParent()
        fields = [each for each in below.DESCRIPTOR.fields if not _is_map(each)]
        for each in draw.sample(fields, min(len(fields), draw.randint(0, 3))) if depth else ():
            _set(draw, below, each, depth - 1)
    elif field.is_repeated:
        getattr(place, field.name).append(_value(draw, field))
    else:
        setattr(place, field.name, _value(draw, field))


def _value(draw: Draws, field: FieldDescriptor) -> Any:
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return draw.choice([*(each.number for each in field.enum_type.values), 99])
    if field.type == FieldDescriptor.TYPE_BYTES:
        return draw.choice([b"", b"x", b"\xff"])
    return draw.choice(_VALUES.get(field.cpp_type, _TEXTS))


def _places(message: Message) -> Iterator[tuple[Message, str, Callable[[], None]]]:
    """Yield each message below this one with its path, and a function that packs it again into the Any it was in."""
    yield message, "", lambda: None
    yield from _below(message, "", lambda: None)


def _below(
    message: Message, path: str, repack: Callable[[], None]
) -> Iterator[tuple[Message, str, Callable[[], None]]]:
    for field, value in message.ListFields():
        if field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE or _is_map(field):
            continue
        for each in value if field.is_repeated else [value]:
            place = f"{path}.{field.name}"
            yield each, place, repack
            if isinstance(each, any_pb2.Any) and (content := _unpack(each)) is not None:
                place = f"{place}<{content.DESCRIPTOR.name}>"
                packed = _repacked(each, content, repack)
                yield content, place, packed
                yield from _below(content, place, packed)
            else:
                yield from _below(each, place, repack)


def _repacked(outer: any_pb2.Any, content: Message, repack: Callable[[], None]) -> Callable[[], None]:
    def pack() -> None:
        outer.value = content.SerializeToString()
        repack()

    return pack


def _unpack(packed: any_pb2.Any) -> Message | None:
    try:
        found = descriptor_pool.Default().FindMessageTypeByName(packed.type_url.rpartition("/")[2])
        return message_factory.GetMessageClass(found).FromString(packed.value)
    except (KeyError, DecodeError):
        return None


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry
