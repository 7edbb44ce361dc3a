"""The effect of one server's response on a resource: accepted, rejected, failed, deleted or late (A53, A57, A88)."""

from __future__ import annotations

import logging
from collections.abc import Collection

from msgspec import Struct, field, structs

from trxds.core.clock import TimeOfDay
from trxds.core.status import StatusCode
from trxds.resources.types import Parsed

from .bootstrap import is_file
from .discovery_response import NO_BYTES, ParsedResource, Raw, ResourceError, describe_errors
from .resource import CacheState, Resource, ResourceFailure, UpdateMetadata
from .resource_error_policy import ResourceErrorPolicy

log = logging.getLogger("trxds.xds")


class Subscription(Struct, eq=False):
    """The requested resources of one type by name, and what the server sent of them; this outlives its streams.

    `unwanted` are those that nobody watches; they go when the server knows.
    """

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


class ResourceUpdater(Struct, frozen=True):
    """The updates from `server`, an address. `time_of_day` converts only the present time."""

    server: str
    rules: ResourceErrorPolicy
    time_of_day: TimeOfDay

    def new_metadata(self, version: str, now: float) -> UpdateMetadata:
        """Return the metadata of an event of now; for a resource that came, the bytes are still missing."""
        return UpdateMetadata(version, NO_BYTES, now, self.server, self.time_of_day(now))

    def accept(
        self, resource: Resource, item: ParsedResource, metadata: UpdateMetadata, subscription: Subscription
    ) -> bool:
        """Accept or reject a resource. Return False if it is equal to the last one."""
        parsed = item.parsed
        # In delta each resource has its own version; in state of the world all have the response's.
        version = metadata.version if item.version is None else item.version
        if parsed is resource.parsed:
            _note_version(resource, version, subscription)
            return False
        update = UpdateMetadata(version, item.raw, metadata.at, metadata.server, metadata.when)
        if _is_as_cached(resource, update) and resource.value == parsed.value:
            # With the same object nothing changes for watchers, and nobody has to compare ten thousand endpoints.
            parsed = structs.replace(parsed, value=resource.value)
        subscription.note(resource.name, update, parsed)
        if parsed.errors:
            reason = f"invalid resource: {describe_errors(parsed.errors, resource.type)}"
            resource.reject(update, parsed, self._failure(reason), drop=self.rules.drop_rejected)
            return True
        if resource.ignored_deletion:
            log.info('%s resource "%s" is back', resource.type.kind, resource.name)  # A53
        resource.accept(update, parsed)
        return True

    def fail(self, resource: Resource, failed: ResourceError, metadata: UpdateMetadata) -> None:
        """Note the error that the server sent in place of the resource (xRFC TP3)."""
        resource.fail(
            CacheState.RECEIVED_ERROR,
            metadata,
            self._failure(f"the server reports {failed}"),
            drop=self.rules.drop_failed(failed.code),
            absent=failed.code == StatusCode.NOT_FOUND,
        )

    def delete(self, resource: Resource, metadata: UpdateMetadata) -> None:
        """Note that the server deleted the resource."""
        drop = self.rules.drop_deleted or resource.value is None
        why = "no file there has it" if is_file(self.server) else "deleted by the server"
        reason = f"does not exist, {why}" + ("" if drop else "; the last one is kept")
        resource.fail(CacheState.DOES_NOT_EXIST, metadata, self._failure(reason), drop=drop, absent=True)

    def on_resource_timeout(self, resource: Resource, now: float, *, is_answering: bool) -> None:
        """Note that the resource did not come in time (A57).

        A value of the cache on disk goes only if the server answers at all, and so would have the resource.
        """
        # A88: a server with resource_timer_is_transient_error may be slow, so the resource is late and not absent.
        absent = self.rules.late_is_absent and (is_answering or not resource.is_stale)
        # A value that is requested again stays as after a deletion (A53, A88).
        drop = absent and (self.rules.drop_deleted or resource.is_stale)
        is_kept = absent and not drop and resource.value is not None
        reason = f"{'does not exist' if absent else 'no answer'}, asked {self.rules.wait:g} s before"
        resource.fail(
            CacheState.DOES_NOT_EXIST if absent else CacheState.TIMEOUT,
            self.new_metadata("", now),
            self._failure(reason + ("; the last one is kept" if is_kept else "")),
            drop=drop,
            absent=absent,
        )

    def _failure(self, reason: str) -> ResourceFailure:
        return ResourceFailure(f"server {self.server}", reason)


def _note_version(resource: Resource, version: str, subscription: Subscription) -> None:
    """Note the version with which unchanged bytes came again. The time stays that of their first arrival."""
    before = subscription.last_sent.get(resource.name)
    if before is not None and before.version != version:
        # A40: operators compare the versions of CSDS with those of the control plane.
        update = subscription.last_sent[resource.name] = structs.replace(before, version=version)
        resource.replace_update(before, update)


def _is_as_cached(resource: Resource, update: UpdateMetadata) -> bool:
    """Return whether the cache on disk, which is in use, has the same bytes."""
    return resource.is_stale and resource.accepted is not None and resource.accepted.raw == update.raw
