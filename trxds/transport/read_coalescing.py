"""A reader with several open calls waits before it reads on, as network cards do before they interrupt.

Where answers come one by one, each wakes the reader, and then its caller: that is most of the cost of such a call. A
moment later several answers are there, and one wake-up serves them all. Over a socket the reader waits until they are
there, and no longer (`Transport.gather`); over TLS, say, it can only pause and then look.

No call should be slower for it. So a wait is a small part of the time that calls take anyway, unless callers gain by a
longer one (`patience.py`), and is made only if enough answers can be expected in it. There is none where a call on this
connection would feel it: for the next answers after a call that took much less time than the others, and for a second
after data for a stream that goes on, or after a window that opened.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from msgspec import Struct

from .patience import IMPATIENT, PATIENT, Patience
from .transport import READ_SIZE

# Answers that have to be expected, or the wait is not worth it; fewer for a patient reader, whose callers gain.
_MIN_ANSWERS = 4
_MIN_PATIENT_ANSWERS = 2
# Python's epoll counts in whole milliseconds, and rounds up. A pause is rounded to the nearest, so one of 1 ms is made
# for calls of 2 ms or more, and takes no more than half of their time.
_TICKS_PER_SECOND = 1000
# Seconds of a quick call: a wait for answers that do not come, which takes a millisecond, would be too long for less.
_MIN_CALL = 0.000_4
# If reads have as great a part of these answers without a wait, it is not worth it either.
_MAX_TOGETHER = 3 / 4
# One read in so many does not wait, to see how many answers come together by themselves.
_READS_PER_LOOK = 16
# Seconds without waits for streams that would feel them.
_QUIET_SECONDS = 1.0
# Answers without waits after a quick one: if one call in a hundred is quick, there are hardly any waits.
_QUIET_ANSWERS = 128

# The counts of earlier reads decay by this factor with each read.
_DECAY = 7 / 8
# Seconds: a longer gap between reads says nothing about how fast answers come.
_MAX_GAP = 0.1

MIN_CALLS_TO_COALESCE = 4
"""With fewer open calls the reader waits for nothing."""

MIN_CALLS_TO_PAUSE = 16
"""By Little's law, fewer open calls than `_MIN_ANSWERS / IMPATIENT` do not have enough answers in a pause."""


