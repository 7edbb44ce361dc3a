"""A `LimitedLog` writes at most so many lines a second, so that ten thousand sessions that move do not fill a log."""

from __future__ import annotations

import logging

LINES_PER_SECOND = 10


class LimitedLog:
    """Lines at INFO, at most `LINES_PER_SECOND` in each second; the next line says how many were left out."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._second = -1
        self._lines = 0  # in that second
        self._left_out = 0

    def info(self, now: float, text: str, *args: object) -> None:
        """Log a line, unless there were too many in this second; `now` is in seconds on any one clock."""
        # A line that nobody sees is not left out by the limit.
        if not self._log.isEnabledFor(logging.INFO):
            return
        if int(now) != self._second:
            self._second, self._lines = int(now), 0
        if self._lines >= LINES_PER_SECOND:
            self._left_out += 1
            return
        self._lines += 1
        if self._left_out:
            text = f"{text} (%d such lines before it were left out)"
            args = (*args, self._left_out)
            self._left_out = 0
        if self._lines == LINES_PER_SECOND:
            # The next line, which has their number, may come much later.
            text = f"{text} (more such lines within a second are left out)"
        self._log.info(text, *args)
