"""The watches of all resources: an Observable for each resource, and a message in each watcher's queue (A74).

A watch costs a slot and no task. The states belong to `Authority`; an Observable only distributes them, so it goes
with its last watcher, and a new one begins with what is known by then.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from trxds.core.conflating_queue import ConflatingQueue, Observable, Subscription
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
        self._observables: dict[Key, Observable[ResourceUpdate]] = {}
        self._slow: set[Subscription[ResourceUpdate]] = set()

    @property
    def count(self) -> int:
        """Return how many resources are watched."""
        return len(self._observables)

    def add(self, key: Key, queue: ConflatingQueue[ResourceUpdate], sender: Hashable) -> Watch:
        observable = self._observables.get(key)
        if observable is None:
            # It has to exist before `_subscribe`: a state that is known already is published to it like any other.
            observable = self._observables[key] = Observable()
            self.publish(self._subscribe(*key))
        return Watch(self, key, observable.subscribe(queue, sender))

    def publish(self, changes: Changes) -> None:
        # A watcher that has caught up is waited for again: it may have been slow in a busy moment only.
        self._slow = {subscription for subscription in self._slow if not subscription.has_seen}
        for key, state in changes.items():
            if observable := self._observables.get(key):
                observable.set(state)
        self._published(changes)

    async def wait_until_seen(self, keys: Iterable[Key]) -> None:
        """Wait until every watcher of these has read its message and asks for the next, is gone, or is slow."""
        for subscription in self._subscriptions(keys):
            if subscription not in self._slow:
                await subscription.wait_seen()

    def mark_slow(self, keys: Iterable[Key]) -> int:
        """Wait no more for watchers that have not read these, until they have; return how many there are."""
        slow = {subscription for subscription in self._subscriptions(keys) if not subscription.has_seen} - self._slow
        self._slow |= slow
        return len(slow)

    def _subscriptions(self, keys: Iterable[Key]) -> list[Subscription[ResourceUpdate]]:
        observables = (self._observables.get(key) for key in keys)
        return [subscription for observable in observables if observable for subscription in observable.subscribers]

    def _on_cancelled(self, key: Key) -> None:
        observable = self._observables.get(key)
        if observable is not None and not observable.has_subscribers:
            del self._observables[key]
            self._unsubscribe(*key)


class Watch:
    """One watcher's watch of one resource, until it is cancelled."""

    __slots__ = ("_key", "_subscription", "_watches")

    def __init__(self, watches: WatchRegistry, key: Key, subscription: Subscription[ResourceUpdate]) -> None:
        self._watches = watches
        self._key = key
        self._subscription: Subscription[ResourceUpdate] | None = subscription

    def cancel(self) -> None:
        """End the watch, and take an unread message back. A second call changes nothing.

        The last watcher unsubscribes the resource, unless another one comes in the same step.
        """
        # Cleared first, so that a second call finds nothing to do.
        following, self._subscription = self._subscription, None
        if following is not None:
            following.unsubscribe()
            self._watches._on_cancelled(self._key)

    def __repr__(self) -> str:
        type, name = self._key
        return f"<Watch {type.kind} {name}{' left' if self._subscription is None else ''}>"
