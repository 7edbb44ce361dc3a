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

# The part of a quick call's time that a pause takes, before it is rounded; on average an answer waits for half of it.
_PAUSE_FRACTION = 1 / 4
# Answers that have to be expected in a pause, or it is not worth it.
_MIN_ANSWERS = 4
# A pause is in whole milliseconds: Python's epoll counts in those, and rounds up. It is rounded to the nearest, so one
# of 1 ms is made for calls of 2 ms or more, and takes no more than half of their time.
_TICKS_PER_SECOND = 1000
# If a read answers more than this part of all calls, the server waits for us, and a pause would be idle time.
_MAX_ANSWERED_FRACTION = 1 / 2
# The counts of earlier reads decay by this factor with each read.
_DECAY = 7 / 8
# Seconds: a longer gap between reads says nothing about how fast answers come.
_MAX_GAP = 0.1
# Seconds without pauses for streams that would feel them.
_QUIET_SECONDS = 1.0
# Answers without pauses after a quick one: if one call in a hundred is quick, there are hardly any pauses.
_QUIET_ANSWERS = 128

MIN_STREAMS_TO_COALESCE = 16
"""By Little's law, fewer open calls than `_MIN_ANSWERS / _PAUSE_FRACTION` do not have enough answers in a pause."""


class ReadCoalescing:
    """Decides on the pauses of one reader.

    `max_pause` is the longest one in seconds, 0 for none; `now` is the time of the read.
    """

    def __init__(self, max_pause: float) -> None:
        self.max_pause = max_pause
        self._quick_call = 0.0  # seconds that a quick call takes: it falls at once and rises slowly
        self._last_read = 0.0  # the time of the last read,
        self._new_answers = 0  # ... and the answers in it
        self._answers = 0.0  # the decayed number of answers,
        self._seconds = 0.0  # ... and the decayed seconds in which they came
        self._last_pause_check = 0.0
        self._quiet_until = 0.0  # no pause before this time,
        self._quiet_answers = 0  # ... nor before this many answers
        self._streaming: set[int] | None = None  # the streams with data in one read,
        self._streaming_at = -math.inf  # ... and the time of that read

    def count_answer(self, took: float, now: float) -> None:
        """Count a call that this read ended, after the server had it for `took` seconds."""
        if now != self._last_read:
            self._last_read, self._new_answers = now, 0
        self._new_answers += 1
        if took < self._quick_call * _PAUSE_FRACTION:
            self._quiet_answers = _QUIET_ANSWERS
        elif self._quiet_answers:
            self._quiet_answers -= 1
        self._quick_call = min(took, self._quick_call + (took - self._quick_call) / 8)

    def stream_activity(self, now: float) -> None:
        """Make no pauses for a second, because this read brought something that a stream should not wait for."""
        self._quiet_until = now + _QUIET_SECONDS

    def note_data(self, stream_id: int, now: float) -> None:
        """Note that this read brought data: a part of an answer, or a message of a stream that goes on."""
        if self._streaming_at != now:  # `check_streaming` was not called after that read, with fewer calls open
            self._streaming, self._streaming_at = None, now
        self._streaming = self._streaming or set()
        self._streaming.add(stream_id)

    def check_streaming(self, streams: Collection[int], now: float) -> None:
        """After a read, make no pauses if any of these open `streams` had data in it."""
        if self._streaming_at == now and self._streaming and not self._streaming.isdisjoint(streams):
            self.stream_activity(now)

    def pause(self, open_calls: int, now: float) -> float:
        """Return the seconds to wait before the next read, often 0. Called once for each read with many open calls."""
        new = self._new_answers if now == self._last_read else 0
        passed, self._last_pause_check = now - self._last_pause_check, now
        self._answers = self._answers * _DECAY + new
        self._seconds = self._seconds * _DECAY + min(passed, _MAX_GAP)
        if (
            passed <= 0
            or now < self._quiet_until
            or self._quiet_answers
            or new > (open_calls + new) * _MAX_ANSWERED_FRACTION
        ):
            return 0.0  # `passed` is 0 on a test's clock, where a pause would never end
        most = int(self.max_pause * _TICKS_PER_SECOND + 1e-6)
        pause = min(most, int(self._quick_call * _PAUSE_FRACTION * _TICKS_PER_SECOND + 0.5)) / _TICKS_PER_SECOND
        return pause if self._answers * pause >= _MIN_ANSWERS * self._seconds else 0.0
