"""A core for the clients and a core for all that serves them, so that neither takes the other's time.

Unpinned, a server with a thread pool in Python fights with itself for the interpreter's lock on whichever cores a cheap
client leaves free: it looks a third slower beside trxds than beside grpc.aio.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def _first_two() -> tuple[int | None, int | None]:
    if sys.platform != "linux":
        return None, None
    cores = sorted(os.sched_getaffinity(0))
    return (cores[0], cores[1]) if len(cores) > 1 else (None, None)


CLIENT, SERVER = _first_two()
PINNED = CLIENT is not None


def describe() -> str:
    if PINNED:
        return f"The client has core {CLIENT}; the server and the control plane have core {SERVER}."
    return "NOT PINNED, for here is no Linux with two cores: do not compare these figures with others."


@contextmanager
def children_on(core: int | None) -> Iterator[None]:
    """Processes that are started in this block run on that core alone.

    They inherit it before their first instruction, so the runtime of Go finds one core and sets GOMAXPROCS to 1.
    """
    if core is None or sys.platform != "linux":
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
