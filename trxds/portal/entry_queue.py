"""This file brings functions of other threads into Trio's thread, as `TrioToken.run_sync_soon` does, for less.

Trio's own queue writes to a socket for each function, and reads from it until there is nothing left. This one writes
a byte only if its task waits.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import trio

# Seconds that Trio's thread waits for another one to queue its function; without a wait it would spin meanwhile.
_PATIENCE = 0.001


class EntryQueue:
    """An `EntryQueue` calls synchronous functions that do not raise, in the order in which threads queue them."""

    def __init__(self) -> None:
        self._calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        # Reentrant, because a signal handler or a finalizer that runs here may queue a function too. It may also wait
        # for that function with the lock held, so Trio's thread does not wait for the lock for long.
        self._lock = threading.RLock()
        self._thread = threading.get_ident()  # Trio's
        self._is_waiting = False  # whether the task needs a byte to go on
        self._is_closed = False
        self._reader, self._writer = socket.socketpair()

    def run_sync_soon(self, function: Callable[..., object], *args: Any) -> None:
        """Call the function in Trio's thread; `trio.RunFinishedError` if the queue has ended. From any thread."""
        if threading.get_ident() != self._thread:
            with self._lock:
                self._add(function, args, self._is_waiting)
        else:
            # A finalizer, as of an abandoned block. The byte wakes the task, whatever it is about to find.
            self._add(function, args, True)

    def _add(self, function: Callable[..., object], args: tuple[Any, ...], must_wake: bool) -> None:
        if self._is_closed:
            raise trio.RunFinishedError
        self._calls.append((function, args))
        if must_wake:
            # The byte goes first: KeyboardInterrupt may come between the two, and one byte too many does no harm.
            self._writer.send(b"\0")
            self._is_waiting = False

    # -- in Trio's thread

    async def run(self) -> None:
        """Call the functions until this task is cancelled; those that are queued by then are called too."""
        try:
            while True:
                self._call_all()
                must_wait = False
                if self._lock.acquire(timeout=_PATIENCE):
                    # Under the lock: a function that is queued after this look finds that it has to send the byte.
                    self._is_waiting = must_wait = not self._calls
                    self._lock.release()
                if must_wait:
                    await trio.lowlevel.wait_readable(self._reader)
                    self._reader.recv(1)
                else:
                    await trio.lowlevel.checkpoint()
        finally:
            with trio.CancelScope(shield=True):
                while not self._lock.acquire(blocking=False):
                    await trio.lowlevel.checkpoint()
                    self._call_all()
            self._is_closed = True
            self._reader.close()
            self._writer.close()
            self._lock.release()
            # Nothing can be queued any more, so no function is left after this.
            self._call_all()

    def _call_all(self) -> None:
        for _ in range(len(self._calls)):  # not those that are queued meanwhile, or other tasks could starve
            function, args = self._calls.popleft()
            function(*args)
