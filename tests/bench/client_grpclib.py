"""grpclib: pure Python on h2 and asyncio, without xDS, straight to the server."""

from __future__ import annotations

import asyncio

from grpclib.client import Channel, UnaryUnaryMethod
from grpclib.encoding.base import CodecBase
from measure import METHOD, PAYLOAD, metered, orders

ORDERS = orders()


class RawBytes(CodecBase):
    __content_subtype__ = "proto"

    def encode(self, message: bytes, message_type: object) -> bytes:
        return message

    def decode(self, data: bytes, message_type: object) -> bytes:
        return data


async def main() -> None:
    host, _, port = ORDERS.target.rpartition(":")
    async with Channel(host, int(port), codec=RawBytes()) as channel:
        echo = UnaryUnaryMethod(channel, METHOD, bytes, bytes)

        async def caller(count: int) -> None:
            for _ in range(count):
                await echo(PAYLOAD)

        async def everyone(total: int) -> None:
            await asyncio.gather(*(caller(share) for share in ORDERS.shares(total)))

        await everyone(ORDERS.warmup)
        with metered(ORDERS.count):
            await everyone(ORDERS.count)


asyncio.run(main())
