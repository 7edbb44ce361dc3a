"""The bytes of a connection, over any of Trio's streams, or over a socket with fewer steps than Trio's own.

A lone RPC needs no step of the scheduler except its caller's, if its bytes leave in that step and its caller reads the
answer (`inline_read.py`). For a socket, synchronous functions do that: they offer the bytes once, and take those that
there are. The writer sends the bytes that the socket does not take. Plain functions cannot be cancelled in the middle.
"""

from __future__ import annotations

import os
import socket
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import trio

READ_SIZE = 64 * 1024
LARGE_READ_SIZE = 128 * 1024  # after a full read, as more is likely to come; one step takes as much
MAX_LAST_READ_TIME = 0.5  # seconds in which a reader takes what a peer sent before it closed


class Transport:
    """A stream of any kind, owned by its connection, which closes it."""

    __slots__ = ("readable", "stream")

    readable: Callable[[], Awaitable[None]]
    """Waits until `receive_nowait` can return bytes; only where `at_once` is true."""

    at_once = False
    """Whether `send_nowait` and `receive_nowait` can do anything."""

    can_gather = False
    """Whether `gather` can wait for several bytes."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream

    async def receive(self) -> bytes:
        """Return the bytes that have come; no bytes at the end."""
        return bytes(await self.stream.receive_some(READ_SIZE))

    def receive_nowait(self) -> bytes | None:
        """Return the bytes that have come, or None; no bytes at the end."""
        return None

    async def gather(self, size: int, seconds: float) -> None:
        """Wait until so many bytes have come, or the peer's end, but no longer than so many seconds.

        Only where `can_gather` is true. `receive` then returns at once what has come.
        """
        raise NotImplementedError

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


class _AtOnceTransport(Transport):
    """A transport with `send_nowait` and `receive_nowait`, and with a mark for `gather`."""

    __slots__ = ("_has_gathered", "_low_water", "can_gather")

    at_once = True

    def __init__(self, stream: trio.abc.Stream) -> None:
        super().__init__(stream)
        self.can_gather = True
        self._has_gathered = False  # whether `receive` has to look first, and not to wait
        self._low_water = 1  # the bytes that have to come before `readable` returns

    async def receive(self) -> bytes:
        if self._has_gathered:
            self._has_gathered = False
            data = self.receive_nowait()
            if data is not None:
                return data
        self._be_readable_from(1)
        while True:
            await self.readable()
            data = self.receive_nowait()
            if data is not None:
                return data

    async def gather(self, size: int, seconds: float) -> None:
        self._be_readable_from(size)
        try:
            with trio.move_on_after(seconds):
                await self.readable()
        except trio.ClosedResourceError:
            return  # `receive` raises it, too
        self._has_gathered = True

    def _be_readable_from(self, size: int) -> None:
        if size != self._low_water:
            self._low_water = size
            self._set_low_water(size)

    @abstractmethod
    def _set_low_water(self, size: int) -> None: ...


class SocketTransport(_AtOnceTransport):
    """A TCP or Unix socket: it never reads before there are bytes, and takes no scheduler step after a read."""

    __slots__ = ("_fd", "_read_fd", "_read_size")

    stream: trio.SocketStream

    def __init__(self, stream: trio.SocketStream) -> None:
        super().__init__(stream)
        self._fd = self._read_fd = stream.socket.fileno()
        self.readable = partial(trio.lowlevel.wait_readable, self._fd)  # one coroutine less for each wait
        self._read_size = READ_SIZE
        # A Unix socket is readable from the first byte, whatever its low water mark.
        self.can_gather = stream.socket.family in (socket.AF_INET, socket.AF_INET6)

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
        self._be_readable_from(1)
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

    def _set_low_water(self, size: int) -> None:
        try:
            self.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
        except OSError:  # not every system has it
            self.can_gather = False


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
        """Wait until `receive_nowait` does not return None, or as `set_low_water` has said."""

    @abstractmethod
    def set_low_water(self, size: int) -> None:
        """From now on `readable` waits for so many bytes, or the peer's end."""

    @abstractmethod
    def interrupt(self) -> None:
        """Wake the task in `readable` by a `trio.ClosedResourceError`."""


class DirectTransport(_AtOnceTransport):
    """A transport with the scheduler steps of a socket's."""

    __slots__ = ()

    stream: DirectStream

    def __init__(self, stream: DirectStream) -> None:
        super().__init__(stream)
        self.readable = stream.readable

    def receive_nowait(self) -> bytes | None:
        return self.stream.receive_nowait()

    def enable_interrupt(self) -> bool:
        self._be_readable_from(1)
        return True

    def interrupt(self) -> None:
        self.stream.interrupt()

    def send_nowait(self, data: bytes) -> int:
        return self.stream.send_nowait(data)

    def _set_low_water(self, size: int) -> None:
        self.stream.set_low_water(size)


class BelowTls(trio.abc.Stream):
    """The stream below TLS, whose failed write fails only after the reader has read what the peer sent before.

    After a failed write a `trio.SSLStream` gives nothing more to a reader. A server that closes has often said why: by
    a GOAWAY, or by a TLS alert.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.has_reader = False
        """Whether another task reads while one writes; not so in a handshake, whose failed write fails at once."""
        self._write_error: trio.BrokenResourceError | None = None
        self._at_end = trio.Event()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        try:
            await self.stream.send_all(data)
        except trio.BrokenResourceError as error:
            self._write_error = error
            if self.has_reader:
                # The limit is for a stream whose reader does not learn that it is broken.
                with trio.move_on_after(MAX_LAST_READ_TIME):
                    await self._at_end.wait()
            raise

    async def wait_send_all_might_not_block(self) -> None:
        await self.stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        try:
            data = await self.stream.receive_some(max_bytes)
        except trio.BrokenResourceError:
            self._at_end.set()
            raise
        if not data:
            self._at_end.set()
            # The socket told its error to the write, and tells each error once.
            if self._write_error is not None:
                raise self._write_error
        return data

    async def aclose(self) -> None:
        self._at_end.set()
        await self.stream.aclose()


def socket_below(stream: trio.abc.Stream) -> trio.SocketStream | None:
    """Return the socket of a stream, also below TLS; None if it has none."""
    while isinstance(stream, trio.SSLStream | BelowTls):
        stream = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream.stream
    return stream if isinstance(stream, trio.SocketStream) else None


def transport_of(stream: trio.abc.Stream) -> Transport:
    """Return the fastest transport for this stream."""
    if isinstance(stream, DirectStream):
        return DirectTransport(stream)
    # On Windows a socket is no file descriptor that `os.read` takes.
    if isinstance(stream, trio.SocketStream) and os.name == "posix":
        return SocketTransport(stream)
    return Transport(stream)
