"""Bytes to a peer and back: any of Trio's streams, and a socket's own way past Trio's.

A lone RPC needs no step of the scheduler but its caller's, if its bytes go out in that one and its answer is
read there (`inline_read.py`). Plain functions can do that for a socket: they offer the bytes once, and take what there
is. What the socket does not take is left to the writer. No task can be cancelled in the middle of it.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import partial

import trio

READ_SIZE = 64 * 1024
LARGE_READ_SIZE = 256 * 1024  # when the last read was full: somebody sends a lot


class Transport:
    """A stream of any kind. It is owned by its connection, which closes it."""

    __slots__ = ("readable", "stream")

    readable: Callable[[], Awaitable[None]]
    """Waits until `receive_nowait` has a chance; only where there is `at_once`."""

    at_once = False
    """Whether `send_nowait` and `receive_nowait` have a chance."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream

    async def receive(self) -> bytes:
        """What has come; nothing at the end."""
        return bytes(await self.stream.receive_some(READ_SIZE))

    def receive_nowait(self) -> bytes | None:
        """What has come, if anything has; nothing at the end."""
        return None

    def wait_apart(self) -> bool:
        """Whether `interrupt` may be called from now on. Not to be asked while anybody waits in `readable`."""
        return False

    def interrupt(self) -> None:
        """Whoever waits in `readable` gets a `trio.ClosedResourceError`; nothing is closed, and nobody else minds."""

    async def send_all(self, data: bytes | memoryview) -> None:
        await self.stream.send_all(data)

    def send_nowait(self, data: bytes) -> int:
        """How much of it went out at once. An error shows when the rest is sent."""
        return 0

    async def close(self) -> None:
        await trio.aclose_forcefully(self.stream)


class SocketTransport(Transport):
    """A plain socket: no attempt to read before there is something, no step of the scheduler after."""

    __slots__ = ("_fd", "_read_fd", "_read_size")

    stream: trio.SocketStream

    at_once = True

    def __init__(self, stream: trio.SocketStream) -> None:
        super().__init__(stream)
        self._fd = self._read_fd = stream.socket.fileno()
        self.readable = partial(trio.lowlevel.wait_readable, self._fd)  # no coroutine of ours around it
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
        except BlockingIOError:
            return None
        except OSError as error:
            raise trio.BrokenResourceError(f"socket connection broken: {error}") from error
        self._read_size = READ_SIZE if len(data) < READ_SIZE else LARGE_READ_SIZE
        return data

    def wait_apart(self) -> bool:
        # `notify_closing` wakes whoever waits for a descriptor, to read or to write. By a second descriptor of the same
        # socket the writer is left alone.
        if self._read_fd == self._fd:
            try:
                self._read_fd = os.dup(self._fd)
            except OSError:
                return False  # the process has no descriptor left
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

    def send_nowait(self, data: bytes) -> int:
        try:
            return os.write(self._fd, data)
        except OSError:  # also if it would block
            return 0


def transport_of(stream: trio.abc.Stream) -> Transport:
    """The fastest way there is."""
    if isinstance(stream, trio.SocketStream) and os.name == "posix":
        return SocketTransport(stream)
    return Transport(stream)
