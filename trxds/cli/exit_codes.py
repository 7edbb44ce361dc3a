"""The exit codes of all commands. Scripts may rely on them (`docs/operating.md`)."""

from __future__ import annotations

SUCCESS = 0
FAILURE = 1  # it was found out, and it is bad: a call would fail, a file is wrong, a channel cannot serve
USAGE = 2  # the command itself is not right; click's own
UNREACHABLE = 3
"""There is no answer: no such program, no configuration in time, Ctrl-C, or an output that cannot be written."""
