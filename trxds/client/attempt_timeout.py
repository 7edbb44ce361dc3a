"""An attempt without a response is given up after a time of its own, and the call makes another one.

`perAttemptRecvTimeout` of a service config and `per_try_timeout` of a route set the time.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from trxds.core.status import Status, StatusCode
from trxds.transport.client_stream import ClientStream
from trxds.transport.events import ErrorCode

from .call_scope import CallScope

T = TypeVar("T")


class AttemptTimeout:
    """The `AttemptTimeout` of one attempt; `has_passed` says that it has ended the attempt's stream."""

    __slots__ = ("_ends_at", "_seconds", "has_passed")

    def __init__(self, seconds: float) -> None:
        self.has_passed = False
        self._seconds = seconds
        self._ends_at = math.inf

    def start(self) -> None:
        """Begin to count, because the attempt has a stream: the wait for a host is the call's."""
        self._ends_at = trio.current_time() + self._seconds

    async def wait(
        self, step: Callable[[], Awaitable[T]], scope: CallScope, stream: ClientStream, is_open: Callable[[], bool]
    ) -> T:
        """Wait for a response of the stream by `step`, which can be repeated; end the stream when the time is over.

        While `is_open()` is False another attempt is not possible, and the time does not count.
        """
        if self._ends_at < math.inf and is_open():
            with trio.move_on_at(self._ends_at):
                return await scope.wait_on_stream(step)
            # It passes once: a call that is committed by now stays so, and its later waits need no cancel scope.
            self._ends_at = math.inf
            # A status that has come is the attempt's outcome, however late the caller looks at it.
            if stream.status is None and is_open():
                self.has_passed = True
                text = f"{scope.path}: {stream.peer} sent no response within {self._seconds:g} s, the attempt's timeout"
                stream.fail(Status(StatusCode.DEADLINE_EXCEEDED, text), reset=ErrorCode.CANCEL)
        return await scope.wait_on_stream(step)
