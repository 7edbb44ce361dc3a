"""A `Result` is what `HandOver` needs of a future, without the locks that make half the cost of Python's own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


class Result(ABC, Generic[T]):
    """The result of a function in Trio, for one waiter outside of it. How the waiter is woken is its subclass's."""

    __slots__ = ("_error", "_is_cancelled", "_on_cancel", "_value")

    def __init__(self) -> None:
        self._is_cancelled = False
        self._on_cancel: Callable[[Any], object] | None = None
        self._value: T | None = None
        self._error: BaseException | None = None

    # -- in the waiter's thread

    def take(self) -> T:
        """Return the result that has come, or raise it."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # its traceback has this frame: without this they would be a cycle
        return cast(T, self._value)

    def cancel(self) -> None:
        """Cancel the function in Trio, if it has not ended."""
        # First the flag, then the look for the callback; `HandOver._run` sets the callback before it reads the flag.
        # So without a lock one of the two threads sees the other, and no cancellation is lost.
        self._is_cancelled = True
        if self._on_cancel is not None:
            self._on_cancel(self)

    # -- in Trio's thread, as `Outcome` has it

    @abstractmethod
    def post(self) -> None:
        """Let the waiter know that the result is there."""

    def cancelled(self) -> bool:
        """Return whether nobody wants the result any more."""
        return self._is_cancelled

    def add_done_callback(self, fn: Callable[[Any], object], /) -> None:
        """Have `cancel` call `fn`."""
        self._on_cancel = fn

    def set_running_or_notify_cancel(self) -> bool:
        """Return whether the result is wanted."""
        return not self._is_cancelled

    def set_result(self, result: T, /) -> None:
        """Hand the result over."""
        self._value = result
        self.post()

    def set_exception(self, exception: BaseException | None, /) -> None:
        """Hand the exception over."""
        self._error = exception
        self.post()
