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

# The part of a quick call's time that a pause may take; on average an answer waits for half of it.
_PART = 1 / 4
# Answers that have to be expected in a pause, or it is not worth it.
_WORTH = 4
# A pause is in whole milliseconds: Python's epoll counts in those, and rounds up.
_TICKS = 1000
# If a read answers more than this part of all calls, the server waits for us, and a pause would be idle time.
_ENOUGH = 1 / 2
# The counts of earlier reads decay by this factor with each read.
_FADING = 7 / 8
# Seconds: a longer gap between reads says nothing about how fast answers come.
_SILENCE = 0.1
# Seconds without pauses for streams that would feel them.
_RESPITE = 1.0
# Answers without pauses after a quick one: if one call in a hundred is quick, there are hardly any pauses.
_RARE = 128

MIN_STREAMS_TO_COALESCE = 16
"""By Little's law, fewer open calls than `_WORTH / _PART` do not have enough answers in a pause."""


class ReadCoalescing:
    """Decides on the pauses of one reader.

    `most` is the longest one in seconds, 0 for none; `now` is the time of the read.
    """

    def __init__(self, most: float) -> None:
        self.most = most
        self._quick = 0.0  # seconds that a quick call takes: it falls at once and rises slowly
        self._read = 0.0  # the time of the last read,
        self._new = 0  # ... and the answers in it
        self._answers = 0.0  # the decayed number of answers,
        self._seconds = 0.0  # ... and the decayed seconds in which they came
        self._last = 0.0
        self._resumes = 0.0  # no pause before this time,
        self._wary = 0  # ... nor before this many answers
        self._streaming: set[int] | None = None  # the streams with data in one read,
        self._streaming_at = -math.inf  # ... and the time of that read

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
        if self._streaming_at != now:  # `settle` was not called after that read, with fewer calls open
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
            return 0.0  # `passed` is 0 on a test's clock, where a pause would never end
        pause = int(min(self.most, self._quick * _PART) * _TICKS + 1e-6) / _TICKS
        return pause if self._answers * pause >= _WORTH * self._seconds else 0.0
