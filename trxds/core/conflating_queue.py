"""Conflating channels: a newer value replaces an unread one, so nothing queues up.

A hundred changes between two steps of a reader cost it one step. That is right for states,
configuration and pickers, of which only the latest matters, and wrong for acknowledgements
and stream data, of which each one does.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class ConflatingQueue(Generic[T]):
    """Many senders, one reader, one unread letter per sender."""

    __slots__ = ("_closed", "_delivered", "_finished", "_letters", "_reader", "_waiting_for_reader")

    def __init__(self) -> None:
        self._letters: dict[Hashable, T] = {}
        self._reader: trio.lowlevel.Task | None = None  # parked until a letter comes
        # Made for the first who waits: a thousand clusters have six thousand mailboxes.
        self._waiting_for_reader: trio.lowlevel.ParkingLot | None = None
        self._delivered = 0  # batches handed to the reader
        self._finished = 0  # batches it has come back from
        self._closed = False

    def put(self, sender: Hashable, value: T) -> int:
        """Leave a letter; it replaces an unread one of the same sender.

        Returns the number of the batch in which the reader will find it, for `has_seen`.
        """
        if not self._closed:
            # The letter first and then the waking, with no checkpoint between: the reader finds what it is woken for.
            self._letters[sender] = value
            if self._reader is not None:
                reader, self._reader = self._reader, None
                trio.lowlevel.reschedule(reader)
        return self._delivered + 1

    def discard(self, sender: Hashable) -> None:
        """Take back an unread letter, so that the dead do not speak for their namesakes."""
        self._letters.pop(sender, None)

    async def next(self, deadline: float = math.inf) -> dict[Hashable, T]:
        """What is new since the last call, by sender; empty when `deadline` passed first.

        Always a checkpoint, and taken after it: what arrives while others run is in the batch. A second
        task is a `trio.BusyResourceError`.
        """
        # To come back is to have dealt with the last batch. Writers that wait for this go on before we park.
        self._finished = self._delivered
        if self._waiting_for_reader is not None:
            self.notify()
        if self._letters:
            await trio.lowlevel.checkpoint()
        if not self._letters and self._reader is not None:
            raise trio.BusyResourceError("another task reads this mailbox")
        if deadline == math.inf:  # a scope is a good part of what a step of a node costs
            while not self._letters:  # what has been put in may be withdrawn by the time that we run
                self._reader = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._give_up)
        else:
            with trio.CancelScope(deadline=deadline):
                while not self._letters:
                    self._reader = trio.lowlevel.current_task()
                    await trio.lowlevel.wait_task_rescheduled(self._give_up)
        letters, self._letters = self._letters, {}
        self._delivered += 1
        return letters

    def _give_up(self, _: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
        # Cancelled while parked: nobody may be woken any more, and the letters stay for the next call.
        self._reader = None
        return trio.lowlevel.Abort.SUCCEEDED

    @property
    def idle(self) -> bool:
        """Nothing is unread, and the reader has come back from what it read."""
        return not self._letters and self._finished == self._delivered

    def has_seen(self, batch: int) -> bool:
        """The reader has read that batch and come back for the next, or left."""
        return self._finished >= batch or self._closed

    async def reader_back(self) -> None:
        """Wait until the reader comes back for a batch, or `nudge`."""
        if self._waiting_for_reader is None:
            self._waiting_for_reader = trio.lowlevel.ParkingLot()
        await self._waiting_for_reader.park()

    def notify(self) -> None:
        """Let those who wait for the reader look again: what they wait for may not matter any more."""
        if self._waiting_for_reader is not None:
            self._waiting_for_reader.unpark_all()

    def close(self) -> None:
        """The reader is gone: letters are dropped, and whoever waits for it goes on."""
        self._closed = True
        self._letters.clear()
        self.notify()


class Observable(Generic[T]):
    """One writer, many followers of the latest value. A late follower gets it at once."""

    __slots__ = ("_followers", "_value")

    def __init__(self) -> None:
        self._value: T | None = None
        self._followers: list[Subscription[T]] = []

    def set(self, value: T) -> None:
        self._value = value
        for follower in self._followers:
            follower.notify(value)

    def subscribe(self, mailbox: ConflatingQueue[T], sender: Hashable) -> Subscription[T]:
        """Put every value from now on, and the one there is, into `mailbox` as `sender`."""
        follower = Subscription(self, mailbox, sender)
        self._followers.append(follower)
        if self._value is not None:
            follower.notify(self._value)
        return follower

    def clear(self, follower: Subscription[T]) -> None:
        """Called by a follower that leaves."""
        self._followers.remove(follower)

    @property
    def has_subscribers(self) -> bool:
        return bool(self._followers)

    @property
    def subscribers(self) -> tuple[Subscription[T], ...]:
        return tuple(self._followers)


class Subscription(Generic[T]):
    """One follower's slot in its own mailbox; a watch is this and no task."""

    __slots__ = ("_batch", "_cell", "_left", "_mailbox", "_sender")

    def __init__(self, cell: Observable[T], mailbox: ConflatingQueue[T], sender: Hashable) -> None:
        self._cell = cell
        self._mailbox = mailbox
        self._sender = sender
        self._batch = 0
        self._left = False

    def notify(self, value: T) -> None:
        self._batch = self._mailbox.put(self._sender, value)

    @property
    def has_seen(self) -> bool:
        """It has read the last value and come back for the next, or left."""
        return self._left or self._mailbox.has_seen(self._batch)

    async def seen(self) -> None:
        """Wait for that."""
        while not self.has_seen:
            await self._mailbox.reader_back()

    def unsubscribe(self) -> None:
        """Follow no longer; an unread value is taken back. Idempotent."""
        if self._left:
            return
        self._left = True
        self._cell.clear(self)
        self._mailbox.discard(self._sender)
        # Who waits for this follower has to look again: it will never come back for another batch.
        self._mailbox.notify()
