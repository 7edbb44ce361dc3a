"""A stream that can be read again from its beginning, once it is known who has to read it."""

from __future__ import annotations

import trio


class ReplayStream(trio.abc.Stream):
    """Remembers what was read until `rewind`. A protocol is known by its first bytes, and wants to see them itself."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._seen = b""
        self._to_come = b""
        self._remembers = True

    def rewind(self, *, keep: bool = False) -> None:
        """Read everything once more from here on. With `keep` it goes on remembering, for another `rewind`."""
        self._to_come, self._remembers = self._seen, keep
        self._seen = b""

    def stop_remembering(self) -> None:
        """Keep nothing of what is read from here on."""
        self._remembers, self._seen = False, b""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Read on, or again what was read before the last `rewind`."""
        if self._to_come:
            await trio.lowlevel.checkpoint()
            size = len(self._to_come) if max_bytes is None else max_bytes
            data, self._to_come = self._to_come[:size], self._to_come[size:]
        else:
            data = bytes(await self._stream.receive_some(max_bytes))
        if self._remembers:
            self._seen += data
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send as the stream below does."""
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait as the stream below does."""
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Close the stream below."""
        await self._stream.aclose()
