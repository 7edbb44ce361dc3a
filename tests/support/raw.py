"""A call of any kind to any address, without a channel: bytes in, bytes out."""

from contextlib import asynccontextmanager

import trio

from trxds.transport.connection import Connection
from trxds.transport.options import WireOptions
from trxds.transport.request import Request


@asynccontextmanager
async def open_call(network, address, path):
    """The stream."""
    transport = await network.connect(address)
    async with trio.open_nursery() as nursery:
        connection = Connection(transport, peer=address, options=WireOptions())
        nursery.start_soon(connection.run)
        assert await connection.wait_ready()
        yield connection.open_stream(Request(path=path, authority="test", metadata=[]))
        nursery.cancel_scope.cancel()


async def call(network, address, path, *requests):
    """The replies and the status."""
    async with open_call(network, address, path) as stream:
        for request in requests:
            await stream.send(request)
        stream.end()
        replies = []
        while (message := await stream.receive()) is not None:
            replies.append(message)
    return replies, stream.status
