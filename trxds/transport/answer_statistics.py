"""How fast the answers of one connection come, what a quick call takes, and how large an answer is.

Only reads that find several calls open are counted. Times are in seconds, on Trio's clock.
"""

from __future__ import annotations

from msgspec import Struct

# The counts of earlier reads decay by this factor with each read.
_DECAY = 7 / 8
# Seconds: a longer gap between reads says nothing about how fast answers come.
_MAX_GAP = 0.1


class AnswerStatistics(Struct, eq=False):
    """Statistics of the latest answers: the older they are, the less they count."""

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
