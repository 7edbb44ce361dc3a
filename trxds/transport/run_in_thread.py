"""Reading files without holding up everyone else: a disk may be slow, and a network's share may hang."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import trio

T = TypeVar("T")


async def run_in_thread(read: Callable[[], T]) -> T:
    """Run it in a thread, which is left to itself if nobody waits any more: like a look-up, it may outlive the channel.

    On a clock that jumps when everyone waits (`trio.testing.MockClock`) it runs here: such a clock waits for no
    thread, and whoever has it wants each run to be like the last.
    """
    if getattr(trio.lowlevel.current_clock(), "autojump_threshold", math.inf) < math.inf:
        await trio.lowlevel.checkpoint()
        return read()
    return await trio.to_thread.run_sync(read, abandon_on_cancel=True)
