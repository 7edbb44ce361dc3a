"""Ports of the loopback for programs that must be told where to listen, or that come back where they were.

A port that is only looked up is anybody's until the program listens, and again while it is down: the kernel may give it
to the next socket of any other process. It gives nobody one that a socket is bound to. With SO_REUSEADDR, which every
server sets, the program can listen there all the same, and until it does connections are refused.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest


@contextmanager
def reserved_ports(count: int) -> Iterator[list[int]]:
    """So many ports, which nobody else gets as long as the block."""
    with ExitStack() as stack:
        yield [_bound(stack.enter_context(socket.socket())) for _ in range(count)]


@contextmanager
def reserved_address() -> Iterator[str]:
    """The address with one such port."""
    with reserved_ports(1) as (port,):
        yield f"127.0.0.1:{port}"


def has_ipv6() -> bool:
    """Whether the loopback has IPv6, which the machine may be without."""
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="there is no IPv6 here")


def _bound(holder: socket.socket) -> int:
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    port: int = holder.getsockname()[1]
    return port
