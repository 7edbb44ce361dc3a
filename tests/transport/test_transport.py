"""A socket's transport sends bytes at once, in order, and loses none; with real sockets and the real clock."""

from __future__ import annotations

import errno
import socket
from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trxds.core.status import OK
from trxds.testing import Call, bidi_streaming, serve, unary
from trxds.testing.network import memory_stream_pair
from trxds.transport.connection import Connection
from trxds.transport.options import WireOptions
from trxds.transport.request import Request
from trxds.transport.transport import READ_SIZE, Transport, transport_of


async def sockets() -> tuple[trio.SocketStream, socket.socket]:
    """Return our stream and the platform's socket at the other end."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(5)
    return trio.SocketStream(trio.socket.from_stdlib_socket(ours)), theirs


async def test_a_socket_takes_bytes_at_once() -> None:
    stream, theirs = await sockets()
    with theirs:
        assert transport_of(stream).send_nowait(b"hello") == 5
        assert theirs.recv(100) == b"hello"
        await stream.aclose()


async def test_a_full_socket_takes_no_bytes() -> None:
    stream, theirs = await sockets()
    with theirs:
        transport = transport_of(stream)
        while transport.send_nowait(bytes(100_000)):
            pass
        assert transport.send_nowait(b"x") == 0
        await stream.aclose()


async def test_streams_without_a_socket_leave_all_bytes_to_the_writer() -> None:
    stream, _ = memory_stream_pair()
    transport = transport_of(stream)
    assert not transport.at_once and transport.send_nowait(b"x") == 0


async def test_the_read_size_grows_after_a_full_read_and_shrinks_again() -> None:
    stream, theirs = await sockets()
    transport, sizes = transport_of(stream), []
    with theirs:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1_000_000)
        for said in (READ_SIZE + 100_000, READ_SIZE + 1, 10, READ_SIZE + 1):
            theirs.sendall(bytes(said))
            while said:
                sizes.append(len(await transport.receive()))
                said -= sizes[-1]
        await stream.aclose()
    assert sizes == [READ_SIZE, 100_000, READ_SIZE + 1, 10, READ_SIZE, 1]


async def test_the_end_of_a_socket_is_read_as_no_bytes() -> None:
    stream, theirs = await sockets()
    theirs.sendall(b"last")
    theirs.close()
    transport = transport_of(stream)
    assert [await transport.receive(), await transport.receive()] == [b"last", b""]
    await transport.close()


async def test_a_reset_socket_is_a_broken_resource() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    stream = await trio.open_tcp_stream(*listener.getsockname())
    theirs, _ = listener.accept()
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    theirs.close()
    listener.close()
    transport = transport_of(stream)
    with pytest.raises(trio.BrokenResourceError, match="reset"):
        await transport.receive()
    assert transport.send_nowait(b"x") == 0  # not an exception in a caller's task
    await transport.close()


# -- under a connection


class Counted(Transport):
    """Counts how often a transport was called, and by which method."""

    at_once = True

    def __init__(self, under: Transport) -> None:
        self.under = under
        self.at_once_writes = 0
        self.later_writes = 0

    async def receive(self) -> bytes:
        return await self.under.receive()

    async def send_all(self, data: bytes | memoryview) -> None:
        self.later_writes += 1
        await self.under.send_all(data)

    def send_nowait(self, data: bytes) -> int:
        self.at_once_writes += 1
        return self.under.send_nowait(data)

    async def close(self) -> None:
        await self.under.close()


async def repeat(request: bytes, call: Call) -> bytes:
    return request


async def echo(requests, call: Call) -> AsyncIterator[bytes]:
    async for message in requests:
        yield message


@pytest.fixture(params=["lean", "h2"])
async def counted(request: pytest.FixtureRequest, nursery: trio.Nursery) -> AsyncIterator[tuple[Connection, Counted]]:
    """Return a connection over TCP after both prefaces."""
    async with serve({"/s/Repeat": unary(repeat), "/s/Echo": bidi_streaming(echo)}) as server:
        host, port = server.address.split(":")
        connection = Connection(
            await trio.open_tcp_stream(host, int(port)), peer="s", options=WireOptions(lean=request.param == "lean")
        )
        http2 = connection.http2
        counted = http2.reader.transport = http2.writer._transport = Counted(http2.reader.transport)
        nursery.start_soon(connection.run)
        stream = connection.open_stream(Request("/s/Repeat", "s", message=b""))
        await stream.receive_unary()
        counted.at_once_writes = counted.later_writes = 0
        yield connection, counted
        nursery.cancel_scope.cancel()


async def test_a_lone_calls_bytes_leave_in_its_own_step_and_in_one_write(counted) -> None:
    connection, transport = counted
    stream = connection.open_stream(Request("/s/Repeat", "s", message=b"hello"))
    assert transport.at_once_writes == 1 and connection.http2.engine.outgoing.unsent == 0
    assert await stream.receive_unary() == b"hello" and stream.status == OK


async def test_calls_of_one_step_leave_in_one_write_except_the_first(counted) -> None:
    connection, transport = counted
    streams = [connection.open_stream(Request("/s/Repeat", "s", message=b"%d" % n)) for n in range(20)]
    assert transport.at_once_writes == 1
    assert [await stream.receive_unary() for stream in streams] == [b"%d" % n for n in range(20)]
    assert transport.at_once_writes + transport.later_writes <= 4


async def test_bytes_that_the_socket_does_not_take_follow_in_order(counted) -> None:
    connection, _ = counted
    stream = connection.open_stream(Request("/s/Echo", "s"))
    message = bytes(range(256)) * 8000

    async def send() -> None:
        for _ in range(3):
            await stream.send(message)
        stream.end()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        for _ in range(3):
            assert await stream.receive() == message
        assert await stream.receive() is None
    assert stream.status == OK


# -- bytes that gather


async def tcp_sockets() -> tuple[trio.SocketStream, socket.socket]:
    """Return our stream and the platform's socket at the other end, over loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    theirs.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return trio.SocketStream(trio.socket.from_stdlib_socket(ours)), theirs


