"""`trxds.aio` offers the channels, sessions, methods and calls of trxds to asyncio programs.

    async with trxds.aio.open_channel("xds:///greeter") as channel:
        say_hello = channel.method("/helloworld.Greeter/SayHello")
        print(await say_hello(b"you", timeout=2))

Trio runs in a thread of its own (`trxds/portal`) as long as the block lasts. A call is a task there, and an asyncio
task awaits it; a task that is cancelled cancels its call.
"""

from .calls import Call, Method, MethodFactory
from .channel import Channel, open_channel
from .session import BoundCalls, Session, SessionEvents, SessionPool

__all__ = [
    "BoundCalls",
    "Call",
    "Channel",
    "Method",
    "MethodFactory",
    "Session",
    "SessionEvents",
    "SessionPool",
    "open_channel",
]
