"""`trxds.sync` offers the channels, sessions, methods and calls of trxds to threads of programs that do not run Trio.

    with trxds.sync.open_channel("xds:///greeter") as channel:
        say_hello = channel.method("/helloworld.Greeter/SayHello")
        print(say_hello(b"you", timeout=2))

Trio runs in a thread of its own (`trxds/portal`) as long as the block lasts. A call is a task there and a future
here; a thread that stops waiting, because of Ctrl-C for example, cancels its call.
"""

from .calls import Call, Method, ResponseStream, StreamStream, StreamUnary, UnaryStream, UnaryUnary
from .channel import Channel, open_channel
from .session import BoundCalls, Session, SessionEvents, SessionPool
from .stub import MethodFactory

__all__ = [
    "BoundCalls",
    "Call",
    "Channel",
    "Method",
    "MethodFactory",
    "ResponseStream",
    "Session",
    "SessionEvents",
    "SessionPool",
    "StreamStream",
    "StreamUnary",
    "UnaryStream",
    "UnaryUnary",
    "open_channel",
]
