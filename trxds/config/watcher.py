"""The watches behind one target: exactly the resources and names that the last assembly visited.

A watch is a slot in the resolver's mailbox and no task; its letter's sender is the resource.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Protocol

from trxds.ads.state import ResourceState
from trxds.ground.channels import Mailbox
from trxds.ground.status import unavailable
from trxds.resources.types import CDS, EDS, LDS, RDS, ResourceType

from .assemble import Assembly, Key, Known, assemble
from .snapshot import ClusterOutcome, ConfigError, Missing, XdsConfig

# Also the order in which new watches begin, so that requests leave in the order servers expect.
_TYPES = {kind.kind: kind for kind in (LDS, RDS, CDS, EDS)}
_ORDER = [*_TYPES, "DNS"]

_SHOWN = 3  # of what is missing; there may be ten thousand


class Watch(Protocol):
    def leave(self) -> None: ...


class Source(Protocol):
    """Where resources come from: the XdsClient."""

    def watch(self, kind: ResourceType, name: str, mailbox: Mailbox[Any], sender: Hashable) -> Watch: ...

    def awaited(self, type: ResourceType, name: str) -> str:
        """How a resource stands that has not come yet, in words."""
        ...


class Names(Protocol):
    """Where the addresses of DNS names come from."""

    def watch(self, name: str, mailbox: Mailbox[Any], sender: Hashable) -> Watch: ...


class Watcher:
    def __init__(self, source: Source, names: Names, mailbox: Mailbox[Any], listener: str, authority: str) -> None:
        self._source = source
        self._names = names
        self._mailbox = mailbox
        self._listener = listener
        self._authority = authority
        self._watches: dict[Key, Watch] = {}
        self._known: dict[Key, ResourceState] = {}
        self._before: Mapping[str, ClusterOutcome] = {}
        self._missing: tuple[Key, ...] = ()  # in the last picture

    def take(self, key: Hashable, state: ResourceState) -> None:
        """A letter has come."""
        if key in self._watches:
            self._known[key] = state

    def look(self, held: Iterable[str]) -> XdsConfig | ConfigError | Missing:
        """The picture as it is now, and the watches that it needs."""
        assembly = self._assembled(self._known, held)
        self._watch_exactly(assembly.visited)
        self._missing = assembly.awaited
        if not isinstance(assembly.outcome, Missing):
            self._before = assembly.outcome.clusters
        return assembly.outcome

    def present(self, held: Iterable[str]) -> Mapping[str, ClusterOutcome]:
        """Return the clusters of that picture as if all that is awaited were in error."""
        awaited = {key: ResourceState(error=unavailable(self._awaited(*key))) for key in self._missing}
        outcome = self._assembled(ChainMap(awaited, self._known), held).outcome
        assert not isinstance(outcome, Missing)
        return outcome.clusters

    def _assembled(self, known: Known, held: Iterable[str]) -> Assembly:
        return assemble(known, self._listener, self._authority, held, self._before)

    def awaited(self, missing: Missing) -> str:
        """What a call waits for that waits for these."""
        shown = [self._awaited(kind, name) for kind, name in missing.names[:_SHOWN]]
        more = len(missing.names) - len(shown)
        return "; ".join([*shown, f"and {more} more"] if more else shown)

    def _awaited(self, kind: str, name: str) -> str:
        if kind == "DNS":
            return f'DNS name "{name}": it is being looked up'
        return self._source.awaited(_TYPES[kind], name)

    def _watch_exactly(self, wanted: frozenset[Key]) -> None:
        for key in self._watches.keys() - wanted:
            self._watches.pop(key).leave()
            self._known.pop(key, None)
        for key in sorted(wanted - self._watches.keys(), key=lambda key: (_ORDER.index(key[0]), key[1])):
            self._watches[key] = self._watch(*key)

    def _watch(self, kind: str, name: str) -> Watch:
        if kind == "DNS":
            return self._names.watch(name, self._mailbox, (kind, name))
        return self._source.watch(_TYPES[kind], name, self._mailbox, (kind, name))

    def close(self) -> None:
        self._watch_exactly(frozenset())
