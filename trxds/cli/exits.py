"""What a command's exit code says; scripts may rely on it (`docs/operating.md`)."""

from __future__ import annotations

GOOD = 0
BAD_NEWS = 1  # it was found out, and it is bad: a call would fail, a file is wrong, a channel cannot serve
USAGE = 2  # the command itself is not right; click's own
UNREACHED = 3  # nobody could be asked: no such program, or no configuration in time
