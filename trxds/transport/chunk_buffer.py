"""A buffer for a frame, or a message of many frames, that arrives in chunks and is needed as one piece.

The chunks are kept as they came and joined once, so each byte is copied once however many chunks there are. Only small
chunks are merged as they come: two bytes kept as an object of their own cost forty.
"""

from __future__ import annotations

from typing import TypeAlias

Piece: TypeAlias = bytes | bytearray | memoryview

_CRUMB = 1024


class ChunkBuffer:
    """Chunks of bytes in the order in which they arrived."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[Piece] = []

    def add(self, part: Piece) -> None:
        parts = self._parts
        # The first chunk stays as it is: most buffers never get a second one.
        if len(part) >= _CRUMB or not parts:
            parts.append(part)
        elif isinstance(parts[-1], bytearray):
            parts[-1] += part
        else:
            parts.append(bytearray(part))

    def join(self) -> bytes:
        """Return all chunks as one, and keep none of them."""
        whole = b"".join(self._parts)
        self._parts.clear()
        return whole
