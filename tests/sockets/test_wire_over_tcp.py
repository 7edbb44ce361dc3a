"""The transport over real sockets, on the real clock."""

from __future__ import annotations

import socket
from contextvars import ContextVar
from pathlib import Path
from random import Random

import pytest
import trio
from support.hostile.peer import GOAWAY, PING, PREFACE, PROTOCOL_ERROR, SETTINGS, frame
from support.ports import needs_ipv6, reserved_address
from support.tasks import all_tasks, task_names

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.connectivity import Connectivity
from trxds.core.status import StatusCode
from trxds.testing import Call, bidi_streaming, serve, unary
from trxds.transport.connect import TcpNetwork, split_address
from trxds.transport.connection import Connection
from trxds.transport.options import WireOptions
from trxds.transport.pool import SubchannelPool
from trxds.transport.request import Request
from trxds.transport.subchannel import Subchannel
from trxds.transport.transport import SocketTransport

# Of a connection without requests: the last stream is 0.
GOAWAY_PROTOCOL_ERROR = frame(GOAWAY, 0, 0, bytes(4) + PROTOCOL_ERROR.to_bytes(4))

MANY = 64 * 1024 * 1024


async def echo(request: bytes, call: Call) -> bytes:
    return request


async def echo_all(requests, call: Call):
    async for message in requests:
        yield message


HANDLERS = {"/s/Echo": unary(echo), "/s/All": bidi_streaming(echo_all)}


@pytest.fixture
async def server():
    with reserved_address() as address:
        async with serve(HANDLERS, address=address, max_receive_size=MANY) as server:
            yield server


@pytest.fixture
async def connection(server, nursery):
    connection = Connection(await TcpNetwork().connect(server.address), peer=server.address)
    nursery.start_soon(connection.run)
    assert await connection.wait_ready()
    return connection


async def hello(connection: Connection, message: bytes) -> bytes | None:
    stream = connection.open_stream(Request("/s/Echo", "s", max_receive_size=MANY, one_reply=True))
    stream.send_nowait(message, end=True)
    return await stream.receive_unary()


@pytest.mark.parametrize("size", [0, 1, 65_536, 8 * 1024 * 1024])
async def test_a_unary_call_of_any_size(connection, size: int) -> None:
    assert await hello(connection, bytes(size)) == bytes(size)


async def test_two_hundred_calls_at_once(connection) -> None:
    replies: list[bytes | None] = []

    async def call(number: int) -> None:
        replies.append(await hello(connection, b"%d" % number * 500))

    async with trio.open_nursery() as nursery:
        for number in range(200):
            nursery.start_soon(call, number)
    assert sorted(replies) == sorted(b"%d" % number * 500 for number in range(200))


async def test_large_streams_both_ways_at_once(connection) -> None:
    stream = connection.open_stream(Request("/s/All", "s", max_receive_size=MANY))
    messages = [bytes([number]) * 700_000 for number in range(10)]

    async def send() -> None:
        for message in messages:
            assert await stream.send(message)
        stream.end()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        assert [await stream.receive() for _ in messages] == messages
    assert await stream.receive() is None and stream.status.ok


async def test_a_dropped_connection_fails_its_streams(server, connection) -> None:
    stream = connection.open_stream(Request("/s/All", "s"))
    await stream.send(b"x")
    assert await stream.receive() == b"x"
    server.drop_connections()
    assert await stream.receive() is None
    assert stream.status.code is StatusCode.UNAVAILABLE and server.address in stream.status.message


async def test_a_client_that_sends_on_after_its_error_gets_the_goaway_and_a_clean_end(server):
    async with await trio.open_tcp_stream(*split_address(server.address)) as client:
        # A PING on a stream is an error before its payload has come (RFC 9113 §6.7).
        await client.send_all(PREFACE + frame(SETTINGS, 0, 0) + frame(PING, 0, 3, bytes(8))[:9])
        received = b""
        while GOAWAY_PROTOCOL_ERROR not in received:
            received += await client.receive_some()
        await client.send_all(bytes(8))
        async for more in client:
            received += more
        assert received.endswith(GOAWAY_PROTOCOL_ERROR)


async def test_a_transport_lingers_until_its_peer_closes_or_its_time_is_over():
    ours, theirs = socket.socketpair()
    transport = SocketTransport(trio.SocketStream(trio.socket.from_stdlib_socket(ours)))
    with theirs, trio.fail_after(10):
        theirs.send(b"still under way")
        await transport.linger(0.01)  # the peer does not close
        theirs.close()
        await transport.linger(60)
        await transport.close()


