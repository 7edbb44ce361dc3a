"""The tasks in a node's nursery are its children and the tasks that its policy names."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeAlias

import trio

_log = logging.getLogger("trxds.lb")

Task: TypeAlias = Callable[[], Awaitable[None]]


class NodeTasks:
    """Tasks that a synchronous step of the node adds, and that the node starts in its nursery after the step."""

    __slots__ = ("_path", "begun", "named")

    def __init__(self, path: str) -> None:
        self._path = path
        self.begun: dict[str, Task] = {}  # by the name of the task that each is to be
        self.named: dict[str, tuple[Task, trio.CancelScope]] = {}  # by the policy

    def begin(self, name: str, task: Task) -> None:
        self.begun[f"lb/{self._path}{name}"] = task

    def start(self, nursery: trio.Nursery) -> None:
        begun, self.begun = self.begun, {}
        for name, task in begun.items():
            nursery.start_soon(task, name=name)

    def match(self, wanted: Mapping[str, Task]) -> None:
        """Run the tasks of the decision and cancel the others; another function under a name replaces its task."""
        for name in self.named.keys() - wanted.keys():
            self.named.pop(name)[1].cancel(reason="the policy does not want it any more")
        for name, task in wanted.items():
            if name in self.named and self.named[name][0] is task:
                continue
            if name in self.named:
                self.named[name][1].cancel(reason="replaced")
            scope = trio.CancelScope()
            self.named[name] = task, scope
            self.begin(f" {name}", partial(_run, task, scope, f"{self._path} {name}"))


async def _run(task: Task, scope: trio.CancelScope, name: str) -> None:
    with scope:
        try:
            await task()
        except Exception:
            _log.exception("task %s of a policy raised; it is over", name)
