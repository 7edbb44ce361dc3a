"""The effect of one server's response on a resource: accepted, rejected, failed, deleted or late (A53, A57, A88)."""

from __future__ import annotations

import logging

from msgspec import Struct, structs

from trxds.core.clock import TimeOfDay
from trxds.core.status import StatusCode

from .bootstrap import is_file
from .discovery_response import NO_BYTES, ParsedResource, ResourceError, describe_errors
from .resource import CacheState, Resource, ResourceFailure, UpdateMetadata
from .resource_error_policy import ResourceErrorPolicy
from .subscription import Subscription

log = logging.getLogger("trxds.xds")


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
