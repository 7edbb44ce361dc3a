"""A place where one task waits until something is true.

An RPC parks here instead of on an event of its own per step: the connection's reader changes
the stream's fields, then wakes the task. A task that is woken runs only when the reader has handled
everything of its read, so an answer that came in one piece wakes its caller once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio


class _Woken:
    """What a task is woken with: nothing. It is the part of an `outcome.Outcome` that Trio asks for.

    An outcome of that library can be used once, and to make and mark one for each call costs as much as its route.
    """

    def unwrap(self) -> None:
        pass


_WOKEN: Any = _Woken()


class Waiter:
    __slots__ = ("_task", "until")

    def __init__(self) -> None:
        self._task: trio.lowlevel.Task | None = None
        self.until: Callable[[], bool] | None = None
        """What the task waits for; None when nobody waits."""

    async def wait(self, until: Callable[[], bool]) -> None:
        """Wait until `until()`; always a checkpoint. A second task is a `trio.BusyResourceError`."""
        if self._task is not None:
            raise trio.BusyResourceError("another task is waiting for the same thing")
        if until():
            await trio.lowlevel.checkpoint()
            return
        self._task = trio.lowlevel.current_task()
        self.until = until
        await trio.lowlevel.wait_task_rescheduled(self._leave)

    def wake_if(self) -> None:
        """Something changed: wake the task if it is what it waits for."""
        if self.until is not None and self.until():
            task, self._task, self.until = self._task, None, None
            assert task is not None
            trio.lowlevel.reschedule(task, _WOKEN)

    def _leave(self, _: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
        self._task = self.until = None
        return trio.lowlevel.Abort.SUCCEEDED
