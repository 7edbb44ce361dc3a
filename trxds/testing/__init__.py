"""Servers and a network for tests: ours, the demo's, and those of programs that use trxds.

    from trxds.testing import serve, unary

    async def hello(request: bytes, call: Call) -> bytes:
        return b"hello " + request

    async with serve({"/pkg.Greeter/Hello": unary(hello)}) as server:
        ...  # server.address is 127.0.0.1 and a free port

With `network=MemoryNetwork()` and an address of your choice nothing leaves the process, and a
whole story runs on Trio's MockClock.
"""

from .call import Call, Handler, bidi_streaming, client_streaming, server_streaming, unary
from .network import MemoryNetwork
from .server import Server, serve

__all__ = [
    "Call",
    "Handler",
    "MemoryNetwork",
    "Server",
    "bidi_streaming",
    "client_streaming",
    "serve",
    "server_streaming",
    "unary",
]