async def test_a_subchannel_finds_its_restarted_server(server, nursery) -> None:
    pool = SubchannelPool(TcpNetwork(), WireOptions(), Random())
    nursery.start_soon(pool.run)
    queue: ConflatingQueue[Subchannel] = ConflatingQueue()
    host = pool.for_policies.lease(server.address, queue).subchannel

    async def until(state: Connectivity) -> None:
        while host.state is not state:
            await queue.next()

    for _ in range(2):
        host.request_connection()
        await until(Connectivity.READY)
        server.stop()
        await until(Connectivity.IDLE)
        await server.restart()
    pool.close()


async def test_a_refused_tcp_connection_has_the_systems_error_text(nursery) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        pool = SubchannelPool(TcpNetwork(), WireOptions(), Random())
        nursery.start_soon(pool.run)
        queue: ConflatingQueue[Subchannel] = ConflatingQueue()
        host = pool.for_policies.lease(address, queue).subchannel
        host.request_connection()
        while host.state is not Connectivity.TRANSIENT_FAILURE:
            await queue.next()
        assert host.error.message.startswith(f"{address}: cannot connect: Connection refused")
        pool.close()


@pytest.mark.parametrize(("scheme", "prefix"), [("unix:", ""), ("unix-abstract:", "\0")])
async def test_a_connection_is_made_to_a_unix_socket(scheme: str, prefix: str, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with trio.socket.socket(socket.AF_UNIX) as listener:
        await listener.bind(f"{prefix}{path}")
        listener.listen()
        async with await TcpNetwork().connect(f"{scheme}{path}") as stream:
            await stream.send_all(b"x")
            accepted, _ = await listener.accept()
            with accepted:
                assert await accepted.recv(1) == b"x"


def test_addresses_split_into_host_and_port() -> None:
    assert split_address("10.0.0.1:443") == ("10.0.0.1", 443)
    assert split_address("[::1]:443") == ("::1", 443)


@pytest.mark.parametrize("address", ["10.0.0.1", "10.0.0.1:http", "10.0.0.1:²", "443", ""])
def test_an_address_without_a_port_is_an_error_that_says_so(address: str) -> None:
    with pytest.raises(OSError, match="has no port; write it as host:port"):
        split_address(address)


@pytest.mark.parametrize("address", ["10.0.0.1:65536", "[::1]:" + "9" * 5000])
def test_an_address_with_a_port_above_the_largest_is_an_error_that_says_so(address: str) -> None:
    with pytest.raises(OSError, match="has a port above 65535, the largest"):
        split_address(address)
    assert split_address("10.0.0.1:65535") == ("10.0.0.1", 65535)


@pytest.mark.parametrize(
    ("host", "listens"),
    [("127.0.0.1",) * 2, pytest.param("[::1]", "::1", marks=needs_ipv6), ("localhost", "127.0.0.1")],
)
async def test_a_connection_is_made_to_an_address_of_either_family_and_to_a_name(host: str, listens: str) -> None:
    (listener,) = await trio.open_tcp_listeners(0, host=listens)
    port = listener.socket.getsockname()[1]
    async with listener, await TcpNetwork().connect(f"{host}:{port}") as stream:
        assert stream.socket.getpeername()[1] == port


async def ask(connection: Connection) -> None:
    """Make a unary call, whose message leaves with its headers."""
    await connection.open_stream(Request("/s/Echo", "s", message=b"x", one_reply=True)).receive_unary()


def writers(server) -> int:
    return task_names().count(f"transport/writer/{server.address}")


async def test_sequential_calls_start_no_writer_task(connection, server) -> None:
    for _ in range(3):
        await ask(connection)
    assert writers(server) == 0


async def test_concurrent_calls_share_one_writer_task(connection, server) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(ask, connection)
    assert writers(server) == 1


async def test_a_writer_does_not_inherit_the_context_of_the_call_that_started_it(connection, server) -> None:
    span: ContextVar[str] = ContextVar("span", default="none")
    span.set("of an RPC")
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(ask, connection)
    (writer,) = (task for task in all_tasks() if task.name == f"transport/writer/{server.address}")
    assert span not in writer.context


async def test_the_writer_sends_bytes_that_the_tcp_socket_does_not_take(connection, server) -> None:
    assert await hello(connection, bytes(MANY // 4)) == bytes(MANY // 4)
    assert writers(server) == 1


async def test_a_client_that_has_bound_its_unix_socket_is_named_by_its_path(tmp_path: Path, nursery) -> None:
    async def name(request: bytes, call: Call) -> bytes:
        return call.peer.encode()

    async with serve({"/s/Echo": unary(name)}, address=f"unix:{tmp_path}/server") as server:
        bound = trio.socket.socket(socket.AF_UNIX)
        await bound.bind(f"{tmp_path}/client")
        await bound.connect(f"{tmp_path}/server")
        connection = Connection(trio.SocketStream(bound), peer=server.address)
        nursery.start_soon(connection.run)
        assert await connection.wait_ready()
        assert await hello(connection, b"") == f"unix:{tmp_path}/client".encode()
