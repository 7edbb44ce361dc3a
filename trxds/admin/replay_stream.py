"""A stream whose first bytes can be read twice: once to recognize the protocol, and once by the protocol itself."""

from __future__ import annotations

import trio


class ReplayStream(trio.abc.Stream):
    """A stream that remembers the bytes that it reads, until `rewind`."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._seen = b""
        self._to_come = b""
        self._remembers = True

    def rewind(self, *, keep: bool = False) -> None:
        """Let the remembered bytes be read again. With `keep` they stay remembered for another `rewind`."""
        self._to_come, self._remembers = self._seen, keep
        self._seen = b""

    def stop_remembering(self) -> None:
        """Remember no bytes that are read from now on."""
        self._remembers, self._seen = False, b""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive bytes: first those from before the last `rewind`, then new ones."""
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
        """Send on the inner stream."""
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait on the inner stream."""
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Close the inner stream."""
        await self._stream.aclose()
