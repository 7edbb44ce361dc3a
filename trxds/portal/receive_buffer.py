"""This file receives the messages of a stream for another thread: those that have arrived go to it together.

Else every message would cost two changes of threads. None is read ahead of its arrival.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Generic, TypeAlias, TypeVar

import trxds
from trxds.client.call import receive_arrived

Res = TypeVar("Res")
Batch: TypeAlias = tuple[list[Res], Exception | None]  # messages, and the failure that follows them

MAX_MESSAGES = 64  # in a batch, as many as `Call.receive` takes without a full checkpoint


async def receive_batch(call: trxds.CallProtocol[Any, Res]) -> Batch[Res] | None:
    """Wait for a message, and return it with those that have arrived too; None when the server ended with OK."""
    message = await call.receive()
    if message is None:
        return None
    messages = [message]
    try:
        for message in receive_arrived(call, MAX_MESSAGES - 1):
            messages.append(message)  # not `extend`: those before a failure stay
    except Exception as failure:
        return messages, failure
    return messages, None


class ReceiveBuffer(Generic[Res]):
    """The messages of one call that the other thread has, before it takes them one by one."""

    def __init__(self) -> None:
        self._messages: deque[Res] = deque()
        self._failure: Exception | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether another batch is needed before the next `take`."""
        return not self._messages and self._failure is None

    def put(self, batch: Batch[Res]) -> None:
        """Add a batch that was received."""
        messages, self._failure = batch
        self._messages.extend(messages)

    def take(self) -> Res:
        """Return the next message, or raise the failure that follows the last."""
        if self._messages:
            return self._messages.popleft()
        assert self._failure is not None
        failure, self._failure = self._failure, None
        raise failure

    def discard(self) -> None:
        """Forget the messages, because the call is cancelled."""
        self._messages.clear()
        self._failure = None
