"""trxds: 1 MiB both ways, one call after the other, or one stream of small messages.

python flow_client_trxds.py ADDRESS echo|count TIMES
"""

from __future__ import annotations

import sys

import trio
from measure import metered

import trxds

ADDRESS, KIND, TIMES = sys.argv[1], sys.argv[2], int(sys.argv[3])
LARGE = bytes(1024 * 1024)


async def main() -> None:
    async with trxds.open_channel(f"ipv4:{ADDRESS}") as channel:

        async def echo(times: int) -> None:
            method = channel.method("/bench.Flow/Echo")
            for _ in range(times):
                assert await method(LARGE) == LARGE

        async def count(times: int) -> None:
            counted = 0
            async with channel.method("/bench.Flow/Count", server_streaming=True).open(b"%d" % times) as call:
                async for _ in call:
                    counted += 1
            assert counted == times

        run = {"echo": echo, "count": count}[KIND]
        await run(5)
        with metered(TIMES):
            await run(TIMES)


trio.run(main)
