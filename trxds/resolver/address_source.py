"""The sources of a target's endpoints without xDS: known addresses, a DNS name, or a program's own resolver."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

import trio
from msgspec import Struct

from trxds.core.backoff import Backoff
from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.resource_update import ResourceUpdate
from trxds.resources.endpoint import Endpoint, Locality, LocalityId

from .dns_resolver import DnsResolver, DnsWatch, Resolve
from .http_filters import EffectiveFilter
from .resolve_now import ResolveNow
from .resolver_update import Resolver
from .resolver_watch import Accept, ResolverWatch
from .service_config import ServiceConfig
from .target_uri import ResolverTarget

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

    @property
    def locality(self) -> Locality:
        """Return the endpoints as those of the one locality that the target has."""
        return Locality(LocalityId(), 1, self.endpoints)


class AddressSource(Protocol):
    """A source puts a `ResourceUpdate` into a queue, as "name", for each new state while it is open.

    Its value is a `Resolution`, or addresses, for which the configuration stays as it is.
    """

    def open(self, nursery: trio.Nursery, queue: ConflatingQueue[Any]) -> None:
        """Begin to resolve. Synchronous."""

    def close(self) -> None:
        """End all tasks, and take an unread message back. Synchronous and idempotent."""

    def request(self) -> None:
        """Resolve again soon, because an address seems to be out of date. Synchronous."""


class KnownAddresses:
    """The addresses of an `ipv4:`, `ipv6:` or `unix:` target, which never change."""

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self._addresses = addresses

    def open(self, nursery: trio.Nursery, queue: ConflatingQueue[Any]) -> None:
        queue.put(SENDER, ResourceUpdate(self._addresses))

    def close(self) -> None:
        pass

    def request(self) -> None:
        pass


class WatchedSource:
    """A name or a target that a task resolves while the source is open; `start_watch` starts that task."""

    _watch: DnsWatch | ResolverWatch  # from the first `open` on

    def __init__(self, start_watch: Callable[[trio.Nursery, ConflatingQueue[Any]], DnsWatch | ResolverWatch]) -> None:
        self._start_watch = start_watch

    def open(self, nursery: trio.Nursery, queue: ConflatingQueue[Any]) -> None:
        self._watch = self._start_watch(nursery, queue)

    def close(self) -> None:
        self._watch.cancel()

    def request(self) -> None:
        self._watch.resolve_now.request()


def dns_source(name: str, look_up: Resolve, random: Random, refresh: float) -> WatchedSource:
    """Return the source of a `dns:` target, whose name is resolved again on request and each `refresh` seconds."""

    def start_watch(nursery: trio.Nursery, queue: ConflatingQueue[Any]) -> DnsWatch:
        return DnsResolver(nursery, look_up, random, refresh).watch(name, queue, SENDER)

    return WatchedSource(start_watch)


def custom_source(
    target: ResolverTarget, resolver: Resolver, accept: Accept, random: Random, refresh: float
) -> WatchedSource:
    """Return the source of the endpoints that a program's own resolver yields."""

    def start_watch(nursery: trio.Nursery, queue: ConflatingQueue[Any]) -> ResolverWatch:
        resolve_now, backoff = ResolveNow(refresh), Backoff(random)
        watch = ResolverWatch(target, resolver, accept, backoff, resolve_now, queue, SENDER)
        nursery.start_soon(watch.run, name=f"resolver/{target.text}")
        return watch

    return WatchedSource(start_watch)
