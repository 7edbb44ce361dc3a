"""A reader with many open calls pauses before it reads on, as network cards do before they interrupt.

Where many calls are open and their answers come one by one, each answer wakes the reader, and then its caller: that is
most of the cost of such a call. A moment later several answers are there, and one wake-up serves them all.

No call should be slower for it. So a pause is a small part of the time that calls take anyway, and is made only if
enough answers can be expected in it. There is none where a call on this connection would feel it: for the next answers
after a call that took much less time than the others, and for a second after data for a stream that goes on, or after a
window that opened.
"""

from __future__ import annotations

import math
from collections.abc import Collection

_PART = 1 / 4  # of what a quick call takes; most calls wait for half of that
_WORTH = 4  # answers, in one pause
_TICKS = 1000  # in a second: in these Python's epoll counts, and it rounds up
_ENOUGH = 1 / 2  # of all calls answered in one read: then it is us that the server waits for
_FADING = 7 / 8  # of what was counted, with each read
_SILENCE = 0.1  # longer ones say nothing of how fast answers come
_RESPITE = 1.0  # seconds without pauses, for streams that would feel them
_RARE = 128  # answers without pauses after a quick one: one call in a hundred is nobody's exception

MIN_STREAMS_TO_COALESCE = 16
"""Fewer calls than `_WORTH / _PART` do not have so many answers in that part of their time (Little's law)."""


class ReadCoalescing:
    """Decides on the pauses of one reader.

    `most` is the longest one in seconds, 0 for none; `now` is the time of the read.
    """

    def __init__(self, most: float) -> None:
        self.most = most
        self._quick = 0.0  # seconds that a quick call takes: falls at once, rises slowly
        self._read = 0.0  # when bytes were read,
        self._new = 0  # ... and the answers in them
        self._answers = 0.0  # in the last reads,
        self._seconds = 0.0  # which took so long
        self._last = 0.0
        self._resumes = 0.0  # no pause before,
        self._wary = 0  # ... nor before so many answers
        self._streaming: set[int] | None = None  # streams with data in one read,
        self._streaming_at = -math.inf  # ... which was then

    def answered(self, took: float, now: float) -> None:
        """Count a call that this read ended, after the server had it for `took` seconds."""
        if now != self._read:
            self._read, self._new = now, 0
        self._new += 1
        if took < self._quick * _PART:
            self._wary = _RARE
        elif self._wary:
            self._wary -= 1
        self._quick = min(took, self._quick + (took - self._quick) / 8)

    def stream_activity(self, now: float) -> None:
        """Make no pauses for a second, because this read brought something that a stream should not wait for."""
        self._resumes = now + _RESPITE

    def data(self, stream_id: int, now: float) -> None:
        """Note that this read brought data: a part of an answer, or a message of a stream that goes on."""
        if self._streaming_at != now:  # nobody asked after that read, for then they were fewer
            self._streaming, self._streaming_at = None, now
        self._streaming = self._streaming or set()
        self._streaming.add(stream_id)

    def settle(self, streams: Collection[int], now: float) -> None:
        """After a read, make no pauses if any of these open `streams` had data in it."""
        if self._streaming_at == now and self._streaming and not self._streaming.isdisjoint(streams):
            self.stream_activity(now)

    def pause(self, under_way: int, now: float) -> float:
        """Return the seconds to wait before the next read, often 0. Called once for each read with many open calls."""
        new = self._new if now == self._read else 0
        passed, self._last = now - self._last, now
        self._answers = self._answers * _FADING + new
        self._seconds = self._seconds * _FADING + min(passed, _SILENCE)
        if passed <= 0 or now < self._resumes or self._wary or new > (under_way + new) * _ENOUGH:
            return 0.0  # also where time stands still, as in a test, and a pause would last for ever
        pause = int(min(self.most, self._quick * _PART) * _TICKS + 1e-6) / _TICKS
        return pause if self._answers * pause >= _WORTH * self._seconds else 0.0
