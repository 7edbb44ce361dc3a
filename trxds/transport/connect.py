"""A `Network` makes transports and resolves names: the interface that the pool needs, and the system's network."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

import trio

from trxds.core.authority import join_address
from trxds.core.happy_eyeballs import ATTEMPT_DELAY, interleave_families

Dial: TypeAlias = Callable[[str], Awaitable[trio.SocketStream]]


class Network(Protocol):
    """A source of transports. Tests replace it by a network in memory."""

    async def connect(self, address: str) -> trio.abc.Stream:
        """Return a transport to `address`; `OSError` if it cannot be reached."""

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        """Return the addresses of `host`, at least one; `OSError` if there are none."""


class TcpNetwork:
    """The operating system's network: `127.0.0.1:443`, `[::1]:443`, `unix:/path`, `unix-abstract:name`."""

    async def connect(self, address: str) -> trio.abc.Stream:
        if address.startswith("unix:"):
            return await trio.open_unix_socket(address.removeprefix("unix:"))
        if address.startswith("unix-abstract:"):
            return await trio.open_unix_socket("\0" + address.removeprefix("unix-abstract:"))
        host, port = split_address(address)
        if _address_family(host) is None:
            return await first_connected(await resolve(host, port), _connect_ip)
        return await _connect_ip(address)

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        return await resolve(host, port)


async def resolve(host: str, port: int) -> tuple[str, ...]:
    """Return the addresses of `host` as "10.0.0.1:443", in the platform's order, at least one.

    `OSError` says why there are none. An IP address is its own result and needs no thread. Cancelling is instant: the
    look-up goes on in Trio's thread, at most until its own time-out, and its result is dropped.
    """
    try:
        infos = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(errno.EINVAL, f"{host!r} is no host name: {error}") from None
    return tuple(dict.fromkeys(_format_address(*sockaddr) for *_, sockaddr in infos))


def _format_address(ip: Any, port: Any, _flow: Any = 0, scope: Any = 0) -> str:
    # RFC 4007 §11: a link-local address is not reached without its interface.
    zone = f"%{scope}" if scope else ""
    return join_address(f"{ip}{zone}", port)


def _address_family(host: str) -> socket.AddressFamily | None:
    """Return the family of an IP address; None for a host name."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.inet_pton(family, host.partition("%")[0])
    except OSError:
        return None
    return family


def _scope_id(zone: str) -> int:
    """Return the index of an interface given by number or name; `OSError` if there is none."""
    if zone.isdecimal():
        return int(zone)
    try:
        return socket.if_nametoindex(zone)
    except OSError:
        # Python's own text does not name the interface, and Python 3.14 has another one.
        raise OSError(f"this machine has no network interface {zone!r}") from None


async def _connect_ip(address: str) -> trio.SocketStream:
    """Connect to an IP address, without the look-up and the race of a name: a thousand may be connected at once."""
    host, port = split_address(address)
    family = _address_family(host)
    # A link-local IPv6 address names its interface behind "%", which belongs into the socket address (RFC 4007 §11).
    host, _, zone = host.partition("%")
    sock = trio.socket.socket(family or socket.AF_INET)
    try:
        await sock.connect((host, port, 0, _scope_id(zone)) if zone else (host, port))
    except BaseException as error:
        sock.close()
        if isinstance(error, OSError) and error.errno:
            raise OSError(error.errno, os.strerror(error.errno)) from None  # without the address, which the caller adds
        raise
    # Trio sets TCP_NODELAY, as gRPC needs; the writer sends all pending frames at once anyway.
    return trio.SocketStream(sock)


async def first_connected(addresses: tuple[str, ...], dial: Dial) -> trio.SocketStream:
    """Return the first stream that connects, by Happy Eyeballs (RFC 8305): attempts start a short time apart.

    The `OSError` names each address with its reason.
    """
    connected: list[trio.SocketStream] = []  # two if both connected in the same scheduler step
    failures: dict[str, OSError] = {}

    async def attempt(address: str, failed: trio.Event) -> None:
        try:
            connected.append(await dial(address))
            nursery.cancel_scope.cancel(reason=f"{address} is connected")
        except OSError as error:
            failures[address] = error
            # After a failure the next attempt starts at once, without the rest of the delay.
            failed.set()

    try:
        async with trio.open_nursery() as nursery:
            for address in interleave_families(addresses):
                failed = trio.Event()
                nursery.start_soon(attempt, address, failed, name=f"connect {address}")
                # RFC 8305 §5: the next attempt starts after a delay while this one goes on.
                with trio.move_on_after(ATTEMPT_DELAY):
                    await failed.wait()
        if not connected:
            raise _failure(failures)
        return connected.pop(0)
    finally:
        # Without a checkpoint, because the task may be cancelled.
        for stream in connected:
            stream.socket.close()


def _failure(failures: Mapping[str, OSError]) -> OSError:
    """Return the only failure unchanged; several as one with their addresses, and the first one's errno."""
    first = next(iter(failures.values()))
    if len(failures) == 1:
        return first
    reasons = (f"{address}: {error.strerror or error}" for address, error in failures.items())
    return OSError(first.errno, "; ".join(reasons))


def checked_network(network: Network | None) -> Network:
    """Return the network, or TCP's for None; `TypeError` for anything else, also for a class in place of its object."""
    if network is None:
        return TcpNetwork()
    has_methods = all(callable(getattr(network, name, None)) for name in ("connect", "resolve"))
    if isinstance(network, type) or not has_methods:
        raise TypeError(f"network is an object with connect and resolve, such as MemoryNetwork(), not {network!r}")
    return network


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of an address; `OSError` names an address without a port, or with one that is too large."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal():
        raise OSError(f"address {address!r} has no port; write it as host:port or [v6]:port")
    if len(port) > 5 or int(port) > 65535:
        raise OSError(f"address {address!r} has a port above 65535, the largest; correct it")
    return host.strip("[]"), int(port)


def connect_error(error: BaseException) -> BaseException:
    """Return the error behind the one that Trio raised: it reports several failures as one group, or as a cause."""
    if isinstance(error, BaseExceptionGroup):
        return connect_error(error.exceptions[-1])
    return connect_error(error.__cause__) if error.__cause__ is not None else error


def connect_reason(error: BaseException) -> str:
    """Return why there is no connection, in words; the numbers of `errno` mean nothing to most readers."""
    cause = connect_error(error)
    return getattr(cause, "strerror", None) or str(cause)
