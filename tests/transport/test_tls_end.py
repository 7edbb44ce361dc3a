"""What a server said last is read also if a write over TLS fails first."""

from __future__ import annotations

import errno
import os
import ssl
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import h2.config
import h2.connection
import h2.events
import pytest
import trio
import trustme
from support.tls_peers import server_context
from trio.testing import wait_all_tasks_blocked

from trxds.core.status import Status, StatusCode
from trxds.testing import MemoryNetwork
from trxds.transport.certificates import CertificateFiles, client_context
from trxds.transport.connection import Connection
from trxds.transport.request import Request
from trxds.transport.tls import TlsNetwork, context_source
from trxds.transport.transport import MAX_LAST_READ_TIME, BelowTls

ADDRESS = "10.0.0.1:443"
RESET = "10.0.0.1:443: connection lost: Connection reset by peer"


class ResetStream(trio.abc.Stream):
    """A stream over which reading goes on while writes find that the peer has reset it, once `is_reset`."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.is_reset = False
        self._stream = stream

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if self.is_reset:
            raise trio.BrokenResourceError from ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._stream.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._stream.aclose()


class ResettableNetwork(MemoryNetwork):
    """A network that makes such streams; `last` is the newest."""

    last: ResetStream

    def __init__(self, *, is_reset: bool = False) -> None:
        super().__init__()
        self._is_reset = is_reset

    async def connect(self, address: str) -> trio.abc.Stream:
        self.last = ResetStream(await super().connect(address))
        self.last.is_reset = self._is_reset
        return self.last


class TlsPeer:
    """A server of one connection over TLS; h2 reads and writes its frames."""

    def __init__(self, stream: trio.abc.Stream, context: ssl.SSLContext) -> None:
        self.stream = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))

    async def greet(self) -> None:
        self.h2.initiate_connection()
        await self.flush()

    async def flush(self) -> None:
        await self.stream.send_all(self.h2.data_to_send())

    async def request(self) -> None:
        """Wait for a request."""
        while not any(
            isinstance(event, h2.events.RequestReceived)
            for event in self.h2.receive_data(await self.stream.receive_some())
        ):
            pass


Reset: TypeAlias = Callable[[], Awaitable[tuple[Connection, TlsPeer]]]


@pytest.fixture
def reset(ca: trustme.CA, nursery: trio.Nursery) -> Reset:
    """Return a connection with stream 1, whose next write finds that the peer has reset it, and the peer."""

    async def make() -> tuple[Connection, TlsPeer]:
        network, context = ResettableNetwork(), client_context(CertificateFiles())
        ca.configure_trust(context)
        listener = network.listen(ADDRESS)

        async def accept() -> None:
            peers.append(TlsPeer(await listener.accept(), server_context(ca, "cart.example")))
            await peers[0].greet()

        peers: list[TlsPeer] = []
        nursery.start_soon(accept)
        transport = await TlsNetwork(network, context_source(context), "cart.example").connect(ADDRESS)
        connection = Connection(transport, peer=ADDRESS)
        nursery.start_soon(connection.run)
        assert await connection.wait_ready()
        assert connection.open_stream(Request("/shop.Cart/Add", "shop")) is not None
        await peers[0].request()
        await wait_all_tasks_blocked()
        network.last.is_reset = True
        return connection, peers[0]

    return make


async def test_a_goaway_over_tls_is_read_also_if_a_write_finds_the_connection_reset(reset, autojump_clock) -> None:
    connection, peer = await reset()
    first = connection.streams.open[1]
    second = connection.open_stream(Request("/shop.Cart/Add", "shop"))
    await wait_all_tasks_blocked()
    # Two records of TLS, which are two reads.
    peer.h2.send_headers(1, [(":status", "200"), ("content-type", "application/grpc")])
    await peer.flush()
    peer.h2.close_connection(11, b"too_many_pings", last_stream_id=1)
    await peer.flush()
    await peer.stream.aclose()
    await second.receive()
    await first.receive()
    reason = "GOAWAY ENHANCE_YOUR_CALM: too_many_pings"
    assert second.refused and second.status == Status(StatusCode.UNAVAILABLE, f"{ADDRESS}: {reason}")
    assert not first.refused and first.status == Status(StatusCode.UNAVAILABLE, f"{RESET}, after {reason}")


async def test_a_connection_over_tls_that_nobody_closes_ends_soon_after_a_failed_write(reset, autojump_clock) -> None:
    connection, _ = await reset()
    start = trio.current_time()
    stream = connection.open_stream(Request("/shop.Cart/Add", "shop"))
    await stream.receive()
    assert stream.status == Status(StatusCode.UNAVAILABLE, RESET)
    assert trio.current_time() == pytest.approx(start + MAX_LAST_READ_TIME)


async def test_a_handshake_whose_write_fails_ends_at_once_as_nobody_reads_beside_it(ca, autojump_clock) -> None:
    network = ResettableNetwork(is_reset=True)
    network.listen(ADDRESS)
    start = trio.current_time()
    with pytest.raises(ConnectionError, match="Connection reset by peer"):
        await TlsNetwork(network, context_source(client_context(CertificateFiles())), "cart.example").connect(ADDRESS)
    assert trio.current_time() == start


async def test_a_failed_write_waits_for_no_reader_of_a_stream_that_is_closed(autojump_clock) -> None:
    near, _ = trio.testing.memory_stream_pair()
    reset = ResetStream(near)
    reset.is_reset = True
    below = BelowTls(reset)
    below.has_reader = True

    async def write() -> None:
        with pytest.raises(trio.BrokenResourceError):
            await below.send_all(b"x")

    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        await wait_all_tasks_blocked()
        await below.aclose()
    assert trio.current_time() == start
