"""The tasks that a policy names in its decisions run in the nursery of its node."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import trio

from trxds.core.failed_cleanup import log_errors

_log = logging.getLogger("trxds.lb")

Task: TypeAlias = Callable[[], Awaitable[None]]
Tasks: TypeAlias = Mapping[str, tuple[Task, trio.CancelScope]]
"""Running tasks, by the policy's names for them."""

NO_TASKS: Tasks = MappingProxyType({})


def reconcile_tasks(running: Tasks, wanted: Mapping[str, Task], nursery: trio.Nursery, path: str) -> Tasks:
    """Run the tasks of a decision and cancel the others; another function under a name replaces its task.

    Return the tasks that run from now on. `path` is that of the policy.
    """
    # Not by identity: `self.watch` is another object each time that a policy writes it.
    tasks = {name: each for name, each in running.items() if name in wanted and each[0] == wanted[name]}
    for name, (_, scope) in running.items():
        if name not in tasks:
            scope.cancel(reason="replaced" if name in wanted else "the policy does not want it any more")
    for name, task in wanted.items():
        if name not in tasks:
            tasks[name] = task, trio.CancelScope()
            nursery.start_soon(_run, *tasks[name], f"{path} {name}", name=f"lb/{path} {name}")
    return tasks


async def _run(task: Task, scope: trio.CancelScope, name: str) -> None:
    with scope:
        try:
            await task()
        # The policy may be the user's own: its task must not end the channel's nursery.
        except Exception:
            _log.exception("task %s of a policy raised and has ended", name)
        except BaseExceptionGroup as group:
            raise log_errors(group, _log, "task %s of a policy raised while it was cancelled", name) from None
