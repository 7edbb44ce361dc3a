"""This file lets a thread wait for a function in Trio's thread, or stay in an `async with` block there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from contextvars import copy_context
from functools import partial
from threading import Lock
from types import TracebackType
from typing import Any, Generic, TypeVar, cast

from trxds.portal import hand_over
from trxds.portal.hand_over import HeldBlock, Outcome
from trxds.portal.receive_buffer import ReceiveBuffer
from trxds.portal.result import Result

T = TypeVar("T")


class HandOver(hand_over.HandOver):
    """A `HandOver` runs functions of other threads in Trio, while those threads wait."""

    def wait(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run `function` in Trio and return its result; an exception that ends the wait cancels the function."""
        result: ThreadResult[T] = ThreadResult(self)
        try:
            self.start(result, function)
            return result.wait()
        except BaseException:
            result.cancel()
            raise
        finally:
            del result  # it has the exception, and that has this frame: without `del` they would be a cycle

    def wait_while_open(self, function: Callable[[], Awaitable[T]]) -> T | None:
        """Run `function` as `wait` does; return None once the channel is closed, also if it closes meanwhile."""
        try:
            return self.wait(function)
        except Exception:
            if not self.closed:
                raise
            return None

    def start(self, outcome: Outcome, function: Callable[[], Awaitable[Any]]) -> None:
        """Run `function` in Trio, in this thread's context; cancelling its outcome, a future, cancels it."""
        self.check_can_wait()
        self.call_soon(copy_context().run, self.begin, outcome, function)

    def wait_for(self, received: ReceiveBuffer[Any]) -> None:
        """Wait until there is something in the buffer, or Trio's thread hands over no more."""
        self.check_can_wait()
        result: ThreadResult[None] = ThreadResult(self)
        try:
            if received.must_wait(result):
                result.wait()
        except BaseException:  # Ctrl-C may come at any step of the two
            received.stop_waiting(result)
            raise

    def start_task(self, function: Callable[[], Awaitable[None]]) -> None:
        """Start a task for a function that raises nothing but `trio.Cancelled`, in this thread's context."""
        self.call_soon(copy_context().run, self.begin_task, function)


class ThreadResult(Result[T]):
    """The result of a function in Trio, for one thread that waits for it."""

    __slots__ = ("_is_there", "_trio")

    def __init__(self, trio: hand_over.HandOver) -> None:
        super().__init__()
        self._trio = trio
        self._is_there = Lock()
        self._is_there.acquire()

    def wait(self) -> T:
        """Wait for the result, and return it or raise it. Once."""
        self._is_there.acquire()
        return self.take()

    def post(self) -> None:
        """Wake the thread, when Trio's own is about to wait."""
        self._trio.call_before_io_wait(self._is_there.release)


class Steps(Iterator[T], Generic[T]):
    """An iterator whose steps are taken in Trio, by any thread. With `watch` it ends with its channel.

    It is no generator, which Ctrl-C in a step would end, and which threads could not share.
    """

    def __init__(self, hand_over: HandOver, iterator: AsyncIterator[T], *, watch: bool = True) -> None:
        self._wait = hand_over.wait_while_open if watch else hand_over.wait
        self._iterator = iterator

    def __next__(self) -> T:
        value = self._wait(self._step)
        if value is None:
            raise StopIteration
        return value

    async def _step(self) -> T | None:
        return await anext(self._iterator, None)


class ContextBridge(AbstractContextManager[T], Generic[T]):
    """A `ContextBridge` enters an `async with` block for another thread. One task enters and leaves it: Trio's rule."""

    def __init__(self, hand_over: HandOver, block: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._hand_over = hand_over
        # No `Future`: Ctrl-C in its `result` may leave its lock taken, and Trio's thread would wait for that for ever.
        self._ended: ThreadResult[None] = ThreadResult(hand_over)
        self._held = HeldBlock(block, self._ended)

    def __enter__(self) -> T:
        try:
            return cast(T, self._hand_over.wait(partial(self._hand_over.nursery.start, self._held.hold)))
        except BaseException:
            # The block may have been entered, and this thread will not leave it.
            self._hand_over.run_sync_soon(self._held.leave)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        try:
            if self._hand_over.thread.is_unreachable:
                return False
            self._held.throw(error)
            self._hand_over.run_sync_soon(self._held.leave)
            if self._hand_over.thread.is_current:
                return False  # the garbage collector leaves an abandoned block there, which cannot wait for itself
            self._ended.wait()
        except BaseException:  # Ctrl-C may come at any step, also before the block is told that it is left
            self._hand_over.run_sync_soon(self._held.leave)
            raise
        return self._held.swallows(error, traceback)
