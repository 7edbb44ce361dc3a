"""One resource in the client's cache: what is known of it, and the state for its watchers (A40, A88).

Every server of an authority may send a resource, so this knows no stream. The state for watchers is computed anew each
time, so nothing has to be kept in step.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

from msgspec import Struct, structs

from trxds.core.resource_status import ResourceStatus, resource_error
from trxds.core.resource_update import ResourceUpdate
from trxds.core.status import Status
from trxds.resources.types import Parsed, ResourceType

from .discovery_response import NO_BYTES, Raw

Key: TypeAlias = tuple[ResourceType, str]
Changes: TypeAlias = dict[Key, ResourceUpdate]

MAX_KEPT_SIZE = 256 * 1024  # bytes of the version before, which only operators read


STALE = "stale"  # the state, for operators, of a value of the cache on disk


class CacheState(enum.Enum):
    """The states of A88, named as in A78's label. CSDS has the same ones (A40)."""

    REQUESTED = "requested"
    DOES_NOT_EXIST = "does_not_exist"
    ACKED = "acked"
    NACKED = "nacked"
    RECEIVED_ERROR = "received_error"
    TIMEOUT = "timeout"


class ResourceFailure(Struct, frozen=True, gc=False):
    """The reason why a resource is not ACKED; `where` is its source, such as "server 10.0.0.5:18000"."""

    where: str
    reason: str


class UpdateMetadata(Struct, frozen=True, gc=False):
    """An update or an error that came for a resource (CSDS's UpdateFailureState and ACKED version).

    `raw` is empty for an error without a resource. `at` is the time on Trio's clock, `when` the time of day, and
    `server` the sender. `stale_since` is set for a resource from the cache on disk: until then it was known as current.
    """

    version: str
    raw: Raw
    at: float
    server: str = ""
    when: str = ""
    stale_since: str = ""


