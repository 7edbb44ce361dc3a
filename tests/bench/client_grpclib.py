"""grpclib: pure Python on h2 and asyncio, without xDS, straight to the server."""

from __future__ import annotations

import asyncio
from functools import partial

from asyncio_calls import make_calls
from grpclib.client import Channel, UnaryUnaryMethod
from grpclib.encoding.base import CodecBase
from measure import METHOD, PAYLOAD, orders

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
        await make_calls(ORDERS, partial(echo, PAYLOAD))


asyncio.run(main())
