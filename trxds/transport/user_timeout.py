"""The kernel ends a connection whose bytes the peer does not acknowledge: TCP_USER_TIMEOUT (A18)."""

from __future__ import annotations

import socket
from contextlib import suppress

import trio

_OPTION: int | None = getattr(socket, "TCP_USER_TIMEOUT", None)  # Linux has it
_MAX = 2**31 - 1  # milliseconds, as it is a C int


def set_user_timeout(stream: trio.abc.Stream, seconds: float) -> None:
    """Set the time within which a TCP peer has to acknowledge bytes; nothing for streams that are not TCP sockets."""
    while isinstance(stream, trio.SSLStream):
        stream = stream.transport_stream
    if _OPTION is None or not isinstance(stream, trio.SocketStream):
        return
    if stream.socket.family in (socket.AF_INET, socket.AF_INET6):
        # A kernel that refuses it, as a sandbox's may, has its own, longer time.
        with suppress(OSError):
            # 0 would stand for the kernel's own time.
            stream.setsockopt(socket.IPPROTO_TCP, _OPTION, min(max(round(seconds * 1000), 1), _MAX))
