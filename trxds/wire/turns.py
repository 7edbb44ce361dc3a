"""Whose turn it is to read: the reader's, or in its place a lone caller's.

A call that is alone on its connection costs two steps of the scheduler: the reader's, which finds the answer, and
then its caller's. Where such calls follow each other closely the reader stands aside (`lent`), and a caller that
waits for its answer reads it by itself, as the `guest`; among threads that is known as Leader/Followers.

A guest reads for everybody. The lending ends when its call is over and others still wait, when one call takes long, or
when anything comes up that is not for guests (`call_reader`): then no guest begins any more, and the reader reads on
as soon as the present one has left.

Between two guests nobody reads. So a call first takes in what has come, unless somebody read a moment ago: the server
may take no more calls. Who calls within that moment takes the risk of every call that is under way when a server ends.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from .seat import Seat
from .transport import Transport

if TYPE_CHECKING:
    from .connection import Connection
    from .stream import ClientStream

MOMENT = 0.0002
"""Seconds: who has read so lately need not look again before a call."""

_IN_A_ROW = 8  # lone calls, before their callers read
_SOON = 0.01  # seconds from one's answer to the next one's, at most
_LOOK = 0.1  # seconds between the reader's looks for guests: a clock that is set more often costs each of them


class Turns:
    """The turns at one connection; `transport` is its."""

    __slots__ = (
        "_answered_at",
        "_connection",
        "_fault",
        "_guests",
        "_in_a_row",
        "_last_opened",
        "_seat",
        "_transport",
        "guest",
        "lent",
    )

    def __init__(self, connection: Connection, transport: Transport) -> None:
        self.lent = False
        """The reader stands aside, and a caller may read."""
        self.guest: ClientStream | None = None
        """Whose caller waits for something to read."""
        self._connection = connection
        self._transport = transport
        self._seat = Seat()  # the reader's, where it stands aside
        self._guests = 0  # all in all
        self._in_a_row = 0
        self._last_opened = 0
        self._answered_at = -math.inf
        self._fault: Exception | None = None

    # -- the reader

    def may_lend(self, last_opened: int, now: float) -> bool:
        """A read has left nobody waiting: whether the next callers do well to read for themselves."""
        alone = last_opened == self._last_opened + 2 and now - self._answered_at < _SOON
        self._in_a_row = self._in_a_row + 1 if alone else 0
        self._last_opened, self._answered_at = last_opened, now
        return self._in_a_row >= _IN_A_ROW and self._transport.at_once

    async def stand_aside(self) -> None:
        """Leave the reading to guests, until none has come between two looks, or somebody calls."""
        self._in_a_row = 0
        self.lent = True
        try:
            guests = -1
            while self.lent and self._guests != guests:
                guests = self._guests
                with trio.move_on_after(_LOOK):
                    await self._seat.wait(self._is_readers_turn)
        finally:
            self.lent = False
        if self.guest is not None:
            await self._seat.wait(self._is_readers_turn)
        if self._fault is not None:
            raise self._fault

    def _is_readers_turn(self) -> bool:
        return not self.lent and self.guest is None

    def call_reader(self) -> None:
        """Something has come up that is not for guests: the reader reads on, once the present one has left."""
        self.lent = False
        self._seat.look()

    # -- guests

    def catch_up(self) -> None:
        """Somebody is about to call: take in what has come while nobody read."""
        if self.guest is None:
            self._read()

    async def read_for(self, stream: ClientStream) -> bool:
        """Read until that stream is over; false if the reader has to. Only while `lent`, and one at a time."""
        self._guests += 1
        try:
            while stream.status is None and self.lent:
                self.guest = stream
                await self._transport.readable()
                self.guest = None
                if stream.status is None:  # otherwise the transport may be closed, too
                    self._read()
        except trio.ClosedResourceError:
            pass  # by `interrupt`
        finally:
            self.guest = None
            if self._connection.streams or not self.lent:
                self.call_reader()
        return stream.status is not None

    def interrupt(self) -> None:
        """Somebody else has ended the guest's stream."""
        self._transport.interrupt()

    def _read(self) -> None:
        """Take in what has come, if anything has, or as much of it as one step may take."""
        connection = self._connection
        try:
            data = self._transport.receive_nowait()
            if data is not None:
                connection.take(data)
        except trio.BrokenResourceError as error:
            connection.lost(error)
        except Exception as fault:  # ours: the reader raises it, and the channel ends as by any other
            self._fault = fault
            self.call_reader()
        if connection.engine.unread or connection.engine.outgoing.control_unsent > connection.options.control_bound:
            self.call_reader()  # which goes on with the rest, or stops reading until the server does its part
