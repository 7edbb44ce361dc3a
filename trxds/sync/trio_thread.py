"""Trio in a thread of its own, for programs that do not run it, and its end when the process ends.

anyio's portal starts the thread, and stops it when its block is left. It is left by those who entered it, unless nobody
can: the thread is in another process, which this one is a fork of; or the process ends, and the thread does not. Python
joins all other threads, then runs `atexit` handlers, and after those a daemon never runs again: whoever waits for one
waits for ever. So the thread itself holds on to the portal's block, which then is not left by the garbage collector
either. And a handler here stops all threads. It is registered when this file is imported, so that those which a program
registers later run before it, and may still make calls.
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

EXIT_TIMEOUT = 5.0  # seconds that the end of the process waits for all of these threads together


class Serve(Protocol[T_co]):
    """Calls `task_status.started` with a value, and goes on until it is to leave."""

    async def __call__(self, leaving: trio.Event, *, task_status: trio.TaskStatus[T_co]) -> None: ...


class TrioThread(Generic[T]):
    """Runs `serve` in a thread of its own, once."""

    def __init__(self, serve: Serve[T]) -> None:
        self._serve = serve
        self._process = os.getpid()
        self._portal = start_blocking_portal("trio", name="trxds-trio")
        self._leaving = trio.Event()

    @property
    def lost(self) -> bool:
        """This process is a fork of the one that has the thread."""
        return os.getpid() != self._process

    def start(self) -> T:
        """Begin; the value, or what `serve` raised instead."""
        if _ending.is_set():
            raise RuntimeError("the process is about to end, and no channel can be opened any more")
        portal = self._portal.__enter__()
        try:
            value: T
            # What is in this thread's context, a span say, is not meant for the tasks of a channel.
            self._ended, value = Context().run(portal.start_task, self._main, portal)
            return value
        except BaseException:  # also KeyboardInterrupt, while it still begins
            self._portal.__exit__(*sys.exc_info())
            _running.discard(self)
            raise

    def leave(self) -> None:
        """Have it stop, and wait for its end; raises what `serve` raised."""
        if self.lost or _ending.is_set():
            return
        self.ask_to_stop()
        if threading.current_thread() is self._thread:
            return  # the collector runs here, and has found a block that nobody left: we cannot wait for ourselves
        self._portal.__exit__(None, None, None)
        _running.discard(self)
        self._ended.result()

    def ask_to_stop(self) -> None:
        """Plain, and from any thread."""
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._leaving.set)

    def join(self, timeout: float) -> None:
        """Wait until the thread has ended, and no longer than so many seconds."""
        self._thread.join(timeout)

    async def _main(self, portal: BlockingPortal, *, task_status: trio.TaskStatus[T]) -> None:
        self._thread = threading.current_thread()
        self._token = trio.lowlevel.current_trio_token()
        # This task has `self`, and with it the portal's block, which so is not closed before the thread has ended.
        _running.add(self)
        try:
            await self._serve(self._leaving, task_status=task_status)
        finally:
            await portal.stop()  # no checkpoint: it sets an event, so it does so in a cancelled task too


# -- the end of the process

_running: set[TrioThread[Any]] = set()
_ending = threading.Event()


def is_ending() -> bool:
    """The process ends: what such a thread was asked for and has not done will not be done."""
    return _ending.is_set()


def _end() -> None:
    _ending.set()
    here = [thread for thread in tuple(_running) if not thread.lost]
    for thread in here:
        thread.ask_to_stop()
    until = time.monotonic() + EXIT_TIMEOUT
    for thread in here:
        thread.join(max(0.0, until - time.monotonic()))


atexit.register(_end)
