"""Host names are resolved by the platform's resolver, in Trio's thread.

Cancelling is instant. The look-up then goes on in its thread, at most until its own time-out, and its result is
dropped.
"""

from __future__ import annotations

import errno
import socket
from typing import Any

import trio


async def resolve(host: str, port: int) -> tuple[str, ...]:
    """Return the addresses of `host` as "10.0.0.1:443", in the platform's order, at least one.

    `OSError` says why there are none. An IP address is its own result and needs no thread.
    """
    try:
        infos = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(errno.EINVAL, f"{host!r} is no host name: {error}") from None
    return tuple(dict.fromkeys(_format_address(*sockaddr) for *_, sockaddr in infos))


def _format_address(ip: Any, port: Any, _flow: Any = 0, scope: Any = 0) -> str:
    # RFC 4007 §11: a link-local address is not reached without its interface.
    zone = f"%{scope}" if scope else ""
    return f"[{ip}{zone}]:{port}" if ":" in ip else f"{ip}:{port}"
