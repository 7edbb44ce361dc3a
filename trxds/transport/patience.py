"""The part of a call's time that a reader may wait for more answers, a small one or most of it.

Most of it is right where callers call again as soon as they are answered, and the server is busy with them all the
time: while some wait together, it works for the others, and then for all who waited at once. Anywhere else the wait
only delays them. Calls do not show which it is, so a trial does: the reader is impatient for some answers, and then
patient for as many, and stays patient if these have not taken longer.
"""

from __future__ import annotations

from msgspec import Struct

IMPATIENT = 1 / 4
PATIENT = 3 / 4

# Answers of either half of a trial. With fewer, chance would decide where calls take different times.
_ANSWERS_PER_WINDOW = 128
# The part of the impatient reader's answers a second that a patient one has to reach; what is left to it is chance.
_MIN_RATE = 0.98
# Windows from one trial to the next. As chance decides some, each that agrees with the last one doubles them. The most
# of them after a failure are many, because each trial of patience that does not help costs callers time.
_MIN_WINDOWS = 4
_MAX_WINDOWS_OF_PATIENCE = 16
_MAX_WINDOWS_OF_IMPATIENCE = 256
# The part of the latest reads in which all callers had called again.
_MIN_REPEATED = 3 / 4
_DECAY = 7 / 8


class Patience(Struct, eq=False):
    """Finds the part of a quick call's time for which the reader of one connection may wait: `fraction`."""

    fraction: float = IMPATIENT
    _repeated: float = 0.0
    _just_answered: int = 0  # by the read before; these callers may be about to call again
    _windows_left: int = 1  # until the next trial
    _windows_of_patience: int = _MIN_WINDOWS
    _windows_of_impatience: int = _MIN_WINDOWS
    _rate: float = 0.0  # answers a second in the impatient half of a trial; 0 outside of that
    _answers: int = 0  # in the present window,
    _began: float = 0.0  # ... the time when it began,
    _most_calls: int = 0  # ... and the most calls that were open in it

    def count_answers(self, answers: int, calls: int, now: float) -> None:
        """Count the answers of a read, before which so many calls were open."""
        self._most_calls = max(self._most_calls, calls)
        have_repeated = calls + self._just_answered >= self._most_calls
        self._repeated = self._repeated * _DECAY + have_repeated * (1 - _DECAY)
        self._just_answered = answers
        self._answers += answers
        if self._repeated < _MIN_REPEATED:
            # Callers that call whether they are answered or not would get as many answers in any case.
            self.fraction, self._rate = IMPATIENT, 0.0
            self._windows_left, self._windows_of_patience, self._windows_of_impatience = 1, _MIN_WINDOWS, _MIN_WINDOWS
            self._begin_window(calls, now)
        elif self._answers >= _ANSWERS_PER_WINDOW:
            if now > self._began:
                self._end_window(self._answers / (now - self._began))
            self._begin_window(calls, now)

    def _begin_window(self, calls: int, now: float) -> None:
        self._answers, self._began, self._most_calls = 0, now, calls

    def _end_window(self, rate: float) -> None:
        if self._windows_left:
            self._windows_left -= 1
            if not self._windows_left:
                self.fraction = IMPATIENT  # the next window is the first of a trial
        elif not self._rate:
            self._rate = rate
            self.fraction = PATIENT
        else:
            self._end_trial(succeeded=rate >= self._rate * _MIN_RATE)
            self._rate = 0.0

    def _end_trial(self, *, succeeded: bool) -> None:
        if succeeded:
            self._windows_left = self._windows_of_patience
            self._windows_of_patience = min(2 * self._windows_of_patience, _MAX_WINDOWS_OF_PATIENCE)
            self._windows_of_impatience = max(self._windows_of_impatience // 2, _MIN_WINDOWS)
        else:
            self.fraction = IMPATIENT
            self._windows_left = self._windows_of_impatience
            self._windows_of_impatience = min(2 * self._windows_of_impatience, _MAX_WINDOWS_OF_IMPATIENCE)
            self._windows_of_patience = _MIN_WINDOWS
