"""What the page needs of HTTP beyond the feed's: whole answers, and a stream that can be read once more."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import h11
import trio

from trxds.feed.http import TEXT, Refusal

# What our own page does not need, nobody else's may do with it: keep it, frame it, read it, or sniff at it.
_ALWAYS = {
    "Cache-Control": "no-store",
    "Connection": "close",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def answer(status: int, headers: Mapping[str, str], body: bytes, *, head_only: bool = False) -> bytes:
    """A whole response; the head alone has the length of the body that it is without."""
    http = h11.Connection(h11.SERVER)
    told = {**_ALWAYS, **headers, "Content-Length": str(len(body))}
    response = h11.Response(status_code=status, headers=list(told.items()), reason=HTTPStatus(status).phrase)
    head = http.send(response)
    assert head is not None
    return head if head_only else head + body


def refused(refusal: Refusal) -> bytes:
    return answer(refusal.status, {"Content-Type": TEXT}, f"{refusal.reason}\n".encode())


class TwiceRead(trio.abc.Stream):
    """A stream that remembers what was read, until `again`: the WebSocket wants to see its handshake itself."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._read = b""
        self._to_come = b""
        self._remembers = True

    def again(self) -> None:
        """From here on everything is read once more, and nothing remembered."""
        self._to_come, self._read, self._remembers = self._read, b"", False

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if self._to_come:
            await trio.lowlevel.checkpoint()
            most = len(self._to_come) if max_bytes is None else max_bytes
            data, self._to_come = self._to_come[:most], self._to_come[most:]
            return data
        data = bytes(await self._stream.receive_some(max_bytes))
        if self._remembers:
            self._read += data
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()
