"""A `CallScope` limits how long a call may wait, and names what it waits for."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import trio

from trxds.core.status import RpcError, Status, StatusCode

from .lifecycle import CancelledCall, Lifecycle

T = TypeVar("T")


class CallScope:
    """A `CallScope` ends the waits of one call at its deadline, in seconds on Trio's clock, or at its channel's end.

    `str(waiting_for)` is named in the message of DEADLINE_EXCEEDED. `error` makes the caller's exception of a status.
    `failed_with` is the status of which the caller has been told.
    """

    __slots__ = ("_lifecycle", "_scopes", "deadline", "error", "failed_with", "path", "started", "waiting_for")

    def __init__(
        self,
        lifecycle: Lifecycle,
        path: str,
        started: float,
        timeout: float | None,
        waiting_for: object,
        error: Callable[[Status], RpcError] = RpcError,
    ) -> None:
        """`timeout` is seconds from `started` on, or None for no deadline."""
        if lifecycle.closed:
            raise lifecycle.not_open_error()
        self.started = started
        self.deadline = math.inf
        self.waiting_for = waiting_for
        self.error = error
        self.failed_with: Status | None = None
        self._lifecycle = lifecycle
        self.path = path
        self._scopes: list[trio.CancelScope] | None = None  # a call has one or two at a time; most never have one
        if timeout is not None:
            # A caller without a type checker may pass a string, and NaN would be a deadline that never comes.
            if not isinstance(timeout, int | float) or timeout != timeout:  # type: ignore[redundant-expr]
                raise TypeError(f"timeout is a number of seconds or None, not {timeout!r}")
            self.deadline = started + timeout
            if timeout <= 0:
                self.waiting_for = "nothing: its time was over when it began"

    def shorten(self, limit: float) -> None:
        """Apply the route's limit in seconds from the call's start; it never extends the caller's deadline (A31)."""
        self.deadline = min(self.deadline, self.started + limit)

    async def wait_on_stream(self, step: Callable[[], Awaitable[T]]) -> T:
        """Run one step that waits for the stream, which is cancelled with its session or channel."""
        if self.deadline < math.inf:
            result = await self.run_with_deadline(step)
        else:
            # Without a deadline no cancel scope is made: it would cost as much as the call's routing.
            # In a fork the step would never end, because none of the channel's tasks run there.
            if self._lifecycle.closed:
                raise self._lifecycle.closed_error()
            result = await step()
        # The end of the channel ends the stream, and so the step; the caller gets the channel's error instead.
        if self._lifecycle.closed:
            raise self._lifecycle.closed_error()
        return result

    async def run_with_deadline(self, step: Callable[[], Awaitable[T]]) -> T:
        """Run one step that may wait for anything, until it is done, the deadline passes or the channel closes."""
        if self._lifecycle.closed:
            raise self._lifecycle.closed_error()
        with trio.CancelScope(deadline=self.deadline) as scope:
            if self._scopes is None:
                self._scopes = []
            self._scopes.append(scope)
            try:
                return await step()
            finally:
                self._scopes.remove(scope)
        # The deadline has ended the step, or `cancel` at the end of the session, the channel or the call.
        if self._lifecycle.closed:
            raise self._lifecycle.closed_error()
        raise self.deadline_error()

    def deadline_error(self) -> RpcError:
        """Return the exception of a call whose deadline has passed."""
        if self.failed_with is None:
            # The message has the time allowed and not the time taken, so that equal failures have equal messages.
            after = max(self.deadline - self.started, 0.0)
            message = f"{self.path}: not done after {after:.3g} s, waiting for {self.waiting_for}"
            self.failed_with = Status(StatusCode.DEADLINE_EXCEEDED, message)
        return self.error(self.failed_with)

    @property
    def ended_with(self) -> Status | None:
        """Return the status with which all further steps end: `failed_with`, or that of the closed channel."""
        if self.failed_with is None and self._lifecycle.closed:
            error = self._lifecycle.closed_error()
            return error.status if isinstance(error, RpcError) else None
        return self.failed_with

    def check_open(self) -> None:
        """Raise what an open call raises, if its session or channel has ended."""
        if self._lifecycle.closed:
            raise self._lifecycle.closed_error()

    def end_call(self, status: Status) -> None:
        """End the steps that wait with `status`, because the caller has cancelled the call; so do all later ones."""
        # A copy of the error's parts: `self.error` refers to the call, and that would be a cycle.
        self._lifecycle = CancelledCall(partial(RpcError, *self.error(status).args))
        self.cancel("the caller has cancelled the call")

    def cancel(self, reason: str) -> None:
        """End the steps that wait, because the call's session or channel has ended."""
        for scope in self._scopes or ():
            scope.cancel(reason=reason)
