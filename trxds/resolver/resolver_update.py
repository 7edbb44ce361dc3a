"""The interface of custom resolvers: a `Resolver` gets `ResolverArgs` and yields a `ResolverUpdate` for each change.

`trxds.resolvers` has the names for programs. Values are checked when they are made, so an error is raised in the
resolver's own line that makes them.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from msgspec import Struct

from trxds.core.arguments import check_type
from trxds.resources.address import MAX_PORT, address_text
from trxds.resources.endpoint import Endpoint, HealthStatus
from trxds.resources.units import UINT32_MAX

from .target_uri import ResolverTarget


@dataclass(frozen=True, slots=True)
class ResolverUpdate:
    """All that a resolver knows of its target: the complete list of endpoints, never a change to the last one.

    `endpoints` are `Endpoint`s; a text, `10.0.0.1:443`, `[::1]:443` or `unix:/PATH`, stands for one with that address.
    Of endpoints that share an address only the first counts. An empty list fails calls with UNAVAILABLE, and `note`
    says in their message why it is empty. `service_config` is gRPC's JSON, as a text or a mapping, and None leaves the
    channel's own in force.

    `TypeError` or `ValueError` for an endpoint that cannot be used.
    """

    endpoints: Iterable[Endpoint | str]
    service_config: str | Mapping[str, Any] | None = None
    note: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.endpoints, str):
            raise TypeError(f"endpoints is a list of endpoints, not the text {self.endpoints!r}")
        config_types = (str, Mapping, type(None))
        check_type("service_config", self.service_config, config_types, "JSON text or a mapping of the same shape")
        # The class is frozen, and a program may pass any iterable, which can be read once.
        object.__setattr__(self, "endpoints", _distinct(map(_checked_endpoint, self.endpoints)))

    @property
    def checked_endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints, with each address in the one form that cookies and pickers compare."""
        assert isinstance(self.endpoints, tuple)
        return self.endpoints


class ResolverArgs(Struct, frozen=True):
    """The arguments of a resolver: the target, and a way to wait for the next resolution.

    `await wait_for_resolve_now()` returns when the channel wants the target to be resolved again: a connection was
    lost or could not be made, at most once in 30 seconds (`ResolveNow` of other gRPC clients), or `refresh` seconds
    have passed since the last time, or the last update had no host for calls, after a backoff. A resolver that is told
    of changes need not call it. Always a checkpoint.
    """

    target: ResolverTarget
    wait_for_resolve_now: Callable[[], Awaitable[None]]


ResolverUpdates: TypeAlias = AsyncIterable[ResolverUpdate] | AbstractAsyncContextManager[AsyncIterable[ResolverUpdate]]
Resolver: TypeAlias = Callable[[ResolverArgs], ResolverUpdates]
"""An async generator function, say. It may also return an async context manager around the iterator."""


def _distinct(endpoints: Iterable[Endpoint]) -> tuple[Endpoint, ...]:
    # Two slices of one Kubernetes service may have the same endpoint while it moves from one to the other.
    known: set[str] = set()
    kept: list[Endpoint] = []
    for endpoint in endpoints:
        if known.isdisjoint(endpoint.addresses):
            known.update(endpoint.addresses)
            kept.append(endpoint)
    return tuple(kept)


def _checked_endpoint(endpoint: Endpoint | str) -> Endpoint:
    if isinstance(endpoint, str):
        return Endpoint((_checked_address(endpoint),))
    if not isinstance(endpoint, Endpoint):
        raise TypeError(f"an endpoint is a trxds.resolvers.Endpoint, or an address as text, not {endpoint!r}")
    addresses = _checked_addresses(endpoint.addresses)
    _check_fields(addresses[0], endpoint)
    return endpoint if addresses == endpoint.addresses else replace(endpoint, addresses=addresses)


def _checked_addresses(addresses: object) -> tuple[str, ...]:
    if not isinstance(addresses, tuple | list) or not addresses:
        raise TypeError(f'addresses is a tuple such as ("10.0.0.1:443",), not {addresses!r}')
    # An endpoint fails when each of its addresses has failed (A62), and one that is there twice would fail only once.
    return tuple(dict.fromkeys(map(_checked_address, addresses)))


def _check_fields(address: str, endpoint: Any) -> None:
    if not isinstance(endpoint.health, HealthStatus):
        raise TypeError(f"endpoint {address}: health is a HealthStatus, not {endpoint.health!r}")
    weight = endpoint.weight
    if isinstance(weight, bool) or not isinstance(weight, int) or not 1 <= weight <= UINT32_MAX:
        raise ValueError(f"endpoint {address}: weight is a whole number from 1, not {weight!r}")
    for name in ("hostname", "hash_key"):
        value = getattr(endpoint, name)
        if not isinstance(value, str):
            raise TypeError(f"endpoint {address}: {name} is a text, not {value!r}")
    check_type(f"endpoint {address}: attributes", endpoint.attributes, Mapping, "a mapping")
    if endpoint.proxy:
        # Without this error the host would be reached directly, and nobody would notice.
        raise ValueError(f"endpoint {address}: only EDS can give a host a proxy (A86); leave proxy out")


def _checked_address(text: object) -> str:
    if not isinstance(text, str):
        raise TypeError(f"an address is a text such as 10.0.0.1:443, not {text!r}")
    scheme, _, path = text.partition(":")
    if scheme in ("unix", "unix-abstract"):
        if path:
            return text
        raise ValueError(f"address {text!r} has no path; write {scheme}:PATH")
    host, _, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and 0 < int(port) <= MAX_PORT
    # Brackets are required just for IPv6: otherwise its last group could be meant as the port.
    is_bracketed = host.startswith("[") and host.endswith("]")
    known = address_text(host.strip("[]"), int(port)) if is_port and is_bracketed == (":" in host) else None
    if known is None:
        remedy = "write 10.0.0.1:443 or [::1]:443, and resolve names first (trio.socket.getaddrinfo)"
        raise ValueError(f"address {text!r} is no IP address with a port; {remedy}")
    return known
