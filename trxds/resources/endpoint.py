"""ClusterLoadAssignment: the endpoints of a cluster by priority and locality (EDS; A27, A55, A61, A86).

There may be ten thousand endpoints. So they are parsed in slices, field paths are made only for errors, and one set
finds repeated addresses.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from . import protos
from .address import check_address, parse_address
from .cooperative_parse import Slices, TimeSlice
from .extension import Extension, unpack
from .units import UINT32_MAX, per_million
from .validation_errors import ValidationErrors

if TYPE_CHECKING:
    from .context import ParseContext


class HealthStatus(enum.Enum):
    """The health states that gRPC uses; endpoints in any other state are ignored (A27, A55)."""

    UNKNOWN = "UNKNOWN"
    HEALTHY = "HEALTHY"
    DRAINING = "DRAINING"

    __hash__ = object.__hash__  # fast, and correct since members are singletons


# By their number in envoy.config.core.v3; only session affinity has DRAINING (A55).
_WITHOUT_DRAINING = {0: HealthStatus.UNKNOWN, 1: HealthStatus.HEALTHY}
KNOWN_HEALTH = {**_WITHOUT_DRAINING, 3: HealthStatus.DRAINING}
_NO_ATTRIBUTES: Mapping[str, Any] = MappingProxyType({})

_PROXY_ADDRESS = "envoy.http11_proxy_transport_socket.proxy_address"
_ADDRESS = "envoy.config.core.v3.Address"


class LocalityId(Struct, frozen=True, gc=False, order=True):
    """The region, zone and sub-zone of endpoints; equal ids are one locality."""

    region: str = ""
    zone: str = ""
    sub_zone: str = ""

    def __str__(self) -> str:
        return f'{{region="{self.region}", zone="{self.zone}", sub_zone="{self.sub_zone}"}}'

    @property
    def path(self) -> str:
        """Return `region/zone/sub_zone` without the parts that are empty."""
        return "/".join(filter(None, (self.region, self.zone, self.sub_zone)))


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Endpoint:
    """One backend. It may be reached by any of its `addresses`, the first one preferred (A61).

    An address is a text, `10.0.0.1:443` or `[::1]:443`, and the session cookie has it. `hash_key` places the endpoint
    on a hash ring, instead of its first address (A76). `proxy` is the address of its own HTTP CONNECT
    proxy (A86). `attributes` are from a custom resolver, for custom policies. They must not refer to the channel, which
    would stay in memory after it is closed.
    """

    addresses: tuple[str, ...]
    health: HealthStatus = HealthStatus.UNKNOWN
    weight: int = 1
    hostname: str = ""
    hash_key: str = ""
    proxy: str = ""
    attributes: Mapping[str, Any] = field(default_factory=lambda: _NO_ATTRIBUTES, hash=False, repr=False)


class Locality(Struct, frozen=True, gc=False):
    """The endpoints of one locality; `weight` is its share of its priority's traffic.

    `proxy` is for those of its endpoints that have none of their own (A86).
    """

    id: LocalityId
    weight: int
    endpoints: tuple[Endpoint, ...]
    proxy: str = ""


class DropOverload(Struct, frozen=True):
    """The share of RPCs to drop for one category: `per_million` of them."""

    category: str
    per_million: int


class ClusterLoadAssignment(Struct, frozen=True, gc=False):
    """The endpoints of one cluster. `priorities[0]` is the highest priority; each has at least one locality."""

    name: str
    priorities: tuple[tuple[Locality, ...], ...] = ()
    drops: tuple[DropOverload, ...] = ()

    def __repr__(self) -> str:
        count = sum(len(locality.endpoints) for localities in self.priorities for locality in localities)
        return f"<ClusterLoadAssignment {self.name}: {len(self.priorities)} priorities, {count} endpoints>"


@dataclass(slots=True)
class _ParseState:
    """The state of a parse that is shared by all localities of a resource."""

    health: Mapping[int, HealthStatus]
    known: MutableMapping[bytes, Endpoint]
    http_connect: bool
    addresses: set[str] = field(default_factory=set)
    time_slice: TimeSlice = field(default_factory=TimeSlice)


def parse_cluster_load_assignment(
    message: Any, context: ParseContext, problems: ValidationErrors
) -> Slices[ClusterLoadAssignment]:
    experiments = context.experiments
    health = KNOWN_HEALTH if experiments.override_host else _WITHOUT_DRAINING
    state = _ParseState(health, context.endpoints, experiments.http_connect)
    priorities: dict[int, dict[LocalityId, Locality]] = {}
    for index, each in enumerate(message.endpoints):
        at = problems.at(f"endpoints[{index}]")
        locality = yield from _locality(each, state, at)
        if locality is not None and each.priority < len(message.endpoints):
            _add_locality(locality, each.priority, priorities, at)
        elif locality is not None:
            # Priorities have no gaps, so there cannot be more of them than localities.
            at.at("priority").add(f"priority {each.priority} >= number of localities ({len(message.endpoints)})")
        if state.time_slice.is_used_up():
            yield
    _check_priorities(priorities, problems.at("endpoints"))
    drops = _drops(message.policy.drop_overloads, problems.at("policy"))
    # Sorted, as in the C++ client, whatever the order in the message: a ring and the list of pick_first depend on it.
    in_order = tuple(tuple(priorities[each][id] for id in sorted(priorities[each])) for each in sorted(priorities))
    return ClusterLoadAssignment(message.cluster_name, in_order, drops)


# -- priorities


def _add_locality(
    locality: Locality, priority: int, priorities: dict[int, dict[LocalityId, Locality]], problems: ValidationErrors
) -> None:
    localities = priorities.setdefault(priority, {})
    if locality.id in localities:
        problems.add(f"duplicate locality {locality.id} found in priority {priority}")
    localities[locality.id] = locality


def _check_priorities(priorities: Mapping[int, Mapping[LocalityId, Locality]], problems: ValidationErrors) -> None:
    for priority in range(max(priorities, default=-1) + 1):
        localities = priorities.get(priority)
        if localities is None:
            problems.add(f"priority {priority} empty")
        elif sum(locality.weight for locality in localities.values()) > UINT32_MAX:
            problems.add(f"sum of locality weights for priority {priority} exceeds uint32 max")


# -- localities and endpoints


def _locality(message: Any, state: _ParseState, problems: ValidationErrors) -> Slices[Locality | None]:
    """Return the locality; None if its weight is 0 or unset, and then its endpoints are not checked (A27)."""
    weight = message.load_balancing_weight.value
    if not weight:
        return None
    endpoints: list[Endpoint] = []
    for index, each in enumerate(message.lb_endpoints):
        health = state.health.get(each.health_status)
        if health is not None:  # A27: an endpoint in another state is ignored, errors included
            endpoint = _known_or_parsed_endpoint(each, health, state, problems, index)
            if endpoint is not None:
                endpoints.append(endpoint)
        if state.time_slice.is_used_up():
            yield
    if not problems.has_field(message, "locality"):
        return None
    proxy = _proxy_address(message, problems) if state.http_connect else ""
    locality = message.locality
    id = LocalityId(locality.region, locality.zone, locality.sub_zone)
    return Locality(id, weight, tuple(endpoints), proxy)


def _known_or_parsed_endpoint(
    message: Any, health: HealthStatus, state: _ParseState, problems: ValidationErrors, index: int
) -> Endpoint | None:
    # To serialize costs less than to read the fields, and of ten thousand endpoints most have not changed.
    key = message.SerializeToString()
    endpoint = state.known.get(key)
    if endpoint is None:
        endpoint = _parse_endpoint(message, health)
        if endpoint is None:
            _note_errors(message, problems.at(f"lb_endpoints[{index}]"))
            return None
        # Without the guard (A86) typed metadata is not looked at, whatever it has.
        if state.http_connect and message.HasField("metadata"):
            before = problems.count
            endpoint = replace(endpoint, proxy=_proxy_address(message, problems.at(f"lb_endpoints[{index}]")))
            if problems.count > before:
                return None
        state.known[key] = endpoint
    for address in endpoint.addresses:
        # A27: an address may be in a cluster once, over all priorities and localities; A61: additional addresses too.
        if address in state.addresses:
            scheme = "ipv6" if address.startswith("[") else "ipv4"
            problems.at(f"lb_endpoints[{index}]").add(f'duplicate endpoint address "{scheme}:{address}"')
        state.addresses.add(address)
    return endpoint


def _parse_endpoint(message: Any, health: HealthStatus) -> Endpoint | None:
    """Return the endpoint, or None if it is invalid."""
    # Unset is 1. An explicit 0 is rejected, as by Envoy's own rule for the field (at least 1).
    weight = message.load_balancing_weight.value if message.HasField("load_balancing_weight") else 1
    addresses = _addresses(message.endpoint)
    if not addresses or not weight:
        return None
    return Endpoint(addresses, health, weight, message.endpoint.hostname, _hash_key(message))


def _hash_key(message: Any) -> str:
    if not message.HasField("metadata"):
        return ""
    struct = message.metadata.filter_metadata.get("envoy.lb")
    value = struct.fields.get("hash_key") if struct is not None else None
    # A76: a value that is no text reads as "", and then the first address is hashed.
    return str(value.string_value) if value is not None else ""


def _addresses(endpoint: Any) -> tuple[str, ...]:
    """Return all addresses, or none if one of them is invalid."""
    first = parse_address(endpoint.address)
    if first is None or not endpoint.additional_addresses:
        return () if first is None else (first,)
    others = [parse_address(each.address) for each in endpoint.additional_addresses]
    return () if None in others else (first, *filter(None, others))


def _note_errors(message: Any, problems: ValidationErrors) -> None:
    """Check an invalid endpoint again, this time with a path for each field."""
    if message.HasField("load_balancing_weight") and not message.load_balancing_weight.value:
        problems.at("load_balancing_weight").add("must be greater than 0")
    if not problems.has_field(message, "endpoint"):
        return
    at = problems.at("endpoint")
    _note_address_errors(message.endpoint, at)
    for index, each in enumerate(message.endpoint.additional_addresses):
        _note_address_errors(each, at.at(f"additional_addresses[{index}]"))


def _note_address_errors(parent: Any, problems: ValidationErrors) -> None:
    if problems.has_field(parent, "address"):
        check_address(parent.address, problems.at("address"))


# -- typed metadata (A83): the HTTP CONNECT proxy of an endpoint, or of all endpoints of a locality (A86)


def _proxy_address(parent: Any, problems: ValidationErrors) -> str:
    """Return the proxy's address in the metadata of `parent`; empty if the key is absent or has another type (A86).

    A value of another type is left out (A83): it is for other clients. Addresses are checked under every key.
    """
    proxy = ""
    for key in sorted(parent.metadata.typed_filter_metadata):
        at = problems.at(f"metadata.typed_filter_metadata[{key}]")
        extension = unpack(parent.metadata.typed_filter_metadata[key], at)
        if extension is not None and extension.type_name == _ADDRESS:
            address = _metadata_address(extension)
            if key == _PROXY_ADDRESS:
                proxy = address
    return proxy


def _metadata_address(extension: Extension) -> str:
    message = extension.parse(protos.Address, "could not parse")
    if message is None:
        return ""
    at = extension.problems.at("socket_address")
    if message.HasField("socket_address") and not at.has_field(message.socket_address, "port_value"):
        return ""
    text = parse_address(message)
    if text is None:
        check_address(message, extension.problems)
    return text or ""


# -- drops


def _drops(messages: Iterable[Any], problems: ValidationErrors) -> tuple[DropOverload, ...]:
    return tuple(_drop(each, problems.at(f"drop_overloads[{index}]")) for index, each in enumerate(messages))


def _drop(message: Any, problems: ValidationErrors) -> DropOverload:
    if not message.category:
        problems.at("category").add("empty drop category name")
    at = problems.at("drop_percentage")
    if not message.HasField("drop_percentage"):
        at.add("field not present")
    return DropOverload(message.category, per_million(message.drop_percentage, at) or 0)
