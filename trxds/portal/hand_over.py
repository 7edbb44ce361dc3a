"""This file runs functions of other threads in Trio's thread, and holds `async with` blocks there for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from types import TracebackType
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

import trio

import trxds

from .entry_queue import EntryQueue
from .trio_thread import TrioThread, is_ending
from .worker_tasks import WorkerTasks

P = ParamSpec("P")
T = TypeVar("T")
H = TypeVar("H", bound="HandOver")


class Outcome(Protocol):
    """What `HandOver` needs of a future, in Trio's thread; a `concurrent.futures.Future` has it."""

    def cancelled(self) -> bool: ...
    def add_done_callback(self, fn: Callable[[Any], object], /) -> None: ...
    def set_running_or_notify_cancel(self) -> bool: ...
    def set_result(self, result: Any, /) -> None: ...
    def set_exception(self, exception: BaseException | None, /) -> None: ...


class _BeforeIoWait(trio.abc.Instrument):
    """Calls functions once, when Trio has run all tasks that could run, and is about to wait for the network."""

    def __init__(self) -> None:
        self.functions: list[Callable[[], object]] = []

    def before_io_wait(self, timeout: float) -> None:
        """Call the functions; Trio calls this."""
        if self.functions:
            functions, self.functions = self.functions, []
            # Trio removes an instrument that raises, and then no thread would be woken any more.
            for function in functions:
                function()


class HandOver:
    """A `HandOver` runs functions of other threads in Trio, in a nursery of its own next to anyio's portal.

    `portal.call` would do, but costs several times as much: it starts each call with an extra round trip, waits with a
    `concurrent.futures.Future`, and wakes the caller in the middle of Trio's turn (docs/measuring.md, "From threads").
    """

    def __init__(self, thread: TrioThread[Any], channel: trxds.Channel, nursery: trio.Nursery) -> None:
        self.thread = thread
        self.channel = channel
        self.nursery = nursery
        self.closed = False
        self._entry_queue = EntryQueue()
        nursery.start_soon(self._entry_queue.run, name="portal/entry_queue")
        self._workers = WorkerTasks(nursery, name="portal/call")
        self._before_io_wait: _BeforeIoWait | None = None

    def check_can_wait(self) -> None:
        """Raise if a wait for Trio's thread would never end: in a fork, at the process's end, in Trio's own thread."""
        if self.thread.is_forked:
            raise RuntimeError(
                f"{self.channel!r} was opened in process {self.thread.process}, and this process is a fork of it: "
                "its thread and its connections stayed there; open a channel after the fork"
            )
        if is_ending():
            raise self.closed_error()
        if self.thread.is_current:
            raise RuntimeError(
                f"{self.channel!r} is called in the thread that runs it, which would wait for itself; "
                "in there, use the channel that `submit` gives its function"
            )

    def call_soon(self, function: Callable[..., object], *args: Any) -> None:
        """Call a synchronous function that does not raise in Trio's thread; `ClosedResourceError` if it has ended."""
        try:
            self._entry_queue.run_sync_soon(function, *args)
        except trio.RunFinishedError:
            raise self.closed_error() from None

    def run_sync_soon(self, function: Callable[[], object]) -> None:
        """Call a synchronous function that does not raise in Trio's thread; do nothing in a fork or after its end."""
        # In a fork the queue's socket is the parent's.
        if not self.thread.is_forked:
            with suppress(trio.RunFinishedError):
                self._entry_queue.run_sync_soon(function)

    def closed_error(self) -> trio.ClosedResourceError:
        """Return the error of a function that is handed over after the channel's end."""
        return trio.ClosedResourceError(f"the channel to {self.channel.target} is closed")

    # -- in Trio's thread

    def begin(self, outcome: Outcome, function: Callable[[], Awaitable[Any]]) -> None:
        """Start a task that runs `function`; `outcome` gets its result, and cancelling it cancels the task."""
        if not self.closed:
            self._workers.run_soon(partial(self._run, outcome, function))
        else:
            _set_outcome(outcome, error=self.closed_error())

    def begin_task(self, function: Callable[[], Awaitable[None]]) -> None:
        """Start a task for a function that raises nothing but `trio.Cancelled`, unless the channel has closed."""
        if not self.closed:
            self._workers.run_soon(function)

    def call_before_io_wait(self, function: Callable[[], object]) -> None:
        """Call a function that does not raise when the tasks that can run now have run; at once if the channel closes.

        It is the time to wake another thread: earlier it would contend for the interpreter with the tasks.
        """
        if self.closed:
            function()
            return
        if self._before_io_wait is None:
            self._before_io_wait = _BeforeIoWait()
            trio.lowlevel.add_instrument(self._before_io_wait)
        self._before_io_wait.functions.append(function)

    def close(self) -> None:
        """Cancel the functions that run, and let no other begin."""
        self.closed = True
        self.nursery.cancel_scope.cancel(reason="the channel is closed")

    async def _run(self, outcome: Outcome, function: Callable[[], Awaitable[Any]]) -> None:
        # A future stays pending until the function ends, because a running future cannot be cancelled.
        with trio.CancelScope() as scope:
            outcome.add_done_callback(partial(self._cancel, scope))
            try:
                _set_outcome(outcome, None if outcome.cancelled() else await function())
            except trio.Cancelled:
                _set_outcome(outcome, error=self.channel.closed_error())
                raise
            except BaseException as error:
                _set_outcome(outcome, error=error)
                # The outcome has the exception, and that has this frame: without `del` they would be a cycle.
                del outcome

    def _cancel(self, scope: trio.CancelScope, outcome: Outcome) -> None:
        if outcome.cancelled():
            # The thread that cancels calls this, and only Trio's own may cancel a scope.
            self.run_sync_soon(scope.cancel)


