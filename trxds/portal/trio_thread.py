"""A `TrioThread` runs Trio in a thread of its own, for programs that do not run it, and ends it with the process.

anyio's portal starts the thread, and stops it when the portal's block is left. The thread that entered the block leaves
it, with two exceptions: in a fork, where the thread does not exist; and at the end of the process. Then Python joins
all other threads and runs `atexit` handlers, and after those a daemon thread never runs again, so a wait for it would
never end. Therefore the thread itself keeps a reference to the portal's block, or the garbage collector could leave it.
And an `atexit` handler here stops all threads. It is registered when this file is imported, so that handlers which a
program registers later run before it, and may still make calls.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from contextlib import suppress
from contextvars import Context
from typing import Any, Generic, Protocol, TypeVar

import trio
from anyio.from_thread import BlockingPortal, start_blocking_portal

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

EXIT_TIMEOUT = 5.0  # seconds that the end of the process waits for all Trio threads together


class Serve(Protocol[T_co]):
    """An async function that calls `task_status.started` with a value, and returns after `thread.leaving` is set."""

    async def __call__(self, thread: TrioThread[Any], *, task_status: trio.TaskStatus[T_co]) -> None: ...


class TrioThread(Generic[T]):
    """A `TrioThread` runs `serve` once, in a thread of its own."""

    def __init__(self, serve: Serve[T]) -> None:
        self._serve = serve
        self.process = os.getpid()
        self.leaving = trio.Event()
        self._portal = start_blocking_portal("trio", name="trxds-trio")

    @property
    def is_forked(self) -> bool:
        """Return whether this process is a fork of the one that has the thread."""
        return os.getpid() != self.process

    @property
    def is_unreachable(self) -> bool:
        """Return whether the thread completes no more functions: in a fork, and at the end of the process."""
        return self.is_forked or is_ending()

    @property
    def is_current(self) -> bool:
        """Return whether the caller runs in this thread."""
        return threading.current_thread() is self._thread

    def start(self) -> T:
        """Start the thread; return the value that `serve` started with, or raise its exception."""
        if _ending.is_set():
            raise RuntimeError("the process is about to end, and no channel can be opened any more")
        # `trxds.aio` calls this in a thread of its own.
        if trio.lowlevel.in_trio_run():
            why = "trxds.sync.open_channel blocks its thread, and Trio runs in this one"
            raise RuntimeError(f"{why}; use trxds.open_channel")
        portal = self._portal.__enter__()
        try:
            value: T
            # This thread's context, which may have a span, is not meant for the tasks of a channel.
            self._ended, value = Context().run(portal.start_task, self._main, portal)
            return value
        except BaseException:  # KeyboardInterrupt too, during the start
            self._portal.__exit__(*sys.exc_info())
            _running.discard(self)
            raise

    def stop(self) -> None:
        """Stop the thread and wait for its end; raises the exception of `serve`, if any."""
        if self.is_unreachable:
            return
        self.ask_to_stop()
        if self.is_current:
            return  # the garbage collector leaves an abandoned block in this very thread, which cannot wait for itself
        try:
            # It ends by itself: `_main` stops the portal. Asked for a task at that moment, the portal would make a
            # coroutine that nobody awaits.
            self._thread.join()
        finally:
            self._portal.__exit__(None, None, None)
            _running.discard(self)
        self._ended.result()

    def ask_to_stop(self) -> None:
        """Ask `serve` to return. Synchronous, from any thread."""
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self.leaving.set)

    def join(self, timeout: float) -> None:
        """Wait until the thread has ended, at most `timeout` seconds."""
        self._thread.join(timeout)

    async def _main(self, portal: BlockingPortal, *, task_status: trio.TaskStatus[T]) -> None:
        self._thread = threading.current_thread()  # not its number, which another one gets when it has ended
        self._token = trio.lowlevel.current_trio_token()
        # This task refers to `self`, and so to the portal's block, which therefore outlives the thread.
        _running.add(self)
        try:
            await self._serve(self, task_status=task_status)
        finally:
            await portal.stop()  # no checkpoint: it sets an event, so it does so in a cancelled task too


# -- the end of the process

_running: set[TrioThread[Any]] = set()
_ending = threading.Event()


def is_ending() -> bool:
    """Return whether the process ends, so that Trio threads complete no more functions."""
    return _ending.is_set()


def _stop_all() -> None:
    _ending.set()
    here = [thread for thread in tuple(_running) if not thread.is_forked]
    # All are asked before any is waited for, so that they end side by side within the one time-out.
    for thread in here:
        thread.ask_to_stop()
    until = time.monotonic() + EXIT_TIMEOUT
    for thread in here:
        thread.join(max(0.0, until - time.monotonic()))


atexit.register(_stop_all)
