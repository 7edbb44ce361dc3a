"""Small messages of a lone stream that come one by one, but fast, are read several at a time.

Where a server sends a message each few dozen microseconds, each of them wakes the reader, and then its caller: that is
two thirds of what it costs. So the reader waits until those of half a millisecond are there.

If the server stops meanwhile, the last messages wait for a millisecond. Then none is waited for, for a hundredth of a
second at first, and for longer and longer, up to a second. So a stream that comes in bursts, or a server that waits for
us, feels it about once a second.
"""

from __future__ import annotations

from msgspec import Struct

# Seconds for the messages that are waited for, which take half of them by their latest rate.
_MAX_WAIT = 0.001
# Fewer messages than these are not worth a wait.
_MIN_MESSAGES = 4
# The most bytes to wait for, far below any window, and by far the most that small messages are in that time.
_MAX_SIZE = 8 * 1024
# One read in so many does not wait, to see whether messages still come one by one.
_READS_PER_LOOK = 16
# Seconds without waits after one that was in vain: each such doubles them, and each other one takes a tenth off.
_MIN_QUIET = 0.01
_MAX_QUIET = 1.0
# Earlier reads decay by this factor with each read. A longer gap between reads says nothing about the rate.
_DECAY = 7 / 8
_MAX_GAP = 0.01


class StreamGathering(Struct, eq=False):
    """Decides how many bytes the reader waits for while one stream is open, and nothing but its data comes."""

    _max_delay: float
    _asked: int = 0  # the bytes that were waited for before the last read
    _single: float = 0.0  # the size of a read without a wait: it falls at once and rises slowly
    _reads: int = 0  # since the last look
    _quiet_until: float = 0.0  # no wait before this time
    _quiet: float = _MIN_QUIET
    _read_at: float = 0.0
    _bytes: float = 0.0  # a decayed sum,
    _seconds: float = 0.0  # ... and the decayed time in which they came

    def forget_wait(self) -> None:
        """Do not judge the last wait, because the read after it had something else than the stream's data."""
        self._asked = 0

    def gather(self, size: int, now: float) -> tuple[int, float]:
        """Return the bytes to wait for after a read of `size` bytes, often none, and the seconds to wait at most."""
        asked, self._asked = self._asked, 0
        if size < asked:
            self._quiet_until = now + self._quiet
            self._quiet = min(2 * self._quiet, _MAX_QUIET)
        elif asked:
            self._quiet = max(0.9 * self._quiet, _MIN_QUIET)
        else:
            self._single = min(size, self._single + (size - self._single) / 8) if self._single else size
        passed, self._read_at = now - self._read_at, now
        self._bytes = self._bytes * _DECAY + size
        self._seconds = self._seconds * _DECAY + min(passed, _MAX_GAP)
        self._reads += 1
        if self._reads >= _READS_PER_LOOK:
            self._reads = 0
            return 0, 0.0
        if now < self._quiet_until or passed <= 0:
            return 0, 0.0
        seconds = min(_MAX_WAIT, self._max_delay)
        expected = self._bytes * (seconds / 2) / self._seconds
        if expected < _MIN_MESSAGES * self._single:
            return 0, 0.0
        self._asked = min(int(expected), _MAX_SIZE)
        return self._asked, seconds
