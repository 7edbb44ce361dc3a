"""`SessionEvents` is the async iterator of `Session.events()`."""

from __future__ import annotations

from collections import deque

import trio

from trxds.session_affinity.session_events import SessionEvent, SessionEventsLost

MAX_UNREAD = 100  # events


class SessionEvents:
    """The events of one session from now on; iteration ends when the session does.

    At most `MAX_UNREAD` events wait for their reader. More are counted, and a `SessionEventsLost` stands in their
    place. Each step is always a checkpoint. It is no async generator, so an abandoned one needs no cleanup.
    """

    def __init__(self) -> None:
        self._unread: deque[SessionEvent] = deque()
        self._lost = 0
        self._is_over = False
        self._news = trio.lowlevel.ParkingLot()

    def put(self, event: SessionEvent) -> None:
        """Add an event, or count it if there is no room. Synchronous."""
        if len(self._unread) >= MAX_UNREAD:
            self._lost += 1
            return
        if self._lost:
            self._unread.append(SessionEventsLost(self._lost))
            self._lost = 0
        self._unread.append(event)
        self._news.unpark()

    def end(self) -> None:
        """End the iteration after the events that are unread. Synchronous."""
        self._is_over = True
        self._news.unpark_all()

    def __aiter__(self) -> SessionEvents:
        return self

    async def __anext__(self) -> SessionEvent:
        await trio.lowlevel.checkpoint()
        while not self._unread and not self._lost and not self._is_over:
            await self._news.park()
        if self._unread:
            return self._unread.popleft()
        if self._lost:
            lost, self._lost = self._lost, 0
            return SessionEventsLost(lost)
        raise StopAsyncIteration

    def __repr__(self) -> str:
        return f"<SessionEvents {'ended' if self._is_over else 'open'}, {len(self._unread)} unread>"
