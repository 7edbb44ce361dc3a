"""This file sends the messages of a stream for another thread: those that are due together go to Trio together.

Otherwise each message would cost two changes of threads. A message *goes ahead*, and the other thread goes on at once,
if its `send` could neither fail nor wait by what Trio's thread knows: the call is open, and windows and buffer have
taken the earlier messages. Any other message waits for Trio's thread, behind those that went ahead. So return values,
errors and back-pressure come where they come in Trio.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import trio

import trxds
from trxds.client.call import Call, CallSteps

_log = logging.getLogger("trxds.portal")

Req = TypeVar("Req")

MAX_MESSAGES = 64
"""The most messages of a call that may be ahead of Trio's thread."""

MAX_BYTES = 64 * 1024
"""The most bytes of them; as many as a connection holds for the socket (`WireOptions.unsent_bound`)."""


class SendBuffer(Generic[Req]):
    """The messages of one call, and their end, that Trio's thread has not taken yet.

    One thread puts them in, and Trio's thread takes them out. They need no lock: each step of a deque is atomic.
    """

    def __init__(self, call: Call[Req, Any]) -> None:
        self._call = CallSteps(call)
        self._ahead: deque[bytes | None] = deque()  # None is the end
        self._bytes = 0  # that were put in since the deque was empty
        self._is_ended = False
        self._is_called = False  # whether a `send_ahead` is still to begin, which finds what is put in now
        self._is_sending = False  # whether a `send_ahead` runs
        self._waiting = trio.lowlevel.ParkingLot()

    # -- in the other thread

    def serialize(self, request: Req) -> bytes:
        """Return the message as bytes."""
        return self._call.serialize(request)

    def put(self, serialized: bytes, *, compress: bool) -> bool:
        """Put in a message, and return True, if it may go ahead."""
        if not self._ahead:
            self._bytes = 0
        size = self._bytes + len(serialized)
        if self._is_ended or len(self._ahead) >= MAX_MESSAGES or size > MAX_BYTES or not self._call.can_send_now:
            return False
        payload = self._call.payload(serialized, compress=compress)
        if payload is None:
            return False
        self._bytes = size
        self._ahead.append(payload)
        return True

    def end(self) -> None:
        """Put in the end of the messages, behind all of them."""
        self._is_ended = True
        self._ahead.append(None)

    def call(self, start: Callable[[Callable[[], Awaitable[None]]], object]) -> None:
        """Have `start` run `send_ahead` in Trio's thread, unless one is to come that finds what was put in."""
        # Trio's thread clears the flag first and takes messages out then, so one that finds it set is taken out.
        if self._is_called:
            return
        self._is_called = True
        try:
            start(self.send_ahead)
        except BaseException:
            self._is_called = False
            raise

    @property
    def is_empty(self) -> bool:
        """Return whether Trio's thread, windows and buffer have taken everything."""
        return not self._ahead and not self._is_sending

    # -- in Trio's thread

    async def send_ahead(self) -> None:
        """Send what was put in. It raises nothing but `trio.Cancelled`: the next `send` or `receive` has the error."""
        self._is_called = False
        if self._is_sending:
            return  # the task that sends finds it
        self._is_sending = True
        try:
            while self._ahead:
                await self._send_together()
        except Exception as error:
            # The call has failed or is over, and takes nothing any more.
            if not isinstance(error, trxds.RpcError | trio.ClosedResourceError | trxds.TrxdsInternalError):
                _log.exception("a bug: sending the messages of another thread raised, and they are lost")
            self._ahead.clear()
            if self._is_ended:
                self._call.done_sending()
        finally:
            self._is_sending = False
            self._waiting.unpark_all()

    async def _send_together(self) -> None:
        payloads: list[bytes] = []
        # As many as there are now: the other thread may add to them for as long as this loop runs.
        for _ in range(len(self._ahead)):
            payload = self._ahead.popleft()
            if payload is None:
                break
            payloads.append(payload)
        if payloads:
            await self._call.send_ahead(payloads)
        if payload is None:
            self._call.done_sending()
        if self._ahead:
            await trio.lowlevel.checkpoint()  # else a thread that sends all the time would stop all other tasks

    async def send(self, serialized: bytes, *, compress: bool) -> bool:
        """Send a message behind those that went ahead; see `Call.send`."""
        await self.wait_taken()
        return await self._call.send(serialized, compress=compress)

    async def wait_taken(self) -> None:
        """Wait until windows and buffer have taken everything; a checkpoint only if it waits."""
        while not self.is_empty:
            if self._is_called or self._is_sending:
                await self._waiting.park()
            else:
                await self.send_ahead()  # Ctrl-C in the other thread came between `put` and `call`


def send_buffer(call: trxds.CallProtocol[Req, Any]) -> SendBuffer[Req] | None:
    """Return the buffer of a call; None for an object that an interceptor put in a call's place.

    Such an object has to get each message as the caller sent it, and at that time.
    """
    return SendBuffer(call) if isinstance(call, Call) else None
