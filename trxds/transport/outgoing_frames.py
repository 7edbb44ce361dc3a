"""Frames wait in one buffer until they are written together."""

from __future__ import annotations

from typing import TypeAlias

Octets: TypeAlias = bytes | memoryview


class OutgoingFrames:
    """An engine's output buffer."""

    def __init__(self) -> None:
        self._pieces: list[Octets] = []
        self.unsent = 0
        """The bytes that wait to be taken."""
        self.control_unsent = 0
        """Those of them in frames that a peer can provoke, which are neither headers nor data."""
        self.frames_sent = 0
        """The HEADERS and DATA frames so far: an honest peer's overhead answers them."""

    def add(self, frame: Octets) -> None:
        """Append headers, data or both."""
        self._pieces.append(frame)
        self.unsent += len(frame)
        self.frames_sent += 1

    def add_data(self, head: bytes, payload: Octets) -> None:
        """Append a DATA frame whose payload is not copied."""
        self._pieces += (head, payload)
        self.unsent += len(head) + len(payload)
        self.frames_sent += 1

    def add_control(self, frame: bytes) -> None:
        """Append a frame that a peer may have provoked: an acknowledgement, a window, a reset."""
        self._pieces.append(frame)
        self.unsent += len(frame)
        self.control_unsent += len(frame)

    @property
    def has_only_control(self) -> bool:
        """Whether frames wait, and none of them is headers or data."""
        return 0 < self.unsent == self.control_unsent

    def take(self) -> bytes:
        """Return all frames that wait, and keep none of them."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        self.unsent = self.control_unsent = 0
        return data
