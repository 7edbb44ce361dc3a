"""`trxds.testing` has servers, a control plane and a network for the tests of programs that use trxds.

    from trxds.testing import serve, unary

    async def hello(request: bytes, call: Call) -> bytes:
        return b"hello " + request

    async with serve({"/pkg.Greeter/Hello": unary(hello)}) as server:
        ...  # server.address is 127.0.0.1 and a free port

`ManagementServer` is the control plane, and `trxds.testing.resources` makes its resources in a short form. With
`network=MemoryNetwork()` and an address of your choice nothing leaves the process, and a whole scenario runs on Trio's
MockClock. `Simulation` is a whole mesh whose every step a seed decides. `trxds.testing.pytest` has these parts as
fixtures for pytest.
"""

from trxds.server.handlers import bidi_streaming, client_streaming, server_streaming, unary
from trxds.server.server import Server, serve
from trxds.server.server_call import Call, Handler
from trxds.server.server_limits import ServerLimits

from .management import ManagementServer
from .network import MemoryNetwork
from .simulation.echo_host import Behaviour
from .simulation.simulation import Simulation

__all__ = [
    "Behaviour",
    "Call",
    "Handler",
    "ManagementServer",
    "MemoryNetwork",
    "Server",
    "ServerLimits",
    "Simulation",
    "bidi_streaming",
    "client_streaming",
    "serve",
    "server_streaming",
    "unary",
]
