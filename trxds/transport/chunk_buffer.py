"""A buffer for a frame that arrives in chunks and is needed as one piece.

The chunks are kept as they came and joined once, so each byte is copied once however many chunks there are. Only small
chunks are merged as they come: two bytes kept as an object of their own cost forty.
"""

from __future__ import annotations

from typing import TypeAlias

Chunk: TypeAlias = bytes | bytearray | memoryview

_MIN_CHUNK = 1024


class ChunkBuffer:
    """Chunks of bytes in the order in which they arrived."""

    __slots__ = ("_chunks",)

    def __init__(self) -> None:
        self._chunks: list[Chunk] = []

    def add(self, chunk: Chunk) -> None:
        parts = self._chunks
        # The first chunk stays as it is: most buffers never get a second one.
        if len(chunk) >= _MIN_CHUNK or not parts:
            parts.append(chunk)
        elif isinstance(parts[-1], bytearray):
            parts[-1] += chunk
        else:
            parts.append(bytearray(chunk))

    def join(self) -> bytes:
        """Return all chunks as one, and keep none of them."""
        whole = b"".join(self._chunks)
        self._chunks.clear()
        return whole
