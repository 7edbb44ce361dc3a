"""The state stream of some channels. While it has viewers, it compares the channels' state ten times a second.

One task does this for all viewers, from when the first comes until the last has left. It puts the changes into their
queues by a synchronous function, so no viewer can hold up another, and an RPC waits for none.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection, Set
from contextlib import asynccontextmanager
from time import thread_time

import trio

from trxds.core.background_nursery import open_background_nursery
from trxds.core.observe import Observer
from trxds.core.observers import Observers

from ..channel_source import KeyedChannel, Source, channel_sources
from .changes import changes
from .config_applied import config_applied_events
from .events import AdsWatcher, CallWatcher, Events
from .messages import EVENTS, SECTIONS, State
from .state_snapshot import Sampler
from .subscription import Interest, Subscription

_log = logging.getLogger("trxds.admin")

PERIOD = 0.1  # seconds between two looks, at least
_REST_FACTOR = 20  # times as long as it has looked it does not look: a large mesh is seen less often, and costs no more
_MAX_REST = 2.0  # seconds
_SHOWN_EVENTS = frozenset(EVENTS) - {"config_applied"}  # by the channels; a mark shows in two snapshots


class StateStream:
    """The state stream that `open` makes. `metadata` lets viewers see the values of calls' metadata."""

    def __init__(self, channels: tuple[KeyedChannel, ...], nursery: trio.Nursery, metadata: bool) -> None:
        self._channels = channels
        self._sampler = Sampler(channels)
        self._nursery = nursery
        self._metadata = metadata
        self._subscriptions: set[Subscription] = set()
        self._state: State | None = None  # what the last message to everybody led to
        self._watching = trio.CancelScope()
        self._events = Events(lambda: self._sampler.epoch(trio.current_time()))
        self._watchers: list[tuple[Observers, Observer]] = []  # while anybody wants events

    def __repr__(self) -> str:
        keys = ", ".join(channel.key for channel in self._channels)
        return f"<StateStream of {keys}, {len(self._subscriptions)} subscribers>"

    @asynccontextmanager
    async def subscribe(
        self,
        *,
        sections: Collection[str] = SECTIONS,
        events: Collection[str] = EVENTS,
        metadata: bool = False,
    ) -> AsyncIterator[Subscription]:
        """Subscribe for as long as the block lasts: a snapshot of these sections, then changes, and these events.

        `metadata` asks for the values of calls' metadata; a stream that was opened without `metadata` hides them.
        """
        subscription = Subscription(self.interest(sections, events, metadata), lambda: self._state)
        self._subscriptions.add(subscription)
        if len(self._subscriptions) == 1:
            self._begin()
        self._hook()
        try:
            await trio.lowlevel.checkpoint()
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
            self._hook()
            if not self._subscriptions:
                self._end()

    async def snapshot(self, sections: Collection[str] = SECTIONS) -> State:
        """Return one snapshot, without a viewer."""
        return await self._sampler.sample(self.interest(sections, (), False).sections)

    def interest(self, sections: Collection[str], events: Collection[str], metadata: bool) -> Interest:
        """Return what a viewer wants. Raises `ValueError` for unknown sections and events."""
        return Interest(tuple(sections), tuple(events), metadata and self._metadata)

    @property
    def shows_metadata(self) -> bool:
        """Whether subscribers may see the values of calls' metadata."""
        return self._metadata

    # -- looking

    def _begin(self) -> None:
        self._events.take()  # of calls that were open when the last viewer left
        self._watching = trio.CancelScope()
        self._nursery.start_soon(self._watch, self._watching, name="admin/state")

    def _end(self) -> None:
        self._watching.cancel(reason="nobody watches any more")
        self._state = None

    async def _watch(self, scope: trio.CancelScope) -> None:
        with scope:
            try:
                while True:
                    started = thread_time()
                    self._tell(await self._sampler.sample(self._wanted(), self._state))
                    spent = thread_time() - started
                    await trio.sleep(max(PERIOD, min(_REST_FACTOR * spent, _MAX_REST)))
            except Exception:
                # A viewer must never end the channel that it watches.
                _log.exception("a bug in trxds ends the state stream for its viewers; the channels go on")
                self.close()

    def _wanted(self) -> frozenset[str]:
        wanted = frozenset(name for each in self._subscriptions for name in each.interest.sections)
        return wanted | {"resources"} if self._wants({"config_applied"}) else wanted

    def _wants(self, kinds: Set[str]) -> bool:
        return any(not kinds.isdisjoint(each.interest.events) for each in self._subscriptions)

    def _tell(self, state: State) -> None:
        before, self._state = self._state, state
        changed_rows = changes(before or {}, state)
        events = self._events.take()
        if before is not None and "resources" in before:
            events += config_applied_events(before, changed_rows, self._events.now())
        for each in self._subscriptions:
            each.tell(changed_rows, events)

    def _hook(self) -> None:
        """Add observers to the channels if a viewer wants events, or remove them. Synchronous."""
        wanted = self._wants(_SHOWN_EVENTS)
        self._events.counts_destinations = self._wants({"per_second_calls"})
        if wanted and not self._watchers:
            for channel in self._channels:
                self._watch_by(channel.view.observers, CallWatcher(channel.key, self._events))
                if channel.is_owner and channel.view.client is not None:
                    self._watch_by(channel.view.client.observers, AdsWatcher(channel.key, self._events))
        elif not wanted:
            for observers, watcher in self._watchers:
                observers.remove(watcher)
            self._watchers.clear()

    def _watch_by(self, observers: Observers, watcher: Observer) -> None:
        observers.add(watcher)
        self._watchers.append((observers, watcher))

    def close(self) -> None:
        """End all subscriptions. Synchronous."""
        for each in self._subscriptions:
            each.close()


@asynccontextmanager
async def open(*channels: Source, metadata: bool = False) -> AsyncIterator[StateStream]:
    """Open the state stream of these channels for as long as the block lasts. Without a viewer it runs no task.

    `metadata` lets viewers see the values of calls' metadata; without it they see the keys alone. An exception of the
    block is raised as it is, not in a group.
    """
    async with open_background_nursery("the state stream is closed") as nursery:
        stream = StateStream(channel_sources(channels), nursery, metadata)
        try:
            yield stream
        finally:
            stream.close()