class Resource(Struct, eq=False, weakref=True):
    """A resource by type and name, with its state. `value` is the last valid one, as long as it may be used.

    `failure` is the reason why `state` is not ACKED. `since` is the time of day at which the resource came to its
    state; for a value in use it is the time at which it came.
    """

    type: ResourceType
    name: str
    state: CacheState = CacheState.REQUESTED
    since: str = ""
    value: object | None = None
    accepted: UpdateMetadata | None = None  # the update that has `value`
    previous: UpdateMetadata | None = None  # the accepted one before, with other bytes or dropped; for operators
    failed: UpdateMetadata | None = None  # the update or event that `failure` is about
    failure: ResourceFailure | None = None
    absent: bool = False
    parsed: Parsed | None = None  # the last update's result; the same object again is no news
    last_published: ResourceUpdate | None = None
    wanted: bool = True  # whether somebody watches it
    server_refcount: int = 0  # how many servers are subscribed to it

    def __repr__(self) -> str:
        return f"<Resource {self.type.kind} {self.name} {self.state.name}{'' if self.value is None else ', cached'}>"

    @property
    def key(self) -> Key:
        return self.type, self.name

    @property
    def has_arrived(self) -> bool:
        """Return whether the resource came, valid or not, and was neither lost nor requested again since."""
        if self.state is CacheState.REQUESTED:
            return False
        return (self.value is not None and not self.is_stale) or self.state is CacheState.NACKED

    @property
    def awaited(self) -> bool:
        """Return whether no usable version came since it was requested, and it is not known to be absent."""
        if self.state is CacheState.REQUESTED:
            return True
        return (self.value is None or self.is_stale) and self.state is not CacheState.DOES_NOT_EXIST

    @property
    def is_stale(self) -> bool:
        """Return whether the value is from the cache on disk: no server has sent one since the program began."""
        return self.accepted is not None and bool(self.accepted.stale_since)

    @property
    def shown_state(self) -> str:
        """Return the state for operators: `STALE` while a value of the cache stands in for a server's answer."""
        is_unanswered = self.state in (CacheState.REQUESTED, CacheState.TIMEOUT)
        return STALE if self.is_stale and is_unanswered else self.state.value

    @property
    def ignored_deletion(self) -> bool:
        """Return whether the server deleted the resource and the last value stays in use (A53, A88)."""
        return self.state is CacheState.DOES_NOT_EXIST and self.value is not None

    def accept(self, update: UpdateMetadata, parsed: Parsed) -> None:
        """Take a valid version of the resource."""
        # State of the world sends all resources with each change, so most updates have the bytes of the last one.
        if self.accepted is not None and self.accepted.raw != update.raw:
            self.previous = _kept(self.accepted)
        self.state, self.value, self.accepted, self.parsed = CacheState.ACKED, parsed.value, update, parsed
        self.since = update.when
        self.failed, self.failure, self.absent = None, None, False

    def reject(self, update: UpdateMetadata, parsed: Parsed, failure: ResourceFailure, *, drop: bool) -> None:
        """Note that a version came and was rejected. `drop` takes the value too."""
        self.fail(CacheState.NACKED, update, failure, drop=drop)
        self.parsed = parsed

    def fail(
        self,
        state: CacheState,
        update: UpdateMetadata,
        failure: ResourceFailure,
        *,
        drop: bool = True,
        absent: bool = False,
    ) -> None:
        """Note a failure. `drop` takes the value too; without it the value is used as before (A88)."""
        if state is not self.state:
            self.since = update.when
        # `parsed` is cleared so that the same bytes are news when they come again.
        self.state, self.failed, self.failure, self.parsed = state, update, failure, None
        if drop:
            if self.accepted is not None:
                self.previous = _kept(self.accepted)
            self.value = self.accepted = None
        # A value that is kept stays in use (A53, A88), so the resource is not absent for watchers.
        self.absent = absent and self.value is None

    def replace_update(self, before: UpdateMetadata, update: UpdateMetadata) -> None:
        """Take `update` in place of `before`, which has the same bytes."""
        if self.accepted is before:
            self.accepted = update
        if self.failed is before:
            self.failed = update

    def restore(self, update: UpdateMetadata, parsed: Parsed) -> None:
        """Take the value of the cache on disk, until a server answers. The resource stays requested."""
        self.state, self.value, self.accepted = CacheState.REQUESTED, parsed.value, update
        self.failed, self.failure, self.absent = None, None, False

    def forget(self) -> None:
        """Return to the state before the first request."""
        self.state, self.value, self.failure, self.parsed = CacheState.REQUESTED, None, None, None
        self.accepted = self.previous = self.failed = self.last_published = None
        self.absent, self.since = False, ""

    def request_again(self) -> None:
        """Request a resource again of which the server may believe that it is not wanted.

        The value is used until it answers.
        """
        # A71: an absent resource counts as known, so a second request is no reason to fall back or for RPCs to wait.
        if self.state is not CacheState.DOES_NOT_EXIST:
            self.state, self.parsed = CacheState.REQUESTED, None
            self.failed, self.failure, self.absent = None, None, False

    def watcher_state(self, failure: ResourceFailure | None, node: str) -> ResourceUpdate | None:
        """Return the state for watchers, or None while a server may still answer.

        `failure` is set while no server can be reached. Without a value, a failure of the resource itself goes before
        it.
        """
        if self.value is not None:
            # The outage goes first: while it lasts, no update can repair the resource.
            reported = failure or self.failure
            if self.is_stale:
                reported = self._stale(reported)
            ambient = self._status(reported, node) if reported else None
            return ResourceUpdate(self.value, ambient=ambient, standing=self._standing_of_value(node))
        reported = self.failure or failure
        if reported is None:
            return None
        return ResourceUpdate(error=self._status(reported, node), absent=self.absent)

    def standing(self, where: str, node: str) -> ResourceStatus:
        """Return the resource's status for messages; `where` is the source of the statement."""
        return ResourceStatus(self.type.kind, self.name, where, node, self.state.name, self.since)

    def _standing_of_value(self, node: str) -> ResourceStatus | None:
        """Return the status of the value in use, which stays ACKED when a later version was rejected."""
        update = self.accepted
        if update is None:
            return None
        acked = CacheState.ACKED.name
        where = f"{'cache of ' if update.stale_since else ''}server {update.server}"
        return ResourceStatus(self.type.kind, self.name, where, node, acked, update.when, update.version)

    @property
    def stale_note(self) -> str:
        """Return the note that the value in use is from the cache on disk; empty for any other."""
        since = self.accepted.stale_since if self.accepted is not None else ""
        return f"stale, from the cache on disk, current until {since}" if since else ""

    def _stale(self, failure: ResourceFailure | None) -> ResourceFailure:
        """Return the failure with the note that the value in use is from the cache on disk."""
        server = self.accepted.server if self.accepted is not None else ""
        failure = failure or ResourceFailure(f"server {server}", "the server has sent nothing of it yet")
        return structs.replace(failure, reason=f"{self.stale_note}: {failure.reason}")

    def _status(self, failure: ResourceFailure, node: str) -> Status:
        return resource_error(self.standing(failure.where, node), failure.reason)


def differs(state: ResourceUpdate, published: ResourceUpdate | None) -> bool:
    """Return whether two states differ for a watcher.

    Values are compared by identity: equal bytes have the same value, and to compare large ones takes long.
    """
    if published is None or state.value is not published.value:
        return True
    return (state.error, state.absent, state.ambient) != (published.error, published.absent, published.ambient)


def _kept(update: UpdateMetadata) -> UpdateMetadata:
    """Return the update without its bytes if these are too many to keep them for operators alone."""
    return update if len(update.raw[1]) <= MAX_KEPT_SIZE else structs.replace(update, raw=NO_BYTES)
