"""When a reader does well to wait a moment before it reads on, as network cards do before they interrupt.

Where many calls are under way and their answers come one by one, each wakes the reader, and then its caller, for
itself: that is most of what such a call costs. A moment later several are there, and one waking is for them all.

Nobody should feel it. So a pause is a part of what calls take anyway, by the quick ones: one quick call among
a hundred slow ones is not kept waiting. And it is made only if enough answers are to be expected in it.
"""

from __future__ import annotations

_PART = 1 / 4  # of what a quick call takes; most calls wait for half of that
_WORTH = 4  # answers, in one pause
_TICK = 0.001  # in which Python's epoll counts; it rounds up
_ENOUGH = 1 / 2  # of all calls answered in one read: then it is us that the server waits for
_FADING = 7 / 8  # of what was counted, with each read
_SILENCE = 0.1  # longer ones say nothing of how fast answers come

MANY = 16
"""Fewer calls than `_WORTH / _PART` do not have so many answers in that part of their time (Little's law)."""


class ReadModeration:
    """`most` is the longest pause, in seconds; with 0 there is none."""

    __slots__ = ("_answers", "_last", "_new", "_quick", "_seconds", "most")

    def __init__(self, most: float) -> None:
        self.most = most
        self._quick = 0.0  # seconds that a quick call takes: falls at once, rises slowly
        self._new = 0  # answers in this read
        self._answers = 0.0  # in the last reads,
        self._seconds = 0.0  # which took so long
        self._last = 0.0

    def answered(self, took: float) -> None:
        """This read brought the end of a call that the server had for `took` seconds."""
        self._new += 1
        self._quick = min(took, self._quick + (took - self._quick) / 8)

    def pause(self, under_way: int, now: float) -> float:
        """How long to wait before the next read, in seconds; often 0. Asked once for each read of `MANY` calls."""
        new, self._new = self._new, 0
        self._answers = self._answers * _FADING + new
        self._seconds = self._seconds * _FADING + min(now - self._last, _SILENCE)
        self._last = now
        if new > (under_way + new) * _ENOUGH:
            return 0.0
        pause = min(self.most, self._quick * _PART) // _TICK * _TICK
        return pause if self._answers * pause >= _WORTH * self._seconds else 0.0
