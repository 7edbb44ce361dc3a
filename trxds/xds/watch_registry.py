"""The watches of all resources: each puts the states of its resource into the queue of its watcher (A74).

A watch costs a slot in that queue and no task. The states belong to `Authority`; the registry only distributes them, so
it has a resource's state as long as somebody watches it. A new watcher begins with what is known by then.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.resource_update import ResourceUpdate
from trxds.resources.types import ResourceType

from .resource import Changes, Key


class WatchRegistry:
    """All watches of one client.

    `subscribe` is called for a resource's first watch and returns the changes for watchers, of that resource or of
    others; `unsubscribe` is called after its last. `published` is called with everything that is sent to watchers.
    """

    def __init__(
        self,
        subscribe: Callable[[ResourceType, str], Changes],
        unsubscribe: Callable[[ResourceType, str], None],
        published: Callable[[Changes], None],
    ) -> None:
        self._subscribe = subscribe
        self._unsubscribe = unsubscribe
        self._published = published
        self._watches: dict[Key, list[Watch]] = {}
        self._states: dict[Key, ResourceUpdate] = {}  # the last one of each watched resource
        self._slow: set[Watch] = set()

    @property
    def count(self) -> int:
        """Return how many resources are watched."""
        return len(self._watches)

    def add(self, key: Key, queue: ConflatingQueue[ResourceUpdate], sender: Hashable) -> Watch:
        if key not in self._watches:
            # Before `_subscribe`: a state that is known already is published like any other.
            self._watches[key] = []
            self.publish(self._subscribe(*key))
        watch = Watch(self, key, queue, sender)
        self._watches[key].append(watch)
        if (state := self._states.get(key)) is not None:
            watch.put(state)
        return watch

    def publish(self, changes: Changes) -> None:
        # A watcher that has caught up is waited for again: it may have been slow in a busy moment only.
        self._slow = {watch for watch in self._slow if not watch.has_seen}
        for key, state in changes.items():
            if key in self._watches:
                self._states[key] = state
                # No copy of the list: `put` runs no code of a watcher, which could leave.
                for watch in self._watches[key]:
                    watch.put(state)
        self._published(changes)

    async def wait_until_seen(self, keys: Iterable[Key]) -> None:
        """Wait until every watcher of these has read its message and asks for the next, is gone, or is slow."""
        for watch in self._watches_of(keys):
            if watch not in self._slow:
                await watch.wait_seen()

    def mark_slow(self, keys: Iterable[Key]) -> int:
        """Wait no more for watchers that have not read these, until they have; return how many there are."""
        slow = {watch for watch in self._watches_of(keys) if not watch.has_seen} - self._slow
        self._slow |= slow
        return len(slow)

    def _watches_of(self, keys: Iterable[Key]) -> list[Watch]:
        return [watch for key in keys for watch in self._watches.get(key, ())]

    def remove(self, watch: Watch) -> None:
        """Remove a watch, which calls this when it is cancelled."""
        watches = self._watches[watch.key]
        watches.remove(watch)
        if not watches:
            del self._watches[watch.key]
            self._states.pop(watch.key, None)
            self._unsubscribe(*watch.key)


class Watch:
    """One watcher's watch of one resource, until it is cancelled."""

    __slots__ = ("_batch", "_is_cancelled", "_queue", "_registry", "_sender", "key")

    def __init__(
        self, registry: WatchRegistry, key: Key, queue: ConflatingQueue[ResourceUpdate], sender: Hashable
    ) -> None:
        self._registry = registry
        self.key = key
        self._queue = queue
        self._sender = sender
        self._batch = 0  # of the last state in the queue
        self._is_cancelled = False

    def put(self, state: ResourceUpdate) -> None:
        self._batch = self._queue.put(self._sender, state)

    @property
    def has_seen(self) -> bool:
        """Return whether the watcher has handled the last state, or has left."""
        return self._is_cancelled or self._queue.has_seen(self._batch)

    async def wait_seen(self) -> None:
        """Wait until `has_seen`."""
        while not self.has_seen:
            await self._queue.wait_for_reader()

    def cancel(self) -> None:
        """End the watch, and take an unread message back. A second call changes nothing.

        The last watch of a resource unsubscribes it.
        """
        if self._is_cancelled:
            return
        self._is_cancelled = True
        self._queue.discard(self._sender)
        # Tasks in `wait_seen` must check again, because this watcher reads no further batch.
        self._queue.notify()
        self._registry.remove(self)

    def __repr__(self) -> str:
        type, name = self.key
        return f"<Watch {type.kind} {name}{' left' if self._is_cancelled else ''}>"