async def test_a_socket_wakes_its_reader_when_so_many_bytes_have_come() -> None:
    stream, theirs = await tcp_sockets()
    with theirs:
        transport = transport_of(stream)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(transport.gather, 10, 60)
            for _ in range(10):
                await wait_all_tasks_blocked(0.001)
                assert nursery.child_tasks
                theirs.sendall(b"x")
        assert await transport.receive() == b"x" * 10
        await stream.aclose()


async def test_a_socket_gathers_bytes_for_a_limited_time() -> None:
    stream, theirs = await tcp_sockets()
    with theirs:
        transport = transport_of(stream)
        theirs.sendall(b"x")
        await transport.gather(10, 0.001)
        assert await transport.receive() == b"x"
        await stream.aclose()


async def test_a_socket_is_readable_from_the_first_byte_after_bytes_have_gathered() -> None:
    stream, theirs = await tcp_sockets()
    with theirs:
        transport = transport_of(stream)
        await transport.gather(10, 0.001)
        theirs.sendall(b"x")
        assert await transport.receive() == b"x"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(transport.receive)
            await wait_all_tasks_blocked(0.001)
            theirs.sendall(b"y")
        await stream.aclose()


async def test_a_leader_is_woken_by_the_first_byte_after_bytes_have_gathered() -> None:
    stream, theirs = await tcp_sockets()
    with theirs:
        transport = transport_of(stream)
        theirs.sendall(b"x" * 10)
        await transport.gather(10, 60)
        await transport.receive()
        assert transport.enable_interrupt()
        theirs.sendall(b"x")
        with trio.fail_after(10):
            await transport.readable()
        await transport.close()


async def test_the_peers_end_ends_the_wait_for_bytes() -> None:
    stream, theirs = await tcp_sockets()
    transport = transport_of(stream)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(transport.gather, 10, 60)
        await wait_all_tasks_blocked(0.001)
        theirs.close()
    assert await transport.receive() == b""
    await stream.aclose()


async def test_a_unix_socket_and_other_streams_cannot_wait_for_several_bytes() -> None:
    stream, theirs = await sockets()
    with theirs:
        assert not transport_of(stream).can_gather and not transport_of(memory_stream_pair()[0]).can_gather
        await stream.aclose()


async def test_a_system_without_low_water_marks_does_not_gather_again(monkeypatch) -> None:
    stream, theirs = await tcp_sockets()
    with theirs:
        transport = transport_of(stream)
        monkeypatch.setattr(type(stream.socket), "setsockopt", refuse_option)
        theirs.sendall(b"x")
        await transport.gather(10, 60)
        assert await transport.receive() == b"x" and not transport.can_gather
        await stream.aclose()


def refuse_option(*_: object) -> None:
    raise OSError(errno.ENOPROTOOPT, "Protocol not available")
