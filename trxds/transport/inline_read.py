"""Reading in the caller's task: the Leader/Followers pattern, for tasks instead of threads.

A call that is alone on its connection costs two steps of the scheduler: the reader's, which finds the answer, and then
its caller's. Where such calls follow each other closely the reader delegates the reading (`is_delegated`), and a caller
that waits for its answer becomes the leader and reads it in its own task.

A leader reads for every stream. The reader reclaims the reading when a leader's call has ended and others still wait,
when one call takes long, or when anything happens that is not for leaders: then no new leader begins, and the reader
goes on as soon as the present one has left.

Between two leaders no task reads. So a call first takes in the bytes that have come, unless a read was a moment ago:
they may say that the server takes no more calls. A call within that moment takes the risk that every open call takes
when a server ends.
"""

from __future__ import annotations

import math
from collections.abc import Sized
from typing import Protocol

import trio

from trxds.core.status import Status

from .flow_control import FlowControl
from .reader import Reader
from .waiter import Waiter

READ_FRESHNESS = 0.0002
"""Seconds after a read in which a new call need not read first."""

_MIN_LONE_CALLS = 8  # lone calls in a row, before their callers read
_LONE_CALL_GAP = 0.01  # seconds from one answer to the next, at most
# Seconds between the reader's checks for leaders. A timer that each leader sets back would cost each call more.
_LEADER_CHECK_INTERVAL = 0.1


class Leader(Protocol):
    """A stream whose caller reads from the connection."""

    @property
    def status(self) -> Status | None:
        """The status by which it ended; None while it has not."""


class InlineReads:
    """Decides which task reads at one connection; `streams` are the open ones."""

    def __init__(self, reader: Reader, flow: FlowControl, streams: Sized) -> None:
        self.is_delegated = False
        """Whether the reader has left the reading to callers."""
        self.leader: Leader | None = None
        """The stream whose caller reads; None if no caller does."""
        self._reader = reader
        self._flow = flow
        self._streams = streams
        self._waiter = Waiter()  # of the reader, while it has delegated the reading
        self._is_waiting = False  # whether the leader waits in `readable`
        self._leader_count = 0  # how many there have been
        self._lone_calls = 0
        self._last_opened = 0
        self._answered_at = -math.inf
        self._error: Exception | None = None

    # -- the reader

    def may_delegate(self, last_opened: int) -> bool:
        """Return whether the next callers should read for themselves, after a read that left no call waiting."""
        now = self._reader.last_read
        # A client's stream identifiers are odd, so the next one is 2 more (RFC 9113 §5.1.1).
        is_alone = last_opened == self._last_opened + 2 and now - self._answered_at < _LONE_CALL_GAP
        self._lone_calls = self._lone_calls + 1 if is_alone else 0
        self._last_opened, self._answered_at = last_opened, now
        return self._lone_calls >= _MIN_LONE_CALLS and self._reader.transport.at_once

    async def delegate(self) -> None:
        """Leave the reading to leaders until none has come between two checks, or the reading is reclaimed."""
        self._lone_calls = 0
        self.is_delegated = self._reader.transport.enable_interrupt()  # False without a free descriptor
        try:
            leaders = -1
            while self.is_delegated and self._leader_count != leaders:
                leaders = self._leader_count
                # If no leader has come since the last check, the reader reads again. So a GOAWAY between calls is
                # noticed within two checks.
                with trio.move_on_after(_LEADER_CHECK_INTERVAL):
                    await self._waiter.wait(self._is_readers_turn)
        finally:
            self.is_delegated = False
        if self.leader is not None:
            await self._waiter.wait(self._is_readers_turn)
        if self._error is not None:
            raise self._error

    def _is_readers_turn(self) -> bool:
        return not self.is_delegated and self.leader is None

    def reclaim(self) -> None:
        """Let the reader go on, once the present leader has left."""
        self.is_delegated = False
        self._waiter.wake_if()

    # -- leaders

    def catch_up(self) -> None:
        """Before a new call, take in the bytes that have come while no task read."""
        if self.leader is None:
            self._read()

    async def read_as_leader(self, stream: Leader) -> bool:
        """Read until that stream has ended; False if the reader has to.

        One at a time, and only while `is_delegated`.
        """
        self._leader_count += 1
        self.leader = stream
        try:
            while stream.status is None and self.is_delegated:
                self._is_waiting = True
                await self._reader.transport.readable()
                self._is_waiting = False
                if stream.status is None:  # the call's end may have closed the transport
                    self._read()
        except trio.ClosedResourceError:
            pass  # `interrupt` woke this task
        finally:
            self.leader = None
            self._is_waiting = False
            # Other calls still wait, and their callers parked in the belief that this one reads.
            if self._streams or not self.is_delegated:
                self.reclaim()
        return stream.status is not None

    def interrupt(self) -> None:
        """Wake the leader, because its stream was ended by another task."""
        if self._is_waiting:
            self._reader.transport.interrupt()

    def _read(self) -> None:
        """Take in the bytes that have come, as many as one step may take."""
        try:
            self._reader.take_now()
        except Exception as fault:  # a bug: the reader's task raises it, not this caller
            self._error = fault
            self.reclaim()
        # The reader has to go on with unread bytes, and with a long answer, by which the round trip is measured.
        if self._reader.is_behind() or self._flow.is_measuring():
            self.reclaim()