class ReadCoalescing:
    """Decides on the waits of one reader.

    `max_delay` is the longest one in seconds, 0 for none; `now` is the time of the read.
    """

    def __init__(self, max_delay: float) -> None:
        self.max_delay = max_delay
        self._answers = AnswerStatistics()
        self._patience = Patience()
        self._has_waited = False  # whether the last read came after a wait for answers
        self._together = 0.0  # the decayed number of answers in reads that did not
        self._reads = 0  # since the last look
        self._quiet_until = 0.0  # no wait before this time,
        self._quiet_answers = 0  # ... nor before this many answers
        self._streaming: set[int] | None = None  # the streams with data in one read,
        self._streaming_at = -math.inf  # ... and the time of that read

    def count_answers(self, answers: int, calls: int, took: float, size: int, now: float) -> None:
        """Count the answers of a read of `size` bytes, which found so many `calls` open.

        The quickest of those that it answers took `took` seconds.
        """
        if took < _MIN_CALL and self._answers.quick_call < _MIN_CALL:
            return  # there is no wait, and these calls are the ones that counting would cost most
        if took < self._answers.quick_call * IMPATIENT:
            self._quiet_answers = _QUIET_ANSWERS
        elif self._quiet_answers:
            self._quiet_answers = max(self._quiet_answers - answers, 0)
        self._answers.count(answers, calls, took, size, now)

    def stream_activity(self, now: float) -> None:
        """Make no waits for a second, because this read brought something that a stream should not wait for."""
        self._quiet_until = now + _QUIET_SECONDS

    def note_data(self, stream_id: int, now: float) -> None:
        """Note that this read brought data: a part of an answer, or a message of a stream that goes on."""
        if self._streaming_at != now:  # a wait was not asked for after that read
            self._streaming, self._streaming_at = None, now
        self._streaming = self._streaming or set()
        self._streaming.add(stream_id)

    def gather(self, streams: Collection[int], now: float) -> tuple[int, float]:
        """Return the bytes to wait for before the next read, often none, and the seconds to wait for them at most.

        Called once for each read that leaves several `streams` open.
        """
        if self._answers.quick_call < _MIN_CALL:
            return 0, 0.0
        open_calls = len(streams)
        answered = self._answers.check(now)
        # Open and answered calls together may be too many: streams of the queue take the places of those answered.
        calls = self._answers.calls if answered else open_calls
        self._patience.count_answers(answered, calls, now)
        if not self._has_waited:
            self._together += (answered - self._together) / 8
        self._has_waited = False
        self._reads += 1
        if self._reads >= _READS_PER_LOOK:
            self._reads = 0
            return 0, 0.0
        if self._must_not_wait(streams, now):
            return 0, 0.0
        if calls < MIN_CALLS_TO_COALESCE:
            return 0, 0.0  # streams, perhaps, whose data is not noted with so few
        is_patient = self._patience.fraction == PATIENT
        seconds = min(self.max_delay, self._answers.quick_call * self._patience.fraction)
        # Half of all calls, because the server then works on the other half. Those that are open suffice for it: calls
        # that are still to be made are not waited for.
        half = min(open_calls, (calls + 1) // 2)
        answers = min(half, int(self._answers.expected(seconds) + (0.5 if is_patient else 0.0)))
        least = _MIN_PATIENT_ANSWERS if is_patient else _MIN_ANSWERS
        if answers < least or self._together >= min(answers, _MIN_ANSWERS) * _MAX_TOGETHER:
            return 0, 0.0
        self._has_waited = True
        # The last answer may be a little smaller. More than one read takes is not waited for.
        return min(int((answers - 0.5) * self._answers.size), READ_SIZE), seconds

    def pause(self, streams: Collection[int], now: float) -> float:
        """Return the seconds to wait before the next read, often 0.

        Called once for each read that leaves many `streams` open.
        """
        answered = self._answers.check(now)
        # If a read answers more than half of all calls, the server waits for us, and a pause would be idle time.
        if 2 * answered > self._answers.calls or self._must_not_wait(streams, now):
            return 0.0
        most = int(self.max_delay * _TICKS_PER_SECOND + 1e-6)
        pause = min(most, int(self._answers.quick_call * IMPATIENT * _TICKS_PER_SECOND + 0.5)) / _TICKS_PER_SECOND
        return pause if self._answers.expected(pause) >= _MIN_ANSWERS else 0.0

    def _must_not_wait(self, streams: Collection[int], now: float) -> bool:
        if self._streaming_at == now and self._streaming and not self._streaming.isdisjoint(streams):
            self.stream_activity(now)  # one of them goes on
        # On a test's clock no time passes between reads, and a wait would never end.
        return self._answers.passed <= 0 or now < self._quiet_until or self._quiet_answers > 0


class AnswerStatistics(Struct, eq=False):
    """Statistics of the latest answers: how fast they come, what a quick call takes, and how large an answer is.

    The older an answer is, the less it counts, and only reads that find several calls open are counted. Times are in
    seconds, on Trio's clock.
    """

    quick_call: float = 0.0
    """The time that a quick call takes: it falls at once and rises slowly."""

    size: float = 0.0
    """The bytes of a small answer, in the same way."""

    calls: int = 0
    """The calls that were open before the last read that had answers."""

    passed: float = 0.0
    """The time between the latest two `check`s."""

    _latest: int = 0  # the answers of the last read that had any,
    _read_at: float = 0.0  # ... and its time
    _checked_at: float = 0.0
    _answers: float = 0.0  # a decayed count,
    _seconds: float = 0.0  # ... and the decayed time in which they came

    def count(self, answers: int, calls: int, took: float, size: int, now: float) -> None:
        """Count answers of a read of `size` bytes; the server had the quickest call for `took` seconds.

        Called for each step of a read, with the `calls` that were open before that step.
        """
        if now == self._read_at:
            self._latest += answers
        else:
            self._latest, self.calls, self._read_at = answers, calls, now
        self.quick_call = _fall_or_rise_slowly(self.quick_call, took)
        self.size = _fall_or_rise_slowly(self.size or size, size / self._latest)

    def check(self, now: float) -> int:
        """Return the number of answers in the read at `now`. Called once for each read."""
        latest = self._latest if now == self._read_at else 0
        self.passed, self._checked_at = now - self._checked_at, now
        self._answers = self._answers * _DECAY + latest
        self._seconds = self._seconds * _DECAY + min(self.passed, _MAX_GAP)
        return latest

    def expected(self, seconds: float) -> float:
        """Return the number of answers that come in so many seconds."""
        return self._answers * seconds / self._seconds if self._seconds > 0 else 0.0


def _fall_or_rise_slowly(value: float, latest: float) -> float:
    return latest if latest < value else value + (latest - value) / 8
