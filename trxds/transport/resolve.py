"""Names to addresses, by the platform's resolver in Trio's thread: the one thread in the house.

Cancelling is instant. The thread that was asked then goes on by itself, at most until its own
time-out, and nobody hears it.
"""

from __future__ import annotations

import errno
import socket
from typing import Any

import trio


async def resolve(host: str, port: int) -> tuple[str, ...]:
    """The addresses of `host` as "10.0.0.1:443", in the platform's order, at least one.

    `OSError` says why there are none. An address is its own name and costs no thread.
    """
    try:
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(errno.EINVAL, f"{host!r} is no host name: {error}") from None
    return tuple(dict.fromkeys(_text(*where[:2]) for *_, where in found))


def _text(ip: Any, port: Any) -> str:
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"
