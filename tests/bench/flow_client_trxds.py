"""trxds' wire alone: 1 MiB both ways, one call after the other, or one stream of small messages.

python flow_client_trxds.py ADDRESS echo|count TIMES
"""

from __future__ import annotations

import sys

import trio
from measure import metered

from trxds.wire.connect import TcpNetwork
from trxds.wire.connection import Connection
from trxds.wire.request import Request
from trxds.wire.stream import ClientStream

ADDRESS, KIND, TIMES = sys.argv[1], sys.argv[2], int(sys.argv[3])
LARGE = bytes(1024 * 1024)


async def main() -> None:
    connection = Connection(await TcpNetwork().connect(ADDRESS), peer=ADDRESS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        await connection.wait_ready()

        def call(path: str, message: bytes) -> ClientStream:
            stream = connection.open_stream(Request(path, "bench", message=message))
            assert stream is not None
            return stream

        async def echo(times: int) -> None:
            for _ in range(times):
                assert await call("/bench.Flow/Echo", LARGE).receive_only() == LARGE

        async def count(times: int) -> None:
            stream, counted = call("/bench.Flow/Count", b"%d" % times), 0
            while await stream.receive() is not None:
                counted += 1
            assert counted == times

        run = {"echo": echo, "count": count}[KIND]
        await run(5)
        with metered(TIMES):
            await run(TIMES)
        nursery.cancel_scope.cancel()


trio.run(main)
