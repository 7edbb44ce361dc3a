"""In a `ConflatingQueue` a newer value replaces an unread one of the same sender, so the queue has a bound.

A hundred changes between two steps of a reader cost it one step. That is right for states, configuration and pickers,
of which only the latest matters, and wrong for acknowledgements and stream data, of which each one does.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class ConflatingQueue(Generic[T]):
    """A queue with many senders, one reader, and at most one unread message per sender."""

    __slots__ = ("_closed", "_delivered", "_finished", "_messages", "_reader", "_waiting_for_reader")

    def __init__(self) -> None:
        self._messages: dict[Hashable, T] = {}
        self._reader: trio.lowlevel.Task | None = None  # parked until a message comes
        # Made for the first task that waits, which few queues ever have: a thousand clusters have six thousand queues.
        self._waiting_for_reader: trio.lowlevel.ParkingLot | None = None
        self._delivered = 0  # batches handed to the reader
        self._finished = 0  # batches after which the reader has called `next` again
        self._closed = False

    def put(self, sender: Hashable, value: T) -> int:
        """Put a message; it replaces an unread one of the same sender.

        Returns the number of the batch that will have it, for `has_seen`.
        """
        if not self._closed:
            # The reader is woken after the message is in the queue, or it would find nothing and park again.
            self._messages[sender] = value
            if self._reader is not None:
                reader, self._reader = self._reader, None
                trio.lowlevel.reschedule(reader)
        return self._delivered + 1

    def discard(self, sender: Hashable) -> None:
        """Remove an unread message, so that a sender that has ended does not speak for one of the same name."""
        self._messages.pop(sender, None)

    async def next(self, deadline: float = math.inf) -> dict[Hashable, T]:
        """Wait for messages; return those since the last call, by sender. Empty if `deadline` passed first.

        A checkpoint, after which the batch is taken, so it includes messages that arrive during it. Only the first call
        returns messages that are there already without a schedule point, unless the task is cancelled. Raises
        `trio.BusyResourceError` while another task waits.
        """
        # A reader that calls again has handled the last batch. Senders that wait for this are woken before it parks.
        self._finished = self._delivered
        if self._waiting_for_reader is not None:
            self.notify()
        if self._messages:
            if self._delivered:
                await trio.lowlevel.checkpoint()
            else:  # a task that has just begun has let the others run already, and a cluster begins six
                await trio.lowlevel.checkpoint_if_cancelled()
        if not self._messages and self._reader is not None:
            raise trio.BusyResourceError("another task reads this queue")
        if deadline == math.inf:  # a cancel scope is a large part of the cost of a node's step
            while not self._messages:  # a message may be discarded between the wake-up and this task's step
                self._reader = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._abort)
        else:
            with trio.CancelScope(deadline=deadline):
                while not self._messages:
                    self._reader = trio.lowlevel.current_task()
                    await trio.lowlevel.wait_task_rescheduled(self._abort)
        batch, self._messages = self._messages, {}
        self._delivered += 1
        return batch

    def _abort(self, _: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
        # Cancelled while parked: `put` must not reschedule this task, and the messages stay for the next call.
        self._reader = None
        return trio.lowlevel.Abort.SUCCEEDED

    @property
    def has_parked_reader(self) -> bool:
        """Return whether the reader waits for a message. Then none is unread."""
        return self._reader is not None

    @property
    def idle(self) -> bool:
        """Return whether nothing is unread, and the reader has handled its last batch."""
        return not self._messages and self._finished == self._delivered

    def has_seen(self, batch: int) -> bool:
        """Return whether the reader has handled that batch, or has left."""
        return self._finished >= batch or self._closed

    async def wait_for_reader(self) -> None:
        """Wait until the reader calls `next` again, or for `notify`."""
        if self._waiting_for_reader is None:
            self._waiting_for_reader = trio.lowlevel.ParkingLot()
        await self._waiting_for_reader.park()

    def notify(self) -> None:
        """Wake the tasks in `wait_for_reader`, because their condition may not matter any more."""
        if self._waiting_for_reader is not None:
            # All of them, because one that is being cancelled would take the wake-up of the others with it.
            self._waiting_for_reader.unpark_all()

    def close(self) -> None:
        """Drop the messages and wake waiting tasks, because the reader has left."""
        self._closed = True
        self._messages.clear()
        self.notify()
