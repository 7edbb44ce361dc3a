"""A grpcio server with a limit on streams gets more connections (A105)."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import trio

import trxds
from trxds.core.status import Status

# grpcio counts a stream for a moment after its client has the whole answer. A call that is sent in that moment is
# refused, and on a busy machine its transparent retry (A6) too.
RETRY = {
    "maxAttempts": 5,
    "initialBackoff": "0.05s",
    "maxBackoff": "1s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE"],
}
CONFIG = {
    "connectionScaling": {"maxConnectionsPerSubchannel": 3},
    "methodConfig": [{"name": [{}], "retryPolicy": RETRY}],
}


class Server:
    """A grpcio server that allows two streams on a connection; its calls end when six are under way."""

    def __init__(self) -> None:
        self.running = self.most = 0
        self._lock = threading.Lock()
        self.six = threading.Event()
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
                threading.Timer(0.2, self.six.set).start()
        self.six.wait(10)
        with self._lock:
            self.running -= 1
        return context.peer().encode()

    def stop(self) -> None:
        self.six.set()
        self._server.stop(0).wait()


class EarlyFailures(trxds.Observer, trxds.CallObserver, trxds.AttemptObserver):
    """The attempts that failed before any call could end: the client sent those above the server's limit."""

    def __init__(self, server: Server) -> None:
        self.seen: list[Status] = []
        self._server = server

    def call(self, call: trxds.CallStarted) -> EarlyFailures:
        return self

    def attempt(self, previous: int, transparent: bool) -> EarlyFailures:
        return self

    def ended(self, status: Status) -> None:
        if not self._server.six.is_set():
            self.seen.append(status)


async def test_a_grpcio_server_gets_as_many_connections_as_are_allowed() -> None:
    server, peers = Server(), []
    early = EarlyFailures(server)

    async def call(channel: trxds.Channel) -> None:
        peers.append((await channel.method("/s/Wait")(b"", timeout=20)).decode())

    target = f"ipv4:{server.address}"
    async with trxds.open_channel(target, service_config=CONFIG) as channel:
        with channel.observed_by(early):
            async with trio.open_nursery() as nursery:
                for _ in range(8):
                    nursery.start_soon(call, channel)
    server.stop()
    assert (len(peers), len(set(peers)), server.most, early.seen) == (8, 3, 6, [])
