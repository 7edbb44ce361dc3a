"""Trio in a thread of its own, for programs that do not run it, and its end when the process ends.

The thread is a daemon: a block that was entered and never left must not keep the process. Python joins all other
threads, then runs `atexit` handlers, and after those a daemon never runs again: whoever waits for one waits for ever.
Ours is such a handler. It is registered when this file is imported, so that those which a program registers later run
before it, and may still make calls.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

import trio

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)

EXIT_TIMEOUT = 5.0  # seconds that the end of the process waits for all of these threads together


class Serve(Protocol[T_co]):
    """Calls `task_status.started` with a value, and goes on until the value is told to stop."""

    async def __call__(self, *, task_status: trio.TaskStatus[T_co]) -> None: ...


class TrioThread(Generic[T]):
    """Runs `serve`. `stop` is called with its value, in the thread, and makes it return."""

    def __init__(self, serve: Serve[T], stop: Callable[[T], object]) -> None:
        self._serve = serve
        self._stop = stop
        self._scope = trio.CancelScope()
        self._token: Future[trio.lowlevel.TrioToken] = Future()
        self._started: Future[T] = Future()
        self._ended: Future[None] = Future()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name="trxds-trio", daemon=True)

    @property
    def lost(self) -> bool:
        """This process is a fork of the one that has the thread."""
        return os.getpid() != self._process

    def start(self) -> T:
        """Begin; the value, or what `serve` raised instead."""
        if _ending.is_set():
            raise RuntimeError("the process is about to end, and no channel can be opened any more")
        self._thread.start()
        _running.add(self)
        try:
            return self._started.result()
        except BaseException:  # also KeyboardInterrupt, while it still begins
            _running.discard(self)
            self._soon(self._scope.cancel)
            self._thread.join()
            raise

    def leave(self) -> None:
        """Have it stop, and wait for its end; raises what `serve` raised."""
        _running.discard(self)
        if self.lost or _ending.is_set():
            return
        self.ask_to_stop()
        if threading.get_ident() == self._thread.ident:
            return  # the collector runs here, and has found a block that nobody left: we cannot wait for ourselves
        self._thread.join()
        self._ended.result()

    def ask_to_stop(self) -> None:
        if self._started.done():
            value = self._started.result()
            self._soon(lambda: self._stop(value))
        else:
            self._soon(self._scope.cancel)

    def join(self, timeout: float) -> None:
        self._thread.join(timeout)

    def _soon(self, function: Callable[[], object]) -> None:
        if self._token.exception() is None:
            with suppress(trio.RunFinishedError):
                self._token.result().run_sync_soon(function)

    # -- in the thread

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as error:
            for future in (self._token, self._started, self._ended):
                if not future.done():
                    future.set_exception(error)
        else:
            self._ended.set_result(None)

    async def _main(self) -> None:
        self._token.set_result(trio.lowlevel.current_trio_token())
        with self._scope:
            await self._serve(task_status=_Started(self._started))


class _Started(trio.TaskStatus[T_contra]):
    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    def started(self, value: Any = None) -> None:
        self._future.set_result(value)


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
