"""The bytes of a connection, over any of Trio's streams, or over a socket with fewer steps than Trio's own.

A lone RPC needs no step of the scheduler except its caller's, if its bytes leave in that step and its caller reads the
answer (`inline_read.py`). For a socket, synchronous functions do that: they offer the bytes once, and take those that
there are. The writer sends the bytes that the socket does not take. Plain functions cannot be cancelled in the middle.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import trio

READ_SIZE = 64 * 1024
LARGE_READ_SIZE = 128 * 1024  # after a full read, as more is likely to come; one step takes as much


class Transport:
    """A stream of any kind, owned by its connection, which closes it."""

    __slots__ = ("readable", "stream")

    readable: Callable[[], Awaitable[None]]
    """Waits until `receive_nowait` can return bytes; only where `at_once` is true."""

    at_once = False
    """Whether `send_nowait` and `receive_nowait` can do anything."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream

    async def receive(self) -> bytes:
        """Return the bytes that have come; no bytes at the end."""
        return bytes(await self.stream.receive_some(READ_SIZE))

    def receive_nowait(self) -> bytes | None:
        """Return the bytes that have come, or None; no bytes at the end."""
        return None

    def enable_interrupt(self) -> bool:
        """Return whether `interrupt` may be called from now on. Not to be called while a task waits in `readable`."""
        return False

    def interrupt(self) -> None:
        """Wake the task in `readable` by a `trio.ClosedResourceError`; nothing is closed, no other task wakes."""

    async def send_all(self, data: bytes | memoryview) -> None:
        await self.stream.send_all(data)

    def send_nowait(self, data: bytes) -> int:
        """Return the number of bytes that were sent at once. An error shows when the rest is sent."""
        return 0

    async def linger(self, seconds: float) -> None:
        """Say that no more will be sent, and read what still comes until the peer closes, for a limited time.

        A socket that is closed before it has read all is reset, and then the peer may lose what it has not read yet
        (RFC 9112 §9.6).
        """

    async def close(self) -> None:
        await trio.aclose_forcefully(self.stream)


class SocketTransport(Transport):
    """A TCP or Unix socket: it never reads before there are bytes, and takes no scheduler step after a read."""

    __slots__ = ("_fd", "_read_fd", "_read_size")

    stream: trio.SocketStream

    at_once = True

    def __init__(self, stream: trio.SocketStream) -> None:
        super().__init__(stream)
        self._fd = self._read_fd = stream.socket.fileno()
        self.readable = partial(trio.lowlevel.wait_readable, self._fd)  # one coroutine less for each wait
        self._read_size = READ_SIZE

    async def receive(self) -> bytes:
        while True:
            await self.readable()
            data = self.receive_nowait()
            if data is not None:
                return data

    def receive_nowait(self) -> bytes | None:
        try:
            data = os.read(self._fd, self._read_size)
        # Another task of this step may have read what woke this one.
        except BlockingIOError:
            return None
        except OSError as error:
            raise trio.BrokenResourceError(f"socket connection broken: {error}") from error
        self._read_size = READ_SIZE if len(data) < READ_SIZE else LARGE_READ_SIZE
        return data

    def enable_interrupt(self) -> bool:
        # `notify_closing` wakes the reader and the writer of a descriptor. With a second descriptor of the socket
        # for reading, the writer is not woken.
        if self._read_fd == self._fd:
            try:
                self._read_fd = os.dup(self._fd)
            except OSError:
                return False  # the process has too many open files
            self.readable = partial(trio.lowlevel.wait_readable, self._read_fd)
        return True

    def interrupt(self) -> None:
        trio.lowlevel.notify_closing(self._read_fd)

    async def close(self) -> None:
        if self._read_fd != self._fd:
            trio.lowlevel.notify_closing(self._read_fd)
            os.close(self._read_fd)
            self._read_fd = self._fd
        await super().close()

    async def linger(self, seconds: float) -> None:
        with trio.move_on_after(seconds), suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self.stream.send_eof()
            while await self.receive():
                pass

    def send_nowait(self, data: bytes) -> int:
        try:
            return os.write(self._fd, data)
        except OSError:  # BlockingIOError, or an error that the writer's next send shows
            return 0


class DirectStream(trio.abc.HalfCloseableStream):
    """A stream that is no socket, but can be used by plain functions as one: a simulated one, say."""

    @abstractmethod
    def send_nowait(self, data: bytes) -> int:
        """Return the number of bytes that were sent at once. An error shows when the rest is sent."""

    @abstractmethod
    def receive_nowait(self) -> bytes | None:
        """Return the bytes that have come, or None; no bytes at the end. `trio.BrokenResourceError` if it is broken."""

    @abstractmethod
    async def readable(self) -> None:
        """Wait until `receive_nowait` does not return None."""

    @abstractmethod
    def interrupt(self) -> None:
        """Wake the task in `readable` by a `trio.ClosedResourceError`."""


class DirectTransport(Transport):
    """A transport with the scheduler steps of a socket's."""

    __slots__ = ()

    stream: DirectStream

    at_once = True

    def __init__(self, stream: DirectStream) -> None:
        super().__init__(stream)
        self.readable = stream.readable

    async def receive(self) -> bytes:
        while True:
            await self.readable()
            data = self.stream.receive_nowait()
            if data is not None:
                return data

    def receive_nowait(self) -> bytes | None:
        return self.stream.receive_nowait()

    def enable_interrupt(self) -> bool:
        return True

    def interrupt(self) -> None:
        self.stream.interrupt()

    def send_nowait(self, data: bytes) -> int:
        return self.stream.send_nowait(data)


def transport_of(stream: trio.abc.Stream) -> Transport:
    """Return the fastest transport for this stream."""
    if isinstance(stream, DirectStream):
        return DirectTransport(stream)
    # On Windows a socket is no file descriptor that `os.read` takes.
    if isinstance(stream, trio.SocketStream) and os.name == "posix":
        return SocketTransport(stream)
    return Transport(stream)
