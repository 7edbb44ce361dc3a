"""One viewer's messages: a bounded queue on which no sender waits. A viewer that is too slow gets a new snapshot."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import trio

from .messages import EVENTS, SECTIONS, Change, Message, State

MAX_UNREAD = 50  # messages: five seconds of them
# In the messages: a limit, because the garbage collector walks through all that a viewer leaves unread.
MAX_UNREAD_EVENTS = 10_000
_HIDDEN = "…"


@dataclass(frozen=True, slots=True)
class Interest:
    """The sections and events that a viewer wants. Raises `ValueError` for unknown ones. `metadata`: its values too."""

    sections: Collection[str] = SECTIONS
    events: Collection[str] = EVENTS
    metadata: bool = False

    def __post_init__(self) -> None:
        for what, wanted, known in (("section", self.sections, SECTIONS), ("event", self.events, EVENTS)):
            for name in wanted:
                if name not in known:
                    raise ValueError(f"there is no {what} {name!r}; there are {', '.join(known)}")

    def of(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """The event as this viewer may see it."""
        if self.metadata or not event.get("metadata"):
            return event
        return {**event, "metadata": dict.fromkeys(event["metadata"], _HIDDEN)}


class Subscription:
    """An async iterator of messages for one task, made by `StateStream.subscribe`. It ends with the stream."""

    def __init__(self, interest: Interest, now: Callable[[], State | None]) -> None:
        self.interest = interest
        self._now = now  # what the last message to everybody led to
        self._unread: deque[tuple[list[Change], list[Mapping[str, Any]]]] = deque()
        self._behind = True
        self._events = 0  # in what is unread
        self._missed = 0  # events
        self._number = 0
        self._over = False
        self._news = trio.lowlevel.ParkingLot()

    def __repr__(self) -> str:
        return f"<Subscription {'behind' if self._behind else f'{len(self._unread)} unread'}, {self._number} read>"

    # -- the stream's side: synchronous

    def tell(self, changes: Iterable[Change], events: Sequence[Mapping[str, Any]]) -> None:
        """Add a message. If the queue is full, it is dropped, and the viewer reads a snapshot instead."""
        mine = [self.interest.of(event) for event in events if event["kind"] in self.interest.events]
        if len(self._unread) >= MAX_UNREAD or self._events > MAX_UNREAD_EVENTS:
            self._missed += self._events
            self._events = 0
            self._unread.clear()
            self._behind = True
        # A viewer that has to read a snapshot first finds the changes there, and after it the events.
        wanted = [] if self._behind else [each for each in changes if each["section"] in self.interest.sections]
        if wanted or mine:
            self._unread.append((wanted, mine))
            self._events += len(mine)
        self._news.unpark_all()

    def close(self) -> None:
        """End the subscription: no more messages will come."""
        self._over = True
        self._news.unpark_all()

    # -- the viewer's side

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Message:
        await trio.lowlevel.checkpoint()
        while not self._over or self._unread:
            message = self._next()
            if message is not None:
                return message
            await self._news.park()
        raise StopAsyncIteration

    def _next(self) -> Message | None:
        state = self._now()
        # What nobody has wanted so far was not looked at: there will be a look that has it.
        if self._behind and state is not None and state.keys() >= set(self.interest.sections):
            self._behind = False
            self._number += 1
            return {"number": self._number, "snapshot": {name: state[name] for name in self.interest.sections}}
        if not self._unread:
            return None
        changes, events = self._unread.popleft()
        self._events -= len(events)
        if self._missed and "missed" in self.interest.events:
            events.insert(0, {"kind": "missed", "count": self._missed})
        self._missed = 0
        self._number += 1
        return {"number": self._number, "changes": changes, "events": events}
