"""What Trio alone costs: the same bytes to the same server, put together beforehand, and no more read than must be.

No routes, no load balancing, no deadlines, no statuses, no flow control: what a client in Python cannot go below.
"""

from __future__ import annotations

import os
import struct
from time import perf_counter

import trio
from measure import METHOD, PAYLOAD, Orders, metered, orders

from trxds.transport import frames
from trxds.transport.framing import frame
from trxds.transport.header_blocks import BlockEncoder
from trxds.transport.request import RequestHeaders

_HEAD = struct.Struct(">HBBBL")
_WIDE = 2**31 - 1 - 65_535


class ByHand:
    def __init__(self, stream: trio.SocketStream, authority: str, *, alone: bool) -> None:
        self._socket = stream.socket
        self._alone = alone
        self._said: list[bytes] = [
            frames.PREFACE + frames.settings({}),
            frames.uint32_frame(frames.WINDOW_UPDATE, 0, _WIDE),
        ]
        self._callers: dict[int, trio.lowlevel.Task] = {}
        self._writer: trio.lowlevel.Task | None = None
        self._next = 1
        encoder = BlockEncoder()
        fields = RequestHeaders(authority, b"http").fields(METHOD, authority)
        self._first = encoder.encode(fields, [], [])
        self._block = encoder.encode(fields, [], [])
        self._message = frame(PAYLOAD)

    async def call(self) -> None:
        stream_id, self._next = self._next, self._next + 2
        block, self._first = self._first or self._block, b""
        self._say(
            frames.headers(stream_id, block, 16_384)
            + frames.head(len(self._message), frames.DATA, frames.END_STREAM, stream_id)
            + self._message
        )
        self._callers[stream_id] = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(_never)

    def _say(self, data: bytes) -> None:
        self._said.append(data)
        if self._alone:
            self._write()
        elif self._writer is not None:
            writer, self._writer = self._writer, None
            trio.lowlevel.reschedule(writer)

    def _write(self) -> None:
        data = b"".join(self._said)
        self._said.clear()
        assert os.write(self._socket.fileno(), data) == len(data)

    async def write(self) -> None:
        while True:
            if self._said:
                self._write()
            self._writer = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._give_up)

    def _give_up(self, _: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
        self._writer = None  # the last PING may come in the step that cancels the writer, which must not be woken twice
        return trio.lowlevel.Abort.SUCCEEDED

    async def read(self) -> None:
        rest = b""
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            data = rest + os.read(self._socket.fileno(), 65_536)
            position = 0
            while position + 9 <= len(data):
                high, low, kind, flags, stream_id = _HEAD.unpack_from(data, position)
                end = position + 9 + (high << 8 | low)
                if end > len(data):
                    break
                if kind == frames.HEADERS and flags & frames.END_STREAM:
                    trio.lowlevel.reschedule(self._callers.pop(stream_id))
                elif kind in (frames.PING, frames.SETTINGS) and not flags & frames.ACK:
                    payload = data[position + 9 : end] if kind == frames.PING else b""
                    self._say(frames.head(len(payload), kind, frames.ACK, 0) + payload)
                position = end
            rest = data[position:]


def _never(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED


async def main(ordered: Orders) -> None:
    host, port = ordered.target.split(":")
    stream = await trio.open_tcp_stream(host, int(port))
    hand = ByHand(stream, ordered.target, alone=ordered.concurrency == 1)

    async def caller(count: int, latencies: list[float]) -> None:
        for _ in range(count):
            began = perf_counter()
            await hand.call()
            latencies.append(perf_counter() - began)

    async def everyone(total: int, latencies: list[float]) -> None:
        async with trio.open_nursery() as nursery:
            for share in ordered.shares(total):
                nursery.start_soon(caller, share, latencies)

    async with trio.open_nursery() as around:
        around.start_soon(hand.read)
        around.start_soon(hand.write)
        await everyone(ordered.warmup, [])
        with metered(ordered.count) as latencies:
            await everyone(ordered.count, latencies)
        around.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main, orders())
