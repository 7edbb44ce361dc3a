"""TCP_USER_TIMEOUT of connections with keepalive (A18)."""

from __future__ import annotations

import socket

import pytest
import trio
from support.tls_peers import server_context

from trxds.testing import serve
from trxds.transport.certificates import CertificateFiles, client_context
from trxds.transport.connect import TcpNetwork
from trxds.transport.connection import Connection
from trxds.transport.keepalive import Keepalive
from trxds.transport.tls import TlsNetwork, context_source
from trxds.transport.transport import socket_below

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


async def test_a_connection_with_tls_has_it_too(ca) -> None:
    context = client_context(CertificateFiles())
    ca.configure_trust(context)
    async with serve({}, tls=server_context(ca, "cart.example")) as server:
        stream = await TlsNetwork(TcpNetwork(), context_source(context), "cart.example").connect(server.address)
        below = socket_below(stream)
        assert below is not None
        Connection(stream, peer=server.address, keepalive=Keepalive(10))
        assert user_timeout(below) == 20000
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
