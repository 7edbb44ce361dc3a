"""Who watches which resource: a Cell for each, and a letter in each watcher's mailbox.

A watch costs a slot and no task. The states themselves belong to the conversation; a Cell only
spreads them, so it goes with its last watcher and a new one begins with what is known by then.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from trxds.core.conflating_queue import ConflatingQueue, Observable, Subscription
from trxds.resources.types import ResourceType

from .resource import Changes, Key
from .resource_update import ResourceUpdate


class WatchRegistry:
    """All watches of one client. `subscribe` is called for the first of a resource and returns what
    this tells watchers, of that resource or of others; `unsubscribe` after the last. `published` hears all
    that watchers are told."""

    def __init__(
        self,
        subscribe: Callable[[ResourceType, str], Changes],
        unsubscribe: Callable[[ResourceType, str], None],
        published: Callable[[Changes], None],
    ) -> None:
        self._subscribe = subscribe
        self._unsubscribe = unsubscribe
        self._published = published
        self._cells: dict[Key, Observable[ResourceUpdate]] = {}
        self._late: set[Subscription[ResourceUpdate]] = set()

    @property
    def count(self) -> int:
        """How many resources are watched."""
        return len(self._cells)

    def add(self, key: Key, mailbox: ConflatingQueue[ResourceUpdate], sender: Hashable) -> Watch:
        return Watch(self, key, self._cell(key).subscribe(mailbox, sender))

    def publish(self, changes: Changes) -> None:
        # Who has caught up is waited for again: it was slow once, which may have been a busy moment.
        self._late = {follower for follower in self._late if not follower.has_seen}
        for key, state in changes.items():
            if cell := self._cells.get(key):
                cell.set(state)
        self._published(changes)

    async def all_seen(self, keys: Iterable[Key]) -> None:
        """Every watcher of these has read its letter and come back for the next, or left, or was late before."""
        for follower in self._followers(keys):
            if follower not in self._late:
                await follower.wait_seen()

    def mark_slow(self, keys: Iterable[Key]) -> int:
        """Wait no more for the watchers of these that have not seen them, until they have; returns how many."""
        late = {follower for follower in self._followers(keys) if not follower.has_seen} - self._late
        self._late |= late
        return len(late)

    def _followers(self, keys: Iterable[Key]) -> list[Subscription[ResourceUpdate]]:
        cells = (self._cells.get(key) for key in keys)
        return [follower for cell in cells if cell for follower in cell.subscribers]

    def _cell(self, key: Key) -> Observable[ResourceUpdate]:
        cell = self._cells.get(key)
        if cell is None:
            # Before the subscription: if its state is known already, this watcher is to hear of it by the same way.
            cell = self._cells[key] = Observable()
            self.publish(self._subscribe(*key))
        return cell

    def _left(self, key: Key) -> None:
        cell = self._cells.get(key)
        if cell is not None and not cell.has_subscribers:
            del self._cells[key]
            self._unsubscribe(*key)


class Watch:
    """One watcher's interest in one resource, until it leaves."""

    __slots__ = ("_following", "_key", "_watches")

    def __init__(self, watches: WatchRegistry, key: Key, following: Subscription[ResourceUpdate]) -> None:
        self._watches = watches
        self._key = key
        self._following: Subscription[ResourceUpdate] | None = following

    def cancel(self) -> None:
        """Watch no longer; an unread letter is taken back. Plain and idempotent.

        The last watcher's leaving unsubscribes, unless another comes in the same step.
        """
        following, self._following = self._following, None
        if following is not None:
            following.unsubscribe()
            self._watches._left(self._key)

    def __repr__(self) -> str:
        type, name = self._key
        return f"<Watch {type.kind} {name}{' left' if self._following is None else ''}>"
