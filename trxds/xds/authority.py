"""The resources of one authority, and the choice among its servers (A47, A71, A95).

Everything is requested from the first server. If it cannot be reached, and a wanted resource never came, everything is
requested from the next server too, and so on. A server that answers replaces all servers below it. This is decided
anew, from the state of the servers and resources, whenever either has changed. An authority whose resources are soon
out of date may do without the second condition (A95).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias
from weakref import WeakValueDictionary

from trxds.core.clock import TimeOfDay, since_1970
from trxds.core.resource_status import resource_error
from trxds.core.resource_update import ResourceUpdate
from trxds.core.status import Status
from trxds.resources.types import Parsed, ResourceType

from .ads_stream_state import AdsStreamState
from .bootstrap import ServerConfig
from .resource import CacheState, Changes, Key, Resource, ResourceFailure, UpdateMetadata, differs

log = logging.getLogger("trxds.xds")


RestoredResource: TypeAlias = tuple[UpdateMetadata, Parsed]


class StreamOwner(Protocol):
    """The owner of the ADS streams. Authorities with equal servers share them."""

    def get_or_create_stream(self, server: ServerConfig) -> AdsStreamState: ...
    def release_stream(self, stream_state: AdsStreamState) -> None: ...


class Authority:
    """One authority of the bootstrap. `servers` have the highest priority first.

    With `fallback_on_reachability_only` it falls back even if no resource is missing (A95).
    """

    def __init__(
        self,
        servers: Sequence[ServerConfig],
        stream_owner: StreamOwner,
        node: str,
        time_of_day: TimeOfDay = since_1970,
        *,
        fallback_on_reachability_only: bool = False,
    ) -> None:
        self._servers = servers
        self._fallback_on_reachability_only = fallback_on_reachability_only
        self._stream_owner = stream_owner
        self._node = node
        self._time_of_day = time_of_day
        self._active: list[AdsStreamState] = []  # the first of `servers`
        self._resources: dict[Key, Resource] = {}
        # Watched no longer, but some server does not know yet: until then its `AdsStreamState` has the resource. A
        # program that watches ever new names must not leak them.
        self._unwatched: WeakValueDictionary[Key, Resource] = WeakValueDictionary()
        self._failure: ResourceFailure | None = None
        self._closed_since = ""
        self._cached: Mapping[Key, RestoredResource] = {}  # the usable content of the cache on disk, if it is needed
        self.cache_pending = False
        """Whether the cache on disk may still have values. Until it is used, watchers get no error in their place."""
        self.has_answered = False
        """Whether a server has ever answered; from then on nothing is taken from the cache on disk."""
        self.watched_since = math.inf
        """The time on Trio's clock of the first watch."""

    def __repr__(self) -> str:
        return f"<Authority {len(self._resources)} resources of {self._active}>"

    @property
    def resources(self) -> Iterable[Resource]:
        """Return all watched resources."""
        return self._resources.values()

    @property
    def active_servers(self) -> tuple[str, ...]:
        """Return the URIs of the servers in use, the highest priority first."""
        return tuple(stream_state.server.uri for stream_state in self._active)

    @property
    def outage(self) -> str:
        """Return which servers cannot be reached, since when and why; empty while one may still answer."""
        failure = self._current_failure()
        return f"{failure.where}: {failure.reason}" if failure is not None else ""

    def uses(self, stream_state: AdsStreamState) -> bool:
        return stream_state in self._active

    def describe_pending(self, key: Key) -> str:
        """Describe why a resource is not in use yet; the text is empty for one that nobody watches."""
        resource = self._resources.get(key)
        return self._pending_error(resource).message if resource is not None else ""

    def _pending_error(self, resource: Resource) -> Status:
        if not _never_came(resource):
            why = "the channel is about to act on that"  # its task has not run since
        elif any(each.is_connected for each in self._active):
            why = "the server has sent nothing of it yet"
        else:
            why = "there is no stream to the server yet"
        return resource_error(resource.standing(self._describe_servers(self._active), self._node), why)

    # -- watches

    def watch(self, type: ResourceType, name: str, now: float) -> Changes:
        """Watch a resource, and return the changes: what is known of it, and what the watch brings about."""
        # A resource that the servers still send is taken back with what is known of it, and not requested anew.
        resource = self._resources.get((type, name)) or self._unwatched.pop((type, name), None) or Resource(type, name)
        self._resources[type, name] = resource
        resource.wanted, resource.last_published = True, None
        resource.since = resource.since or self._time_of_day(now)
        self.watched_since = min(self.watched_since, now)
        # Only now: the bootstrap may have authorities that no target of the program uses.
        if not self._active and not self._closed_since:
            self._fall_back()
        for stream_state in self._active:
            stream_state.subscribe(resource)
        return self.review([resource])

    def resource(self, type: ResourceType, name: str) -> Resource:
        """Return a watched resource."""
        return self._resources[type, name]

    def unwatch(self, type: ResourceType, name: str) -> Resource:
        """Watch a resource no longer. It is kept until the servers know, since a watcher may come back."""
        resource = self._resources.pop((type, name))
        resource.wanted = False
        for stream_state in self._active:
            stream_state.unsubscribe(resource)
        self._unwatched[type, name] = resource
        return resource

    def close(self, now: float) -> Changes:
        """Use no server any more. Known resources stay in use; the others are in error from now on."""
        self._closed_since, self.cache_pending = self._time_of_day(now), False
        for stream_state in self._active:
            stream_state.close()
        self._active = []
        return self.review([])

    # -- servers

    def review(self, touched: Iterable[Resource]) -> Changes:
        """Choose the servers after an event of these resources or of a server, and return what changed for watchers."""
        cache_pending = self.cache_pending
        if self._return_to_higher_priority():
            # A server that was dropped may have had updates that are not reviewed yet, as it was reading on.
            touched = self._resources.values()
        while self._should_fall_back():
            self._fall_back()
        failure = self._current_failure()
        if failure != self._failure or cache_pending is not self.cache_pending:
            # A57: an outage concerns every watcher of this authority, and so does its end.
            self._failure, touched = failure, self._resources.values()
        return self._collect_changes(touched)

    # -- the cache on disk

    def use_cached(self, cached: Mapping[Key, RestoredResource]) -> Changes:
        """Use these values for resources without one, until a server answers. Return what changed for watchers."""
        self._cached, self.cache_pending = {} if self.has_answered else cached, False
        return self.review(self._resources.values())

    @property
    def stale(self) -> Iterable[Resource]:
        """Return the resources whose value is from the cache on disk."""
        return [each for each in self._resources.values() if each.is_stale]

    def _return_to_higher_priority(self) -> bool:
        """Drop all servers below the first one that answers; return whether there were any."""
        for count, stream_state in enumerate(self._active, 1):
            # A71: its first response is enough, although resources in use may still be from a server below.
            if stream_state.is_answering:
                if not self.has_answered and self.stale:
                    text = "xDS server %s answers, and replaces what is from the cache on disk"
                    log.info(text, stream_state.server.uri)
                self.has_answered, self.cache_pending = True, False
                # It has the newest: what it sends later, or never, must not come from the cache first.
                self._cached = {}
                below, self._active = self._active[count:], self._active[:count]
                for each in below:
                    log.info("xDS server %s answers; %s is no longer used", stream_state.server.uri, each.server.uri)
                    self._drop(each)
                return bool(below)
        return False

    def _all_failed(self) -> bool:
        """Return whether all servers in use have failed, so that none may still answer."""
        # Not the last one alone: one above it forgets its failure when it becomes idle, and is tried again.
        return bool(self._active) and all(each.failure is not None for each in self._active)

    def _should_fall_back(self) -> bool:
        # A71: as long as a server in use may still answer, the next one is not used.
        if not self._all_failed() or len(self._active) == len(self._servers):
            return False
        # A71: without a server, cached resources are good enough. A95: endpoints go out of date, so their authority may
        # fall back without this condition.
        return self._fallback_on_reachability_only or any(map(_never_came, self._resources.values()))

    def _fall_back(self) -> None:
        for above in self._active:
            # The new server may replace resources, so a delta server above has to send all of them when it returns.
            above.forget_versions()
        # A71: the servers above stay in use, or their return would not be noticed.
        stream_state = self._stream_owner.get_or_create_stream(self._servers[len(self._active)])
        if self._active:
            failed = self._active[-1]
            log.warning(
                "xDS server %s: %s; using %s as well", failed.server.uri, failed.failure, stream_state.server.uri
            )
        self._active.append(stream_state)
        # A71: everything is requested, not only what is missing: resources of two servers need not fit together.
        for resource in self._resources.values():
            stream_state.subscribe(resource)

    def _drop(self, stream_state: AdsStreamState) -> None:
        # Another authority may share the stream, so it cannot just end.
        for resource in (*self._resources.values(), *self._unwatched.values()):
            stream_state.unsubscribe(resource)
        self._stream_owner.release_stream(stream_state)

    def _current_failure(self) -> ResourceFailure | None:
        """Return the failure of all servers, or None while one of them may still answer (A71)."""
        if self._closed_since:
            return ResourceFailure("no server", f"the xDS client is closed since {self._closed_since}")
        if not self._all_failed():
            return None
        failing = self._active
        since = max(each.failing_since for each in failing)  # the last one could still answer until then
        where = self._describe_servers(failing)
        if len(failing) == 1:
            what = "read the resources" if failing[0].server.files else "reach the xDS server"
            return ResourceFailure(where, f"cannot {what} since {since}: {failing[0].failure}")
        reasons = "; ".join(f"{each.server.uri}: {each.failure}" for each in failing)
        return ResourceFailure(where, f"cannot reach any xDS server since {since}: {reasons}")

    def _describe_servers(self, asked: Sequence[AdsStreamState]) -> str:
        uris = ", ".join(each.server.uri for each in asked)
        return f"server{'s' * (len(asked) > 1)} {uris}"

    # -- updates for watchers

    def _collect_changes(self, touched: Iterable[Resource]) -> Changes:
        changes: Changes = {}
        for resource in touched:
            state = self._watcher_update(resource)
            if state is not None and differs(state, resource.last_published):
                resource.last_published = changes[resource.key] = state
        return changes

    def _watcher_update(self, resource: Resource) -> ResourceUpdate | None:
        if self._resources.get(resource.key) is not resource:
            return None  # it belongs to another authority, or nobody watches it
        if resource.value is None and resource.key in self._cached:
            resource.restore(*self._cached[resource.key])
        if self.cache_pending and resource.value is None:
            return None
        state = resource.watcher_state(self._failure, self._node)
        if state is None and resource.last_published is not None:
            # Watchers got the error that no server can be reached, which is over.
            return ResourceUpdate(error=self._pending_error(resource))
        return state


def _never_came(resource: Resource) -> bool:
    """Return whether no server has sent the resource yet; what the cache on disk had of it does not count (A71)."""
    return resource.state is CacheState.REQUESTED and (resource.value is None or resource.is_stale)
