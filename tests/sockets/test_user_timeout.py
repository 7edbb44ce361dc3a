"""TCP_USER_TIMEOUT of connections with keepalive (A18)."""

from __future__ import annotations

import socket
import ssl

import pytest
import trio

from trxds.testing import serve
from trxds.transport.connect import TcpNetwork
from trxds.transport.connection import Connection
from trxds.transport.keepalive import Keepalive

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux has TCP_USER_TIMEOUT")


def user_timeout(stream: trio.SocketStream) -> int:
    """The time in milliseconds; 0 is the system's default."""
    value = stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    assert isinstance(value, int)
    return value


async def test_a_connection_with_keepalive_has_its_timeout_in_the_kernel() -> None:
    async with serve({}) as server:
        stream = await TcpNetwork().connect(server.address)
        assert isinstance(stream, trio.SocketStream)
        Connection(stream, peer=server.address, keepalive=Keepalive(10, 7.5))
        assert user_timeout(stream) == 7500
        await stream.aclose()


async def test_a_connection_with_tls_has_it_too() -> None:
    async with serve({}) as server:
        stream = await TcpNetwork().connect(server.address)
        assert isinstance(stream, trio.SocketStream)
        secure = trio.SSLStream(stream, ssl.create_default_context(), server_hostname="localhost")
        Connection(secure, peer=server.address, keepalive=Keepalive(10))
        assert user_timeout(stream) == 20000
        await stream.aclose()


async def test_without_keepalive_the_systems_default_stays() -> None:
    async with serve({}) as server:
        stream = await TcpNetwork().connect(server.address)
        assert isinstance(stream, trio.SocketStream)
        Connection(stream, peer=server.address)
        assert user_timeout(stream) == 0
        await stream.aclose()


@pytest.mark.parametrize(("seconds", "milliseconds"), [(0.0001, 1), (1e7, 2**31 - 1)])
async def test_a_time_that_the_kernel_cannot_have_is_the_nearest_that_it_can(seconds, milliseconds) -> None:
    async with serve({}) as server:
        stream = await TcpNetwork().connect(server.address)
        assert isinstance(stream, trio.SocketStream)
        Connection(stream, peer=server.address, keepalive=Keepalive(10, seconds))
        assert user_timeout(stream) == milliseconds
        await stream.aclose()
