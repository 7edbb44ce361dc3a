"""Files are read in a thread, because a disk may be slow and a network's share may hang."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import trio

T = TypeVar("T")


async def run_in_thread(read: Callable[[], T]) -> T:
    """Return the result of `read`, run in a thread.

    If the caller is cancelled, the thread goes on and its result is dropped.

    On a clock that jumps when every task waits (`trio.testing.MockClock`) it runs in the caller's task: such a clock
    does not wait for threads, and each run of a test should be like the last.
    """
    if getattr(trio.lowlevel.current_clock(), "autojump_threshold", math.inf) < math.inf:
        await trio.lowlevel.checkpoint()
        return read()
    return await trio.to_thread.run_sync(read, abandon_on_cancel=True)
