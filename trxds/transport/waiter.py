"""One task waits here until a condition holds.

An RPC parks here instead of on one event for each step: the connection's reader changes the stream's fields, then wakes
the task. A woken task runs only when the reader has handled everything of its read, so an answer that came in one piece
wakes its caller once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio


class _Woken:
    """The value that wakes a task, which is nothing. It has the part of an `outcome.Outcome` that Trio uses.

    A real outcome can be used only once, and to make one for each call costs as much as finding the call's route.
    """

    def unwrap(self) -> None:
        pass


_WOKEN: Any = _Woken()


class Waiter:
    """A condition and the one task that waits for it."""

    __slots__ = ("_task", "until")

    def __init__(self) -> None:
        self._task: trio.lowlevel.Task | None = None
        self.until: Callable[[], bool] | None = None
        """The condition; None when no task waits."""

    async def wait(self, until: Callable[[], bool]) -> None:
        """Wait until `until()` is true; always a checkpoint. A second task gets a `trio.BusyResourceError`."""
        if self._task is not None:
            raise trio.BusyResourceError("another task is waiting for the same thing")
        if until():
            await trio.lowlevel.checkpoint()
            return
        self._task = trio.lowlevel.current_task()
        self.until = until
        await trio.lowlevel.wait_task_rescheduled(self._leave)

    def wake_if(self) -> None:
        """Wake the task if its condition holds now."""
        if self.until is not None and self.until():
            task, self._task, self.until = self._task, None, None
            assert task is not None
            trio.lowlevel.reschedule(task, _WOKEN)

    def _leave(self, _: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
        self._task = self.until = None
        return trio.lowlevel.Abort.SUCCEEDED
