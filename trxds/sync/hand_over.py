"""This file lets a thread wait for a function in Trio's thread, or stay in an `async with` block there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from contextvars import copy_context
from functools import partial
from types import TracebackType
from typing import Generic, TypeVar, cast

from trxds.portal import hand_over
from trxds.portal.hand_over import HeldBlock

T = TypeVar("T")


class HandOver(hand_over.HandOver):
    """A `HandOver` runs functions of other threads in Trio, while those threads wait."""

    def wait(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run `function` in Trio and return its result; an exception that ends the wait cancels the function."""
        future: Future[T] = Future()
        try:
            self.start(future, function)
            return future.result()
        except BaseException:
            future.cancel()
            raise
        finally:
            del future  # it has the exception, and that has this frame: without `del` they would be a cycle

    def start(self, future: Future[T], function: Callable[[], Awaitable[T]]) -> None:
        """Run `function` in Trio, in this thread's context; `future` gets the outcome, and cancelling it cancels."""
        self.check_can_wait()
        self.call_soon(copy_context().run, self.begin, future, function)


class ContextBridge(AbstractContextManager[T], Generic[T]):
    """A `ContextBridge` enters an `async with` block for another thread. One task enters and leaves it: Trio's rule."""

    def __init__(self, hand_over: HandOver, block: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._hand_over = hand_over
        self._ended: Future[None] = Future()
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
        if self._hand_over.is_unreachable:
            return False
        self._hand_over.check_can_wait()
        self._held.throw(error)
        self._hand_over.run_sync_soon(self._held.leave)
        self._ended.result()
        return self._held.swallows(error, traceback)
