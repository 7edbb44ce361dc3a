"""The resources of one type that are requested from one server, and what it sent of them; this outlives its streams."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct, field

from trxds.resources.types import Parsed

from .discovery_response import Raw
from .resource import Resource, UpdateMetadata


class Subscription(Struct, eq=False):
    """The subscribed resources by name. `unwanted` are those that nobody watches; they go when the server knows."""

    version: str = ""  # the last one that was accepted as a whole
    resources: dict[str, Resource] = field(default_factory=dict)
    unwanted: set[str] = field(default_factory=set)
    last_sent: dict[str, UpdateMetadata] = field(default_factory=dict)  # the last update of each
    parsed: dict[Raw, Parsed] = field(default_factory=dict)  # the parsed form of those updates

    @property
    def wanted(self) -> Collection[str]:
        """Return the names to request, in the order in which they were subscribed."""
        if not self.unwanted:
            return self.resources.keys()
        return [name for name in self.resources if name not in self.unwanted]

    def versions(self) -> dict[str, str]:
        """Return the versions of all cached resources.

        The version is "" for a resource from another server, or one that is not as this server sent it last.
        """
        have = (resource for resource in self.resources.values() if resource.value is not None)
        return {resource.name: self._version(resource) for resource in have}

    def _version(self, resource: Resource) -> str:
        update = self.last_sent.get(resource.name)
        # With the version of a rejected update, or another server's, the server would take the client for up to date.
        same = update is not None and update is resource.accepted and not resource.awaited
        return update.version if update is not None and same else ""

    def note(self, name: str, update: UpdateMetadata, parsed: Parsed) -> None:
        """Note the version of a resource that this server sent last, and what its bytes were parsed to."""
        # The last version's parsed form goes first, or all versions would be kept for ever.
        self.forget(name)
        self.last_sent[name] = update
        self.parsed[update.raw] = parsed

    def forget(self, name: str) -> None:
        """Forget the version of a resource that this server sent last."""
        if update := self.last_sent.pop(name, None):
            self.parsed.pop(update.raw, None)
