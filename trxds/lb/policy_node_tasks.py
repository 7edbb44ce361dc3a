"""The tasks in a node's nursery are its children and the tasks that its policy names."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeAlias

import trio

from trxds.core.failed_cleanup import log_errors

_log = logging.getLogger("trxds.lb")

Task: TypeAlias = Callable[[], Awaitable[None]]


class NodeTasks:
    """Tasks that a synchronous step of the node adds, and that the node starts in its nursery after the step."""

    __slots__ = ("_path", "pending", "running")

    def __init__(self, path: str) -> None:
        self._path = path
        self.pending: dict[str, Task] = {}  # by the task's name in the nursery
        self.running: dict[str, tuple[Task, trio.CancelScope]] = {}  # by the policy's name for it

    def add(self, name: str, task: Task) -> None:
        self.pending[f"lb/{self._path}{name}"] = task

    def start(self, nursery: trio.Nursery) -> None:
        begun, self.pending = self.pending, {}
        for name, task in begun.items():
            nursery.start_soon(task, name=name)

    def reconcile(self, wanted: Mapping[str, Task]) -> None:
        """Run the tasks of the decision and cancel the others; another function under a name replaces its task."""
        for name in [name for name in self.running if name not in wanted]:
            self.running.pop(name)[1].cancel(reason="the policy does not want it any more")
        for name, task in wanted.items():
            # Not by identity: `self.watch` is another object each time that a policy writes it.
            if name in self.running and self.running[name][0] == task:
                continue
            if name in self.running:
                self.running[name][1].cancel(reason="replaced")
            scope = trio.CancelScope()
            self.running[name] = task, scope
            self.add(f" {name}", partial(_run, task, scope, f"{self._path} {name}"))


async def _run(task: Task, scope: trio.CancelScope, name: str) -> None:
    with scope:
        try:
            await task()
        # The policy may be the user's own: its task must not end the channel's nursery.
        except Exception:
            _log.exception("task %s of a policy raised and has ended", name)
        except BaseExceptionGroup as group:
            raise log_errors(group, _log, "task %s of a policy raised while it was cancelled", name) from None
