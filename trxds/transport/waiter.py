"""One task waits here until another wakes it, or until a condition holds.

An RPC parks here instead of on one event for each step: the connection's reader changes the stream's fields, then wakes
the task. A woken task runs only when the reader has handled everything of its read, so an answer that came in one piece
wakes its caller once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio
from trio.lowlevel import Abort, RaiseCancelT, Task, current_task, reschedule, wait_task_rescheduled


class _Woken:
    """The value that wakes a task, which is nothing. It has the part of an `outcome.Outcome` that Trio uses.

    A real outcome can be used only once, and to make one for each call costs as much as finding the call's route.
    """

    def unwrap(self) -> None:
        pass


_WOKEN: Any = _Woken()


class Waiter:
    """The place of one waiting task: it parks until `wake`, or waits with a condition until `wake_if` finds it true."""

    __slots__ = ("_task", "until")

    def __init__(self) -> None:
        self._task: Task | None = None
        self.until: Callable[[], bool] | None = None
        """The condition of the task that waits with one; None when no task does."""

    @property
    def is_parked(self) -> bool:
        """Whether a task waits."""
        return self._task is not None

    def park(self) -> Awaitable[None]:
        """Return the wait until `wake`, to be awaited at once; always a checkpoint.

        A second task gets a `trio.BusyResourceError`.
        """
        if self._task is not None:
            raise trio.BusyResourceError(
                "another task is waiting here; a call has one receiver and one sender at a time"
            )
        self._task = current_task()
        # No coroutine of its own: each call waits here.
        return wait_task_rescheduled(self._leave)  # noqa: ASYNC105 - the caller awaits it

    def wake(self) -> None:
        """Wake the task, if one waits."""
        task = self._task
        if task is not None:
            self._task = self.until = None
            reschedule(task, _WOKEN)

    async def wait(self, until: Callable[[], bool]) -> None:
        """Wait until `until()` is true; always a checkpoint. A second task gets a `trio.BusyResourceError`."""
        if self._task is None:
            if until():
                await trio.lowlevel.checkpoint()
                return
            self.until = until
        await self.park()

    def wake_if(self) -> None:
        """Wake the task if its condition holds now."""
        if self.until is not None and self.until():
            self.wake()

    def _leave(self, _: RaiseCancelT) -> Abort:
        self._task = self.until = None
        return Abort.SUCCEEDED
