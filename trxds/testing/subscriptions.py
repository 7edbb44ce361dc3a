"""`Subscriptions` hold the names that a client subscribes to on one ADS stream, and the resources sent there.

State of the world: a Listener or Cluster response is complete, a RouteConfiguration or
ClusterLoadAssignment response holds what is new to the stream. Delta: every response holds what is
new to the stream, and lists the names of removed or absent resources.

The endpoints of a new or changed cluster are sent again, even if the stream has had the same before: a client may warm
the cluster, and wait for them while it uses the old one. Envoy does, for 15 s.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from trxds.resources import protos
from trxds.resources.types import RESOURCE_TYPES

TYPE_URLS = {type.kind: type.type_url for type in RESOURCE_TYPES.values()}
COMPLETE = frozenset(type.kind for type in RESOURCE_TYPES.values() if type.full_state)

# The Any of a resource, or the ResourceError in its place (xRFC TP3).
Entry: TypeAlias = Any


class Sending(Struct, frozen=True):
    """A `Sending` is a response that is due; `names` are those of its resources and errors."""

    message: Any
    names: tuple[str, ...]


class Subscriptions(Protocol):
    """The subscriptions of one stream, by kind of resource."""

    request: Any  # the class of a request's message

    def handle_request(self, kind: str, message: Any) -> tuple[str, ...]:
        """Apply a request; return the names that the stream now subscribes to."""
        ...

    def next_response(self, kind: str, entries: Mapping[str, Entry], version: int, nonce: str) -> Sending | None:
        """Return the response that is due, and note it as sent; None if there is nothing to send."""
        ...


@dataclass(slots=True, eq=False)
class StateOfTheWorld:
    """The subscriptions of one stream in the state-of-the-world protocol."""

    request = protos.DiscoveryRequest

    wanted: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sent: dict[str, dict[str, bytes]] = field(default_factory=dict)
    nonces: dict[str, str] = field(default_factory=dict)  # of the last response of each kind
    wildcards: set[str] = field(default_factory=set)  # kinds whose first request named nothing: everything

    def handle_request(self, kind: str, message: Any) -> tuple[str, ...]:
        """Apply a request, unless it answers an older response: another request is on its way then."""
        names, nonce = tuple(message.resource_names), message.response_nonce
        if kind in TYPE_URLS and not (nonce and nonce != self.nonces.get(kind)):
            self._subscribe(kind, names)
        return names

    def _subscribe(self, kind: str, names: tuple[str, ...]) -> None:
        if not names and kind in COMPLETE and kind not in self.wanted:
            self.wildcards.add(kind)
        if names:
            self.wildcards.discard(kind)
        self.wanted[kind] = names
        if kind in self.sent and kind not in self.wildcards:
            # A name that is dropped and requested again is sent again.
            sent = self.sent[kind]
            self.sent[kind] = {name: sent[name] for name in names if name in sent}

    def next_response(self, kind: str, entries: Mapping[str, Entry], version: int, nonce: str) -> Sending | None:
        due = self._new(kind, entries)
        if due is None:
            return None
        self.nonces[kind] = nonce
        sent = _contents(due)
        if kind == "CDS":
            before = self.sent.get(kind, {})
            _mark_unsent(self.sent.get("EDS"), (due[name] for name in due if before.get(name) != sent[name]))
        self.sent[kind] = sent if kind in COMPLETE else {**self.sent.get(kind, {}), **sent}
        return sotw_response(kind, due, version, nonce)

    def _new(self, kind: str, entries: Mapping[str, Entry]) -> dict[str, Entry] | None:
        if kind not in self.wanted:
            return None
        names: Iterable[str] = entries if kind in self.wildcards else self.wanted[kind]
        have = {name: entries[name] for name in names if name in entries}
        before = self.sent.get(kind)
        if kind in COMPLETE:
            return have if before is None or before != _contents(have) else None
        changed = {name: entry for name, entry in have.items() if before is None or before.get(name) != _content(entry)}
        return changed or None


def sotw_response(kind: str, entries: Mapping[str, Entry], version: int, nonce: str) -> Sending:
    """Return a state-of-the-world response of these entries."""
    message = protos.DiscoveryResponse(
        version_info=str(version),
        type_url=TYPE_URLS[kind],
        nonce=nonce,
        resources=[entry for entry in entries.values() if not is_error(entry)],
        resource_errors=[entry for entry in entries.values() if is_error(entry)],
    )
    return Sending(message, tuple(entries))


@dataclass(slots=True, eq=False)
class Delta:
    """The subscriptions of one stream in the delta protocol."""

    request = protos.DeltaDiscoveryRequest

    wanted: dict[str, dict[str, None]] = field(default_factory=dict)  # "*" subscribes to everything
    sent: dict[str, dict[str, str | None]] = field(default_factory=dict)  # versions; None for an absent resource

    def handle_request(self, kind: str, message: Any) -> tuple[str, ...]:
        subscribe = list(message.resource_names_subscribe)
        if not subscribe and kind in COMPLETE and kind not in self.wanted:
            subscribe = ["*"]
        wanted, sent = self.wanted.setdefault(kind, {}), self.sent.setdefault(kind, {})
        sent.update(message.initial_resource_versions)
        for name in (*message.resource_names_unsubscribe, *subscribe):
            wanted.pop(name, None)
            if name not in message.initial_resource_versions:
                sent.pop(name, None)  # a name that is subscribed to again is sent again
        wanted.update(dict.fromkeys(subscribe))
        return tuple(wanted)

    def next_response(self, kind: str, entries: Mapping[str, Entry], version: int, nonce: str) -> Sending | None:
        if kind not in self.wanted:
            return None
        sent = self.sent[kind]
        now = {name: _version(entries.get(name)) for name in self._names(kind, entries)}
        new = {name: entries.get(name) for name, revision in now.items() if name not in sent or sent[name] != revision}
        if not new:
            return None
        sent.update((name, now[name]) for name in new)
        if kind == "CDS":
            _mark_unsent(self.sent.get("EDS"), new.values())
        message = protos.DeltaDiscoveryResponse(
            system_version_info=str(version),
            type_url=TYPE_URLS[kind],
            nonce=nonce,
            resources=[
                protos.Resource(name=name, version=now[name], resource=entry)
                for name, entry in new.items()
                if entry is not None and not is_error(entry)
            ],
            removed_resources=[name for name, entry in new.items() if entry is None],
            resource_errors=[entry for entry in new.values() if is_error(entry)],
        )
        return Sending(message, tuple(new))

    def _names(self, kind: str, entries: Mapping[str, Entry]) -> dict[str, None]:
        wanted = self.wanted[kind]
        if "*" not in wanted:
            return wanted
        return dict.fromkeys((*entries, *(name for name in self.sent[kind] if name not in entries)))


def _mark_unsent(endpoints: dict[str, Any] | None, clusters: Iterable[Entry | None]) -> None:
    """Mark the endpoints of these clusters as not sent."""
    if not endpoints:
        return
    for entry in clusters:
        if entry is not None and not is_error(entry):
            cluster = protos.Cluster.FromString(entry.value)
            endpoints.pop(cluster.eds_cluster_config.service_name or cluster.name, None)


def is_error(entry: Entry) -> bool:
    return isinstance(entry, protos.ResourceError)


def _content(entry: Entry) -> bytes:
    """Return the bytes by which two versions of an entry are compared."""
    return bytes(entry.SerializeToString(deterministic=True) if is_error(entry) else entry.value)


def _contents(entries: Mapping[str, Entry]) -> dict[str, bytes]:
    return {name: _content(entry) for name, entry in entries.items()}


def _version(entry: Entry | None) -> str | None:
    """Return a resource's own version: the same for equal bytes, over streams and restarts."""
    return None if entry is None else f"{zlib.crc32(_content(entry)):08x}"
