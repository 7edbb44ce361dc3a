"""This file brings functions of other threads into Trio's thread, as `TrioToken.run_sync_soon` does, for less.

Trio's own queue writes to a socket for each function, and reads from it until there is nothing left. This one writes
a byte only if its task waits.

It has no lock, because a signal handler may run at any step of a thread that queues, and wait for Trio's thread. Each
step is one operation of a deque, a list or an attribute, and the GIL puts all of them into one order. A thread adds its
function before it looks whether the task waits and whether the queue has ended; the task says that it waits, or ends,
before it looks for functions. So at least one of the two sees the other. A free-threaded CPython locks the deque, and
the object whose attribute is set, but documents no order between the two: this file is not tested there.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import trio


class _Wake(partial[int]):
    """A `_Wake` sends the byte that wakes the task, and closes the sockets when no thread can call it any more.

    If they were closed earlier, a late thread would send its byte to the next socket with that number. A
    `weakref.finalize` would not do: at the end of the process it calls nothing any more.
    """

    ends: tuple[socket.socket, ...] = ()

    def __del__(self) -> None:
        for end in self.ends:
            end.close()


class EntryQueue:
    """An `EntryQueue` calls synchronous functions that do not raise, in the order in which threads queue them."""

    def __init__(self) -> None:
        self._calls: deque[Callable[[], object]] = deque()
        self._is_closed = False
        # What wakes the task if it waits. Each wait has its own list: a thread that clears one late clears no other.
        self._wakers: list[Callable[[], object]] = []
        # Here and not in the task: without descriptors no channel is opened, where its calls would wait for ever.
        self._reader, writer = socket.socketpair()
        self._wake = _Wake(writer.send, b"\0")
        self._wake.ends = (self._reader, writer)

    def run_sync_soon(self, function: Callable[..., object], *args: Any) -> None:
        """Call the function in Trio's thread; `trio.RunFinishedError` if the queue has ended. From any thread."""
        call = partial(function, *args)
        self._calls.append(call)
        wakers = self._wakers
        for wake in wakers:
            # First: KeyboardInterrupt or a signal handler may come between the two, and one byte too many does no harm.
            wake()
            wakers.clear()
        if self._is_closed:
            with suppress(ValueError):  # the task has taken it, and calls it
                self._calls.remove(call)
                raise trio.RunFinishedError

    # -- in Trio's thread

    async def run(self) -> None:
        """Call the functions until this task is cancelled; those that are queued by then are called too."""
        try:
            while True:
                self._call_all()
                self._wakers = [self._wake]
                if self._calls:
                    self._wakers.clear()
                    await trio.lowlevel.checkpoint()
                else:
                    await trio.lowlevel.wait_readable(self._reader)
                    self._reader.recv(64)
        finally:
            self._is_closed = True
            with suppress(IndexError):  # a thread has taken its function back meanwhile
                self._call_all()
            self._wakers = []
            del self._wake

    def _call_all(self) -> None:
        for _ in range(len(self._calls)):  # not those that are queued meanwhile, or other tasks could starve
            self._calls.popleft()()
