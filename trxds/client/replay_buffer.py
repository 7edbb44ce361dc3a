"""A `ReplayBuffer` keeps the messages of an uncommitted call, so that another attempt can send them again (A6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from trxds.transport.client_stream import ClientStream

# A6 leaves the size, in bytes, to the client; a call that has sent more is committed to its attempt.
# It is grpc-go's default (`maxRetryRPCBufferSize`).
REPLAY_BYTES = 256 * 1024


class RequestCopy(Protocol):
    """A copy of a streaming call's request (`mirror.py`). All of it is synchronous."""

    def send(self, message: bytes) -> None:
        """Copy one more message."""

    def end(self) -> None:
        """The call sends nothing more."""

    def leave(self) -> None:
        """The call is over."""


class ReplayBuffer:
    """The messages that a streaming call has sent. `ended`: the client has half-closed the call.

    `mirrors` are the call's copies, which get each message once, whatever is replayed.
    """

    __slots__ = ("_messages", "_remaining", "dropped", "ended", "mirrors")

    def __init__(self) -> None:
        self._messages: list[bytes] = []
        self._remaining = REPLAY_BYTES
        self.ended = False
        self.dropped = False
        self.mirrors: tuple[RequestCopy, ...] = ()

    def keep(self, message: bytes) -> None:
        """Keep a message for a replay, and give it to the call's copies."""
        for mirror in self.mirrors:
            mirror.send(message)
        if not self.dropped:
            self.add(message)
            # A6: a call is committed when its buffer is full. A first message alone is kept, however large: it is in
            # memory anyway.
            if self.is_full and len(self._messages) > 1:
                self.drop()

    def add(self, message: bytes) -> None:
        """Keep a message, however large; see `is_full`. After `drop` nothing is kept."""
        if not self.dropped:
            self._remaining -= len(message)
            self._messages.append(message)

    @property
    def is_full(self) -> bool:
        """Return whether the buffer is over its size, so that the call must be committed to one attempt (A6)."""
        return self._remaining < 0

    def overflows(self, messages: Sequence[bytes]) -> bool:
        """Return whether these messages do not fit. A first message alone always fits, and after `drop` all do."""
        are_several = bool(self._messages) or len(messages) > 1
        return not self.dropped and are_several and sum(map(len, messages)) > self._remaining

    def drop(self) -> None:
        """Drop the messages, because the call is committed and nothing will be replayed."""
        self.dropped = True
        self._messages.clear()

    def replay_on(self, stream: ClientStream) -> None:
        """Send all messages on the stream of an attempt that has just opened."""
        # This does not wait: the buffer is bounded, and the task that opened the stream may be the one that reads.
        stream.send_many(self._messages)
        if self.ended:
            stream.end()

    def __repr__(self) -> str:
        return f"<ReplayBuffer {len(self._messages)} messages{', dropped' if self.dropped else ''}>"
