"""This file receives the messages of a stream for another thread, which it need not ask for each.

The other thread *asks* when it has no message: Trio's thread calls `Call.receive`, and hands over what that returns or
raises. Then it goes on, and hands over each message as it arrives, until the buffer is full, the stream or the call's
time ends, or there is nothing to go on with. The other thread takes what there is, and asks again.

So the end of a call, which is its status, an error or None, is taken only when the other thread asks for it, and what
the other thread can see of the call is what it would see in Trio.

The buffer bounds what a thread that takes nothing holds: messages are left to the stream's own flow control when it is
full.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

import trio

import trxds
from trxds.client.call import Call, CallSteps

from .result import Result

Res = TypeVar("Res")

MAX_MESSAGES = 64
"""The most messages in a buffer, as many as `Call.receive` takes without a full checkpoint."""

MAX_BYTES = 64 * 1024
"""The bytes of messages, as the wire has them, from which on a buffer is full. One message more may pass them."""


class ReceiveBuffer(Generic[Res]):
    """The messages of one call that have been handed over. It is the `Outcome` of each ask, too.

    One thread takes them out, and Trio's thread puts them in. They need no lock: each step of a deque is atomic, and a
    number or a flag is set by one of the threads alone, or in an order that makes it right.
    """

    def __init__(self, call: trxds.CallProtocol[Any, Res]) -> None:
        self._call = call
        # An interceptor's object may do anything when it is called, so it is called only when it is asked.
        self._steps = CallSteps(call) if isinstance(call, Call) else None
        self._messages: deque[Res] = deque()
        self._bytes = 0  # of the messages that Trio's thread has put in since it found the deque empty
        self._end: deque[BaseException | None] = deque(maxlen=1)  # what `Call.receive` raised or, if None, returned
        self._is_asked = False  # whether Trio's thread is to hand over more
        self._is_cancelled = False
        self._waiters: deque[Result[None]] = deque()  # at most one, which either thread takes out, and never both

    # -- in the other thread

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to take."""
        return not self._end and (self._is_cancelled or not self._messages)

    def take(self) -> Res | None:
        """Return the next message, or None at the call's end, or raise the call's error. Only if it is not empty."""
        # If another thread has cancelled the call since the look, the message was taken first.
        if self._messages and not (self._is_cancelled and self._end):
            return self._messages.popleft()
        failure = self._end.pop()
        if isinstance(failure, trxds.RpcError) and self._steps is not None:
            failure = self._steps.take_error(failure)
        try:
            if failure is not None:
                raise failure
        finally:
            del failure  # its traceback has this frame: without `del` they would be a cycle
        return None

    def ask(self, start: Callable[[ReceiveBuffer[Res], Callable[[], Awaitable[None]]], object]) -> None:
        """Have `start` run `receive` in Trio's thread, unless that is still to hand over more."""
        if self._is_asked:
            return
        self._is_asked = True
        try:
            start(self, self.receive)
        except BaseException:
            self._is_asked = False
            raise

    def must_wait(self, waiter: Result[None]) -> bool:
        """Return whether to wait for `waiter`, which is set at the next message or when the ask has ended."""
        if self._waiters:
            raise trio.BusyResourceError("another thread or task is receiving from the same call")
        self._waiters.append(waiter)
        # Only then the look: Trio's thread puts something in first, and looks for the waiter then.
        if self._is_asked and self.is_empty:
            return True
        self._waiters.clear()  # it may be set all the same, which does no harm, as each wait has its own
        return False

    def stop_waiting(self, waiter: Result[None]) -> None:
        """Note that `waiter` does not wait any more, if it has begun to. What is handed over stays."""
        with suppress(ValueError):
            self._waiters.remove(waiter)

    def cancel(self) -> None:
        """Let nothing more be taken but the end, because the call is cancelled. From any thread."""
        # Nothing is taken out here: the thread that receives may be between its look and `take`.
        self._is_cancelled = True

    # -- in Trio's thread

    async def receive(self) -> None:
        """Hand over the call's next message or its end, and then messages as they arrive."""
        message = await self._call.receive()
        if message is None:
            self._end.append(None)
            return
        self._messages.append(message)
        self._wake()
        if self._steps is not None:
            with trio.move_on_at(self._steps.deadline):
                await self._go_on(self._steps, self._messages)

    async def _go_on(self, steps: CallSteps[Any, Res], messages: deque[Res]) -> None:
        while await steps.wait_arrived():
            if not messages:
                self._bytes = 0
            for message, size in steps.receive_arrived():
                messages.append(message)
                self._bytes += size
                if self._waiters:
                    self._wake()
                if len(messages) >= MAX_MESSAGES or self._bytes >= MAX_BYTES:
                    return

    def _wake(self) -> None:
        with suppress(IndexError):  # nobody waits
            self._waiters.pop().set_result(None)

    # -- in Trio's thread, as `Outcome` has it: the end of an ask

    def cancelled(self) -> bool:
        """Return False: whoever stops waiting may ask for the same message again."""
        return False

    def add_done_callback(self, fn: Callable[[Any], object], /) -> None:
        """Do nothing, because no ask is cancelled."""

    def set_running_or_notify_cancel(self) -> bool:
        """Return whether the outcome is wanted."""
        return True

    def set_result(self, result: Any, /) -> None:
        """Note that the ask has ended."""
        self._is_asked = False
        self._wake()

    def fail(self, error: BaseException) -> None:
        """Note that the ask could not begin."""
        self.set_exception(error)

    def set_exception(self, exception: BaseException | None, /) -> None:
        """Note that the ask has ended with an error, which follows the messages."""
        self._end.append(exception)
        self._is_asked = False
        self._wake()
