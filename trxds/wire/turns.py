"""Whose turn it is to read: the reader's, or in its place a lone caller's.

A call that is alone on its connection costs two steps of the scheduler: the reader's, which finds the answer, and
then its caller's. Where such calls follow each other closely the reader stands aside, and each caller reads its own
answer; among threads that is known as Leader/Followers.

Between two such calls nobody reads. So the next one first takes in what has come, unless somebody read a moment ago:
the server may take no more calls. And the reader looks every 10 ms whether they still follow each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import trio

from .seat import Seat
from .transport import Transport

if TYPE_CHECKING:
    from .stream import ClientStream

MOMENT = 0.0002
"""Seconds: who has read so lately need not look again before a call."""

_IN_A_ROW = 8  # lone calls
_SOON = 0.01  # seconds from one's answer to the next one's, at most
_READS = 4  # by one caller: an answer of more pieces is the reader's


class Turns:
    """`streams` are those that wait for something; `take` is given what was read; `lost` is told why nothing can be."""

    __slots__ = (
        "_answered_at",
        "_fault",
        "_guests",
        "_in_a_row",
        "_last_opened",
        "_lost",
        "_reader",
        "_streams",
        "_take",
        "_transport",
        "guest",
        "lent",
    )

    def __init__(
        self,
        transport: Transport,
        streams: Mapping[int, ClientStream],
        take: Callable[[bytes], None],
        lost: Callable[[BaseException], None],
    ) -> None:
        self.lent = False
        """The reader stands aside, and a caller may read."""
        self.guest: ClientStream | None = None
        """Whose caller waits for something to read."""
        self._transport = transport
        self._streams = streams
        self._take = take
        self._lost = lost
        self._reader = Seat()
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
        """Leave the reading to callers, for as long as they follow each other closely and alone."""
        self._in_a_row = 0
        self.lent = True
        try:
            await self._while_lent()
        finally:
            self.lent = False
        if self.guest is not None:
            await self._reader.wait(self._called)
        if self._fault is not None:
            raise self._fault

    async def _while_lent(self) -> None:
        guests = -1
        while self.lent and self._guests != guests:
            guests = self._guests
            with trio.move_on_after(_SOON):
                await self._reader.wait(self._called)

    def _called(self) -> bool:
        return not self.lent and self.guest is None

    def call(self) -> None:
        """Somebody waits who does not read: as soon as nobody reads, the reader does."""
        if self.guest is None:
            self.lent = False
            self._reader.look()

    # -- callers

    def catch_up(self, *, alone: bool) -> None:
        """A call is about to begin, `alone` if its caller will read: take in what has come while nobody read."""
        if self.guest is None:
            self._read()
            if not alone:
                self.call()

    async def read_for(self, stream: ClientStream) -> bool:
        """Read until that stream is over; false if it is the reader's after all. Only `lent`, and without a `guest`."""
        self._guests += 1
        try:
            for _ in range(_READS):
                self.guest = stream
                await self._transport.readable()
                self.guest = None
                if stream.status is None:  # otherwise the transport may be closed, too
                    self._read()
                if stream.status is not None:
                    return True
                if self._fault is not None:
                    break
        except trio.ClosedResourceError:
            pass  # somebody else has ended the stream
        finally:
            self.guest = None
            if self._streams or not self.lent:
                self.call()
        return stream.status is not None

    def _read(self) -> None:
        """Take in what has come, if anything has."""
        try:
            data = self._transport.receive_nowait()
            if data is not None:
                self._take(data)
        except trio.BrokenResourceError as error:
            self._lost(error)
        except Exception as fault:  # ours: the reader raises it, and the channel ends as by any other
            self._fault = fault
            self.call()

    def ended(self) -> None:
        """Somebody else has ended the guest's stream: its caller need not read any longer."""
        self._transport.interrupt()
