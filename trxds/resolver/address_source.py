"""The sources of a target's endpoints without xDS: known addresses, a DNS name, or a program's own resolver."""

from __future__ import annotations

import math
from random import Random
from typing import Any, Protocol

import trio
from msgspec import Struct

from trxds.core.backoff import Backoff
from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.resource_update import ResourceUpdate
from trxds.resources.endpoint import Endpoint

from .dns_resolver import DnsResolver, DnsWatch, Resolve
from .http_filters import EffectiveFilter
from .resolve_now import ResolveNow
from .resolver_update import Resolver
from .resolver_watch import Accept, ResolverWatch
from .service_config import ServiceConfig
from .target_uri import NonXdsTarget, ResolverTarget

SENDER = "name"


class TargetConfig(Struct, frozen=True, eq=False):
    """A service config as a target uses it, with its policy and the `filters` of all calls. Compared by identity."""

    config: ServiceConfig
    policy: Any
    filters: tuple[EffectiveFilter, ...] = ()


class Resolution(Struct, frozen=True):
    """The endpoints of a target and the configuration for them; `note` says why there may be none."""

    endpoints: tuple[Endpoint, ...]
    config: TargetConfig
    note: str = ""


class AddressSource(Protocol):
    """A source puts a `ResourceUpdate` into a queue, as "name", for each new state while it is open."""

    def open(self, nursery: trio.Nursery, queue: ConflatingQueue[Any]) -> None:
        """Begin to resolve. Synchronous."""

    def close(self) -> None:
        """End all tasks, and take an unread message back. Synchronous and idempotent."""

    def request(self) -> None:
        """Resolve again soon, because an address seems to be out of date. Synchronous."""


class KnownAddresses:
    """The addresses of an `ipv4:`, `ipv6:` or `unix:` target, which never change."""

    def __init__(self, target: NonXdsTarget, config: TargetConfig) -> None:
        self._resolution = as_resolution(target.addresses, config)

    def open(self, nursery: trio.Nursery, queue: ConflatingQueue[Any]) -> None:
        queue.put(SENDER, ResourceUpdate(self._resolution))

    def close(self) -> None:
        pass

    def request(self) -> None:
        pass


class DnsName:
    """The name of a `dns:` target, resolved again on request and each `refresh` seconds."""

    def __init__(
        self, target: NonXdsTarget, config: TargetConfig, look_up: Resolve, random: Random, refresh: float = math.inf
    ) -> None:
        self._name = target.name
        self._config = config
        self._look_up = look_up
        self._random = random
        self._refresh = refresh
        self._watch: DnsWatch | None = None

    def open(self, nursery: trio.Nursery, queue: ConflatingQueue[Any]) -> None:
        names = DnsResolver(nursery, self._look_up, self._random, self._refresh)
        self._watch = names.watch(self._name, queue, SENDER)

    def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()

    def request(self) -> None:
        if self._watch is not None:
            self._watch.resolve_now.request()


class CustomSource:
    """The endpoints that a program's own resolver yields."""

    def __init__(
        self, target: ResolverTarget, resolver: Resolver, accept: Accept, random: Random, refresh: float = math.inf
    ) -> None:
        self._target = target
        self._resolver = resolver
        self._accept = accept
        self._random = random
        self._refresh = refresh
        self._watch: ResolverWatch | None = None

    def open(self, nursery: trio.Nursery, queue: ConflatingQueue[Any]) -> None:
        resolve_now = ResolveNow(self._refresh)
        watch = self._watch = ResolverWatch(
            self._target, self._resolver, self._accept, Backoff(self._random), resolve_now, queue, SENDER
        )
        nursery.start_soon(watch.run, name=f"resolver/{self._target.text}")

    def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()

    def request(self) -> None:
        if self._watch is not None:
            self._watch.resolve_now.request()


def as_resolution(addresses: tuple[str, ...], config: TargetConfig) -> Resolution:
    """Return the resolution of plain addresses."""
    return Resolution(tuple(Endpoint((address,)) for address in addresses), config)
