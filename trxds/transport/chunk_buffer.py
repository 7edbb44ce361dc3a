"""What arrives in pieces and is wanted whole: a frame, or a message of many frames.

The pieces are kept as they came and joined once, so that each byte is copied once however many pieces there are.
Only crumbs are swept together as they come: two bytes kept as an object of their own cost forty.
"""

from __future__ import annotations

from typing import TypeAlias

Piece: TypeAlias = bytes | bytearray | memoryview

_CRUMB = 1024


class ChunkBuffer:
    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[Piece] = []

    def add(self, part: Piece) -> None:
        parts = self._parts
        if len(part) >= _CRUMB or not parts:
            parts.append(part)
        elif isinstance(parts[-1], bytearray):
            parts[-1] += part
        else:
            parts.append(bytearray(part))

    def join(self) -> bytes:
        """All of them, and nothing is kept any more."""
        whole = b"".join(self._parts)
        self._parts.clear()
        return whole
