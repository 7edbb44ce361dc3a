"""`trxds.sync` offers the channels, sessions, methods and calls of trxds to threads of programs that do not run Trio.

    with trxds.sync.open_channel("xds:///greeter") as channel:
        say_hello = channel.method("/helloworld.Greeter/SayHello")
        print(say_hello(b"you", timeout=2))

Trio runs in a thread of its own (`trio_thread.py`) as long as the block lasts. A call is a task there and a future
here; a thread that stops waiting, because of Ctrl-C for example, cancels its call.
"""

from .calls import Call, Method, ResponseStream, StreamStream, StreamUnary, UnaryStream, UnaryUnary
from .channel import Channel, MethodFactory, Session, SessionPool, open_channel

__all__ = [
    "Call",
    "Channel",
    "Method",
    "MethodFactory",
    "ResponseStream",
    "Session",
    "SessionPool",
    "StreamStream",
    "StreamUnary",
    "UnaryStream",
    "UnaryUnary",
    "open_channel",
]
