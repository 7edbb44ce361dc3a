"""This file runs functions in tasks that go on to the next function, which is cheaper than a new task for each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from typing import TypeAlias

import trio

Function: TypeAlias = Callable[[], Awaitable[None]]

MAX_IDLE = 100  # tasks; those beyond it, which a burst of calls needed, end


class WorkerTasks:
    """The `WorkerTasks` of a nursery run async functions, each with a context of its own."""

    def __init__(self, nursery: trio.Nursery, name: str) -> None:
        self._nursery = nursery
        self._name = name
        self._idle: list[tuple[trio.lowlevel.Task, list[Function]]] = []  # tasks, and where each finds its next

    def run_soon(self, function: Function) -> None:
        """Run the function, which raises nothing but `trio.Cancelled`, in a task with a copy of this context."""
        if not self._idle:
            self._nursery.start_soon(self._work, [function], name=self._name)
            return
        task, functions = self._idle.pop()
        functions.append(function)
        task.context = copy_context()  # from the task's next step on
        trio.lowlevel.reschedule(task)

    async def _work(self, functions: list[Function]) -> None:
        task = trio.lowlevel.current_task()
        worker = task, functions

        def leave(_: object) -> trio.lowlevel.Abort:
            # At once, or `run_soon` would give a function to a task that is about to end.
            self._idle.remove(worker)
            return trio.lowlevel.Abort.SUCCEEDED

        while True:
            await functions.pop()()
            if len(self._idle) == MAX_IDLE:
                return
            # No checkpoint between here and the wait: `run_soon` reschedules a task that it finds in the list.
            self._idle.append(worker)
            task.context = Context()  # the caller's may have a span, which an idle task should not keep
            await trio.lowlevel.wait_task_rescheduled(leave)
