"""How bytes get to an address, and names to addresses: the network as the wire sees it, and the real one."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Protocol

import trio

from .connection_race import first_connected
from .options import WireOptions
from .resolve import resolve

__all__ = ["Network", "TcpNetwork", "WireOptions", "connect_error", "split_address"]


class Network(Protocol):
    """Where connections come from. Tests put one in memory in its place."""

    async def connect(self, address: str) -> trio.abc.Stream:
        """A transport to `address`; `OSError` if there is none to be had."""
        ...

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        """The addresses of `host`, at least one; `OSError` if there are none."""
        ...


class TcpNetwork:
    """The real one: `127.0.0.1:443`, `[::1]:443`, `unix:/path`, `unix-abstract:name`."""

    async def connect(self, address: str) -> trio.abc.Stream:
        if address.startswith("unix:"):
            return await trio.open_unix_socket(address.removeprefix("unix:"))
        if address.startswith("unix-abstract:"):
            return await trio.open_unix_socket("\0" + address.removeprefix("unix-abstract:"))
        host, port = split_address(address)
        if _family(host) is None:
            return await first_connected(await resolve(host, port), _open)
        return await _open(address)

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        return await resolve(host, port)


def _family(host: str) -> socket.AddressFamily | None:
    """None for a name."""
    host = host.partition("%")[0]
    for family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError):
            socket.inet_pton(family, host)
            return family
    return None


def _scope(zone: str) -> int:
    """An interface by number or name; `OSError` if there is none."""
    return int(zone) if zone.isdecimal() else socket.if_nametoindex(zone)


async def _open(address: str) -> trio.SocketStream:
    """To an IP address: that needs neither look-up nor race, and a thousand of them may be connected at once."""
    host, port = split_address(address)
    family = _family(host)
    host, _, zone = host.partition("%")
    connecting = trio.socket.socket(family or socket.AF_INET)
    try:
        await connecting.connect((host, port, 0, _scope(zone)) if zone else (host, port))
    except BaseException as error:
        connecting.close()
        if isinstance(error, OSError) and error.errno:
            raise OSError(error.errno, os.strerror(error.errno)) from None  # who tells it names the address as we do
        raise
    # Trio sets TCP_NODELAY; the writer sends all it has in one go anyway.
    return trio.SocketStream(connecting)


def split_address(address: str) -> tuple[str, int]:
    """Host and port; `OSError` names an address that has none."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise OSError(f"address {address!r} has no port; write it as host:port or [v6]:port")
    return host.strip("[]"), int(port)


def connect_error(error: BaseException) -> BaseException:
    """What really happened: Trio reports several failures as one, from the cause."""
    if isinstance(error, BaseExceptionGroup):
        return connect_error(error.exceptions[-1])
    return connect_error(error.__cause__) if error.__cause__ is not None else error
