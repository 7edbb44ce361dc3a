"""What an uncommitted call has said, so that another attempt can say it again (A6)."""

from __future__ import annotations

from trxds.transport.client_stream import ClientStream

# A6 leaves the size to the client; with more than this, the attempt that has it all is the call.
REPLAY_BYTES = 256 * 1024


class ReplayBuffer:
    """The messages of a call whose requests stream. `ended`: there are no more from this side."""

    __slots__ = ("_messages", "_remaining", "dropped", "ended")

    def __init__(self) -> None:
        self._messages: list[bytes] = []
        self._remaining = REPLAY_BYTES
        self.ended = False
        self.dropped = False

    def add(self, message: bytes) -> None:
        """Keep a message, however large; see `full`. Once dropped, nothing is kept."""
        if not self.dropped:
            self._remaining -= len(message)
            self._messages.append(message)

    @property
    def full(self) -> bool:
        """Whether there is more than may be kept: it is time to commit the call to one attempt."""
        return self._remaining < 0

    @property
    def has_several(self) -> bool:
        """Whether there is more than one message."""
        return len(self._messages) > 1

    def drop(self) -> None:
        """The call is committed: nothing of it will be said again."""
        self.dropped = True
        self._messages.clear()

    def replay_on(self, stream: ClientStream) -> None:
        """Say all of it on the stream of an attempt that has just opened."""
        # Not waited for: it is bounded, and the task that opened the stream may be the one that reads.
        stream.send_many(self._messages)
        if self.ended:
            stream.end()

    def __repr__(self) -> str:
        return f"<ReplayBuffer {len(self._messages)} messages{', dropped' if self.dropped else ''}>"
