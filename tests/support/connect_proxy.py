"""An HTTP CONNECT proxy, in memory or over TCP: it leads each CONNECT to the address that it is asked for."""

from __future__ import annotations

from contextlib import asynccontextmanager

import trio

from trxds.transport.connect import TcpNetwork

ANSWER = b"HTTP/1.1 200 Connection established\r\n\r\n"


class ConnectProxy:
    """Records the addresses that it is `asked` for."""

    def __init__(self, network, address, answer=ANSWER):
        self.address = address
        self.asked = []
        self._network, self._answer = network, answer

    @classmethod
    @asynccontextmanager
    async def run(cls, network, address="10.9.0.1:3128", answer=ANSWER):
        proxy = cls(network, address, answer)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, proxy._handle, [network.listen(address)])
            yield proxy
            nursery.cancel_scope.cancel()

    @classmethod
    @asynccontextmanager
    async def over_tcp(cls):
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        proxy = cls(TcpNetwork(), f"127.0.0.1:{listener.socket.getsockname()[1]}")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, proxy._handle, [listener])
            yield proxy
            nursery.cancel_scope.cancel()

    async def _handle(self, client):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += await client.receive_some(1)
        address = head.split()[1].decode()
        self.asked.append(address)
        await client.send_all(self._answer)
        host = await self._network.connect(address)
        async with client, host, trio.open_nursery() as nursery:
            nursery.start_soon(_pump, client, host)
            await _pump(host, client)
            nursery.cancel_scope.cancel()


async def _pump(source, sink):
    try:
        async for data in source:
            await sink.send_all(data)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