def _set_outcome(outcome: Outcome, result: Any = None, error: BaseException | None = None) -> None:
    if not outcome.set_running_or_notify_cancel():
        return
    if error is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(result)


async def run_sync(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a synchronous function returns: a `HandOver` waits for async functions only."""
    return function(*args, **kwargs)


def channel_thread(
    make: Callable[[TrioThread[Any], trxds.Channel, trio.Nursery], H],
    opening: Callable[P, AbstractAsyncContextManager[trxds.Channel]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> TrioThread[H]:
    """Return the thread of the channel that `opening` opens; it starts with the `HandOver` that `make` makes of it."""
    if kwargs.get("xds") is not None:
        raise ValueError("xds= is a client in another thread's Trio; leave it out, this channel has its own")
    # Not TrioThread[H](...): typing imports a module for that, which fails when the interpreter ends.
    thread: TrioThread[H] = TrioThread(partial(_serve, partial(opening, *args, **kwargs), make))
    return thread


async def _serve(
    opening: Callable[[], AbstractAsyncContextManager[trxds.Channel]],
    make: Callable[[TrioThread[Any], trxds.Channel, trio.Nursery], H],
    thread: TrioThread[Any],
    *,
    task_status: trio.TaskStatus[H],
) -> None:
    async with opening() as channel, trio.open_nursery() as nursery:
        hand_over = make(thread, channel, nursery)
        task_status.started(hand_over)
        try:
            await thread.leaving.wait()
        finally:
            # The functions end before the channel, with the error of calls whose channel closes.
            hand_over.close()


class HeldBlock(Generic[T]):
    """An `async with` block that one task enters and leaves, as Trio demands, while another thread is in it.

    `hold` runs in that task. The other thread leaves with `leave` or `cancel`, waits until `ended` is set, and takes
    the block's outcome with `swallows`.
    """

    def __init__(self, block: Callable[[], AbstractAsyncContextManager[T]], ended: Outcome) -> None:
        self._block = block
        self._ended = ended
        self._error: BaseException | None = None  # the exception that leaves the block, and then the one that comes out
        self._leaving = trio.Event()
        self._scope = trio.CancelScope()

    # -- in Trio's thread

    async def hold(self, task_status: trio.TaskStatus[T]) -> None:
        """Enter the block, start with its value, and leave it when the other thread does."""
        entered = False
        try:
            with self._scope:
                async with self._block() as value:
                    entered = True
                    task_status.started(value)
                    await self._leaving.wait()
                    if self._error is not None:
                        raise self._error
                # The block has swallowed the error. `cancel` does not come here, so the other thread keeps its own.
                self._error = None
        except trio.Cancelled:
            raise
        except BaseException as error:
            if not entered:
                raise
            self._error = error
        finally:
            # However the block ends, for the other thread waits for this without a timeout.
            self._ended.set_result(None)

    def leave(self) -> None:
        """Leave the block."""
        self._leaving.set()

    def cancel(self) -> None:
        """Leave the block as a cancelled task does."""
        self._scope.cancel(reason="the block's own task is cancelled")

    # -- in the other thread

    def throw(self, error: BaseException | None) -> None:
        """Note the exception with which the block is to be left, before `leave` or `cancel`."""
        self._error = error

    def swallows(self, error: BaseException | None, traceback: TracebackType | None) -> bool:
        """Return whether the block swallowed `error`, or raise the one that it raised in its place."""
        if self._error is not None and self._error is not error:
            raise self._error
        if error is not None:
            error.__traceback__ = traceback  # without the frames of Trio's thread
        return error is not None and self._error is None
