"""grpcio's asyncio API: one stream of small messages.

python streams_client_grpcio.py ADDRESS receive|send|echo TIMES
"""

from __future__ import annotations

import asyncio
import sys

import grpc
from measure import PAYLOAD, metered

ADDRESS, KIND, TIMES = sys.argv[1], sys.argv[2], int(sys.argv[3])


async def main() -> None:
    async with grpc.aio.insecure_channel(ADDRESS) as channel:

        async def receive(times: int) -> None:
            counted = 0
            async for _ in channel.unary_stream("/bench.Streams/Receive")(b"%d" % times):
                counted += 1
            assert counted == times

        async def send(times: int) -> None:
            assert int(await channel.stream_unary("/bench.Streams/Send")(PAYLOAD for _ in range(times))) == times

        async def echo(times: int) -> None:
            call = channel.stream_stream("/bench.Streams/Echo")()
            for _ in range(times):
                await call.write(PAYLOAD)
                assert await call.read() == PAYLOAD
            await call.done_writing()

        run = {"receive": receive, "send": send, "echo": echo}[KIND]
        await run(50)
        with metered(TIMES):
            await run(TIMES)


asyncio.run(main())
