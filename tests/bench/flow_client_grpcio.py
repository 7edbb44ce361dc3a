"""grpcio's asyncio API: 1 MiB both ways, one call after the other, or one stream of small messages.

python flow_client_grpcio.py ADDRESS echo|count TIMES
"""

from __future__ import annotations

import asyncio
import sys

import grpc
from measure import metered

ADDRESS, KIND, TIMES = sys.argv[1], sys.argv[2], int(sys.argv[3])
LARGE = bytes(1024 * 1024)
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


async def main() -> None:
    async with grpc.aio.insecure_channel(ADDRESS, options=UNLIMITED) as channel:

        async def echo(times: int) -> None:
            method = channel.unary_unary("/bench.Flow/Echo")
            for _ in range(times):
                assert await method(LARGE) == LARGE

        async def count(times: int) -> None:
            counted = 0
            async for _ in channel.unary_stream("/bench.Flow/Count")(b"%d" % times):
                counted += 1
            assert counted == times

        run = {"echo": echo, "count": count}[KIND]
        await run(5)
        with metered(TIMES):
            await run(TIMES)


asyncio.run(main())
