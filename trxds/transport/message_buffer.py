"""The place of one message or frame that arrives in parts, and is taken as `bytes` without another copy.

Parts that are kept and joined at the end take the message's size twice. That is more than the allocator keeps, so it
gives the memory back to the system after each message, and faults in every page of the next one: at 1 MiB this costs
more than all that is copied. Here the place has the message's size, and `BytesIO` hands it over as it is.

The peer only says how large a message is. So the place is made when a good part of the message has come.
"""

from __future__ import annotations

from io import BytesIO

from msgspec import Struct, field

from .events import Octets

_GROWTH = 8  # the place takes at most this many times what has come


class MessageBuffer(Struct, eq=False):
    """Collects the parts of a message, or of a frame's payload, of `size` bytes."""

    _size: int
    _received: int = 0
    _has_place: bool = False  # whether the buffer has the message's size
    _buffer: BytesIO = field(default_factory=BytesIO)

    def add(self, part: Octets) -> None:
        """Copy the next part to its place."""
        self._received += len(part)
        if not self._has_place and self._received * _GROWTH >= self._size:
            self._make_place()
        self._buffer.write(part)

    def take(self) -> bytes:
        """Return the message, of which all parts have come."""
        return self._buffer.getvalue()  # no copy, because the buffer is exactly as large

    def _make_place(self) -> None:
        begun = self._buffer.getvalue()
        self._buffer = BytesIO(bytes(self._size))  # it owns these bytes, and writes over them
        self._buffer.write(begun)
        self._has_place = True
