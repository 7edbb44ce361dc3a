"""A connection is one task, its reader; the other tasks of the connection start when they are needed."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import trio
from msgspec import Struct

S = TypeVar("S")

MAX_ENDS_PER_STEP = 32
"""The streams that one step may end for a common reason."""


class ConnectionTasks(Struct, eq=False):
    """The tasks of one connection. They start between `open` and `close`; `cancel` ends them all."""

    _peer: str
    _nursery: trio.Nursery | None = None
    _scope: trio.CancelScope | None = None  # the nursery's; its tasks may run on after `close`
    _cancel_at: float = math.inf

    @property
    def may_start(self) -> bool:
        """Whether a task can start: not before the connection runs, and not while it ends."""
        return self._nursery is not None

    def open(self, nursery: trio.Nursery) -> None:
        """Let tasks start from now on."""
        self._nursery, self._scope = nursery, nursery.cancel_scope
        if self._cancel_at < math.inf:
            self.cancel(self._cancel_at)

    def close(self) -> None:
        """Let no more tasks start."""
        self._nursery = None

    def cancel(self, at: float = -math.inf) -> None:
        """Cancel all tasks, now or at that time on Trio's clock, or as soon as the nursery is open."""
        self._cancel_at = at
        if self._scope is None:
            return
        if at == -math.inf:
            self._scope.cancel()
        else:
            self._scope.deadline = at

    def start(self, task: Callable[..., Awaitable[None]], *args: Any, name: str) -> None:
        """Start a task outside the context of the RPC that needed it, which may have a tracing span.

        While the connection ends, no more tasks start.
        """
        if self._nursery is None:
            return
        # A copy, because the task that runs the connection may be the one that calls this.
        context = self._nursery.parent_task.context.copy()
        context.run(partial(self._nursery.start_soon, task, *args, name=f"transport/{name}/{self._peer}"))

    def end_each(self, streams: Sequence[S], end: Callable[[S], None], at_once: int = MAX_ENDS_PER_STEP) -> None:
        """End streams in order, a few now and the others in later passes of the scheduler.

        Each end wakes a task that has work to do, and a thousand in one pass would delay every other task. All end now
        if no task of this connection can start any more.
        """
        if self._nursery is None:
            at_once = len(streams)
        for stream in streams[:at_once]:
            end(stream)
        if len(streams) > at_once:
            self.start(_end_rest, streams[at_once:], end, name="ends")


async def _end_rest(streams: Sequence[S], end: Callable[[S], None]) -> None:
    for start in range(0, len(streams), MAX_ENDS_PER_STEP):
        # Shielded: also on a cancelled connection every caller has to be woken.
        await trio.lowlevel.cancel_shielded_checkpoint()
        for stream in streams[start : start + MAX_ENDS_PER_STEP]:
            end(stream)
