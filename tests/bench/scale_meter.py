"""What the clients of the scale runs share: the meter, and lines in, lines out.

A client is a process of its own. It answers each line on stdin by one line of JSON.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Mapping
from pathlib import Path

FIRST = "/near.Echo/Unary"  # goes to the one host that is real
PAYLOAD = b"x" * 100


def reading() -> dict[str, float]:
    """Seconds of CPU (user and system, all threads) and bytes of memory that this process has used."""
    return {"cpu": time.process_time(), "memory": _memory()}


def _memory() -> int:
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # the most it ever was: better than nothing


def answer(values: Mapping[str, object]) -> None:
    print(json.dumps(values), flush=True)


def allow_many_connections() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
