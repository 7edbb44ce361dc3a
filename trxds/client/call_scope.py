"""A `CallScope` limits how long a call may wait, names what it waits for, and has the status with which it ends."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from trxds.core.status import CANCELLED, RpcError, Status, StatusCode
from trxds.transport.client_stream import ClientStream

from .lifecycle import Lifecycle

T = TypeVar("T")

# Seconds. The server counts the same deadline, and may report it just before it passes here.
_GRACE = 0.1


class CallScope:
    """A `CallScope` ends the waits of one call at its deadline, in seconds on Trio's clock, or at its channel's end.

    `status` is the call's, in its only place: None until its end is known. Then it stays, unless it is an OK whose
    message cannot be read. `str(waiting_for)` is named in the message of DEADLINE_EXCEEDED. `error` makes the caller's
    exception of a status.
    """

    __slots__ = ("_lifecycle", "_scopes", "deadline", "error", "path", "started", "status", "waiting_for")

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
        self.status: Status | None = None
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
                raise self.closed_error()
            result = await step()
        # The end of the channel ends the stream, and so the step; the caller gets the channel's error instead.
        if self._lifecycle.closed:
            raise self.closed_error()
        return result

    async def run_with_deadline(self, step: Callable[[], Awaitable[T]]) -> T:
        """Run one step that may wait for anything, until it is done, the deadline passes or the channel closes."""
        if self._lifecycle.closed:
            raise self.closed_error()
        with trio.CancelScope(deadline=self.deadline) as scope:
            if self._scopes is None:
                self._scopes = []
            self._scopes.append(scope)
            try:
                return await step()
            finally:
                self._scopes.remove(scope)
        # The deadline has ended the step, or `cancel` at the end of the session, the channel or the call.
        self.check_open()
        raise self.deadline_error()

    # -- its end

    def end(self, status: Status) -> RpcError:
        """End the call with `status`, unless it has one; return the exception of its status."""
        if self.status is None:
            self.status = status
        # A task may fail just after another one has taken OK: its exception has the reason.
        return self.error(status if self.status.ok else self.status)

    async def failure(self, status: Status) -> RpcError:
        """End the call with `status`, unless it has one; return the exception of its status, after a checkpoint."""
        error = self.end(status)
        # Behind that, as another task may end the call meanwhile. A caller that retries at once must starve nobody.
        await trio.lowlevel.checkpoint()
        deadline = trio.current_effective_deadline()
        grace_end = min(self.deadline, trio.current_time() + _GRACE)
        if error.status.code is StatusCode.DEADLINE_EXCEEDED and deadline < grace_end:
            # The caller's own cancel scope is about to end the call, and its code expects `Cancelled`.
            await trio.sleep_until(deadline + _GRACE)
        return error

    def leave(self, stream: ClientStream | None) -> Status:
        """End a call that its caller leaves without a status: with that of its stream, or cancelled."""
        self.status = status_when_left(stream)
        return self.status

    def deadline_error(self) -> RpcError:
        """End the call with DEADLINE_EXCEEDED, unless it has a status; return the exception of its status."""
        # The message has the time allowed and not the time taken, so that equal failures have equal messages.
        after = max(self.deadline - self.started, 0.0)
        message = f"{self.path}: not done after {after:.3g} s, waiting for {self.waiting_for}"
        return self.end(Status(StatusCode.DEADLINE_EXCEEDED, message))

    def closed_error(self) -> Exception:
        """End the call because its session or channel has, unless it has a status; return the exception."""
        error = self._lifecycle.closed_error()
        return self.end(error.status) if isinstance(error, RpcError) else error

    def check_open(self) -> None:
        """Raise what an open call raises, if its session or channel has ended."""
        if self._lifecycle.closed:
            raise self.closed_error()

    def cancel(self, reason: str) -> None:
        """End the steps that wait, because the call, its session or its channel has ended."""
        for scope in self._scopes or ():
            scope.cancel(reason=reason)


def status_when_left(stream: ClientStream | None) -> Status:
    """Return the status of a call, or an attempt, that was left with this stream, which has ended by now."""
    if stream is None or stream.status is None:
        return CANCELLED
    # The caller's own cancel scope ends the call by `Cancelled`, which has no status.
    if stream.status is CANCELLED and stream.request.deadline <= trio.current_time():
        return Status(StatusCode.DEADLINE_EXCEEDED, "the caller's own time was over")
    return stream.status
