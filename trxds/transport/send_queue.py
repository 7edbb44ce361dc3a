"""The send queue decides which stream sends next, where windows or buffer do not have room for all.

A stream whose message did not fit is queued, and the queue is served in turn, a little for each stream, whenever the
connection's window and buffer have room. A stream whose own window is closed is blocked, outside the queue, until its
window is opened, or the peer's SETTINGS may have opened all windows. A peer may send such SETTINGS in each frame,
however many streams are blocked. So they are only noted, and the streams are checked later, a few in each step.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from .engine import Http2Engine
from .writer import Writer

MAX_STREAMS_PER_STEP = 64
"""The streams that one step may serve or open."""

SEND_QUANTUM = 16 * 1024  # bytes that a queued stream may append in its turn


class Sender(Protocol):
    """A stream that has something to send."""

    id: int
    """The stream's identifier; 0 before its headers were sent."""

    @property
    def waits_for_room(self) -> bool:
        """Whether the stream has something to send for which there was no room."""

    def push(self, limit: int) -> None:
        """Append at most `limit` bytes to the connection's output."""


class SendQueue:
    """The streams that wait to send. The writer is asked to go on when a step left work for the next `drain`."""

    __slots__ = ("_engine", "_unchecked", "_unsent_bound", "_writer", "blocked", "queued")

    def __init__(self, engine: Http2Engine, unsent_bound: int, writer: Writer) -> None:
        self.queued: OrderedDict[Sender, None] = OrderedDict()  # an empty deque takes five times its memory
        self.blocked: OrderedDict[Sender, None] = OrderedDict()
        """Streams that have something to send and whose own window is closed."""
        self._unchecked = 0  # the number of blocked streams still to check, from the first one
        self._engine = engine
        self._unsent_bound = unsent_bound
        self._writer = writer

    def send(self, stream: Sender) -> None:
        """Let a stream send: at once, as far as there is room, if no other stream is queued."""
        # Behind the others, or a stream that sends often would take the turns of all.
        if self.queued:
            self.append(stream)
        else:
            self._serve_one(stream)

    def append(self, stream: Sender) -> None:
        """Put a stream at the end of the queue, if it has something to send."""
        if stream.waits_for_room:
            self.blocked.pop(stream, None)
            self.queued[stream] = None  # a stream that is queued already keeps its place

    def recheck_blocked(self) -> None:
        """Check all blocked streams again, because their windows may have opened."""
        if self.blocked:
            self._unchecked = len(self.blocked)
            self._writer.continue_later()

    def drain(self) -> None:
        """Let queued streams send in turn, as far as buffer and windows have room."""
        if self._unchecked:
            self._check_blocked()
        engine, turns = self._engine, MAX_STREAMS_PER_STEP
        while self.queued and engine.outgoing.unsent < self._unsent_bound and engine.connection_window > 0:
            if not turns:
                return self._writer.continue_later()
            turns -= 1
            self._serve_one(self.queued.popitem(last=False)[0])

    def _check_blocked(self) -> None:
        """Queue blocked streams whose windows have opened, and put the others back at the end."""
        looks = min(self._unchecked, MAX_STREAMS_PER_STEP)
        # In the order in which they were blocked, so each is looked at once for each SETTINGS.
        self._unchecked -= looks
        for _ in range(min(looks, len(self.blocked))):
            stream = self.blocked.popitem(last=False)[0]
            if self._engine.stream_window(stream.id) > 0:
                self.append(stream)
            else:
                self.blocked[stream] = None
        if self._unchecked:
            self._writer.continue_later()

    def _serve_one(self, stream: Sender) -> None:
        # A bounded part if others wait, so that a large message does not hold up the small ones behind it.
        room = self._unsent_bound - self._engine.outgoing.unsent
        stream.push(min(SEND_QUANTUM, room) if self.queued else room)
        if not stream.waits_for_room:
            if self.blocked:
                self.blocked.pop(stream, None)
        elif self._engine.stream_window(stream.id) > 0:
            self.append(stream)
        else:
            self.blocked[stream] = None  # until its window opens

    def forget(self, stream: Sender) -> None:
        """Remove a stream that has nothing to send any more."""
        self.queued.pop(stream, None)
        self.blocked.pop(stream, None)

    def clear(self) -> None:
        self.queued.clear()
        self.blocked.clear()
        self._unchecked = 0
