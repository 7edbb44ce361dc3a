"""What operators may ask a running program: how its clients see the control plane's resources (A40), and what
its channels are connected to and carry (A14).

    import trxds.admin

    async with trxds.admin.serve(channel, address="127.0.0.1:15000"):
        ...

Standard tools read it, such as `grpcdebug 127.0.0.1:15000 xds status` and `... channelz channels`. It
tells all that the control plane said, to anybody who can connect: serve it on a loopback address or a
unix socket.
"""

from .server import serve

__all__ = ["serve"]
