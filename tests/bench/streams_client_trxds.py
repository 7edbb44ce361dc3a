"""trxds on Trio or asyncio: one stream of small messages.

python streams_client_trxds.py trio|asyncio ADDRESS receive|send|echo TIMES
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import trio
from measure import PAYLOAD, metered

import trxds
import trxds.aio

LOOP, ADDRESS, KIND, TIMES = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])


async def receive(channel: Any, times: int) -> None:
    method, counted = channel.method("/bench.Streams/Receive", server_streaming=True), 0
    async with method.open(b"%d" % times) as call:
        async for _ in call:
            counted += 1
    assert counted == times


async def send(channel: Any, times: int) -> None:
    method = channel.method("/bench.Streams/Send", client_streaming=True)
    assert int(await method(PAYLOAD for _ in range(times))) == times


async def echo(channel: Any, times: int) -> None:
    method = channel.method("/bench.Streams/Echo", client_streaming=True, server_streaming=True)
    async with method.open() as call:
        for _ in range(times):
            await call.send(PAYLOAD)
            assert await call.receive() == PAYLOAD


async def main(open_channel: Any) -> None:
    run = {"receive": receive, "send": send, "echo": echo}[KIND]
    async with open_channel(f"ipv4:{ADDRESS}") as channel:
        await run(channel, 50)
        with metered(TIMES):
            await run(channel, TIMES)


if LOOP == "trio":
    trio.run(main, trxds.open_channel)
else:
    asyncio.run(main(trxds.aio.open_channel))
