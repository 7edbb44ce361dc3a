"""A grpcio server with a limit on streams gets more connections (A105)."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import trio

import trxds

CONFIG = {"connectionScaling": {"maxConnectionsPerSubchannel": 3}}


class Server:
    """A grpcio server that allows two streams on a connection; its calls end when six are under way."""

    def __init__(self) -> None:
        self.running = self.most = 0
        self._lock = threading.Lock()
        self._six = threading.Event()
        self._server = grpc.server(ThreadPoolExecutor(10), options=[("grpc.max_concurrent_streams", 2)])
        handler = grpc.unary_unary_rpc_method_handler(self._wait)
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("s", {"Wait": handler})])
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def _wait(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
            if self.running == 6:
                # A seventh, if the client sent it, would begin meanwhile.
                threading.Timer(0.2, self._six.set).start()
        self._six.wait(10)
        with self._lock:
            self.running -= 1
        return context.peer().encode()

    def stop(self) -> None:
        self._six.set()
        self._server.stop(0).wait()


async def test_a_grpcio_server_gets_as_many_connections_as_are_allowed() -> None:
    server, peers = Server(), []

    async def call(channel: trxds.Channel) -> None:
        peers.append((await channel.method("/s/Wait")(b"", timeout=20)).decode())

    target = f"ipv4:{server.address}"
    async with trxds.open_channel(target, service_config=CONFIG) as channel, trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(call, channel)
    server.stop()
    assert (len(peers), len(set(peers)), server.most) == (8, 3, 6)
