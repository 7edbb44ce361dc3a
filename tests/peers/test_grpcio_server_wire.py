"""Our wire against real grpcio servers: the C++ stack judges every frame we send."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
import trio

from trxds.core.metadata import check, encode
from trxds.core.status import OK, Status, StatusCode
from trxds.transport.client_stream import ClientStream
from trxds.transport.connect import TcpNetwork
from trxds.transport.connection import Connection
from trxds.transport.request import Request

LIMIT = 32 * 1024 * 1024
SIZES = [1, 100, 16_384, 65_535, 65_536, 1_000_000, 8 * 1024 * 1024]


class Service(grpc.GenericRpcHandler):
    """All four kinds, on bytes."""

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        return {
            "/s/Echo": grpc.unary_unary_rpc_method_handler(self.echo),
            "/s/Sum": grpc.stream_unary_rpc_method_handler(self.sum),
            "/s/Count": grpc.unary_stream_rpc_method_handler(self.count),
            "/s/Chat": grpc.stream_stream_rpc_method_handler(self.chat),
            "/s/Fail": grpc.unary_unary_rpc_method_handler(self.fail),
            "/s/FailLate": grpc.unary_stream_rpc_method_handler(self.fail_late),
            "/s/Sleep": grpc.unary_unary_rpc_method_handler(self.sleep),
            "/s/Metadata": grpc.unary_unary_rpc_method_handler(self.metadata),
        }.get(details.method)

    def echo(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        return request

    def sum(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        return b"".join(requests)

    def count(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        for _ in range(5):
            yield request

    def chat(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        yield from requests

    def fail(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        context.set_trailing_metadata([("cost", "3"), ("trace-bin", b"\0\xff")])
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no € today\n100%")

    def fail_late(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        yield request
        context.abort(grpc.StatusCode.DATA_LOSS, "gone")

    def sleep(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        while context.is_active():
            time.sleep(0.01)
        return b""

    def metadata(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        context.send_initial_metadata([(key, value) for key, value in context.invocation_metadata() if key[:2] == "x-"])
        return str(context.time_remaining()).encode()


def start(**options: int) -> tuple[grpc.Server, str]:
    limits = {"grpc.max_receive_message_length": LIMIT, "grpc.max_send_message_length": LIMIT, **options}
    server = grpc.server(ThreadPoolExecutor(20), handlers=[Service()], options=[*limits.items()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, f"127.0.0.1:{port}"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server, address = start()
    yield address
    server.stop(0).wait()


async def connected(address: str, nursery: trio.Nursery) -> Connection:
    connection = Connection(await TcpNetwork().connect(address), peer=address)
    nursery.start_soon(connection.run)
    assert await connection.wait_ready()
    return connection


@pytest.fixture
async def connection(address: str, nursery: trio.Nursery) -> Connection:
    return await connected(address, nursery)


def opened(connection: Connection, path: str, **fields) -> ClientStream:
    stream = connection.open_stream(Request(path, "shop", max_receive_size=LIMIT, **fields))
    assert stream is not None
    return stream


async def unary(connection: Connection, path: str, message: bytes = b"x", **fields):
    """The reply and the stream."""
    stream = opened(connection, path, one_reply=True, **fields)
    stream.send_nowait(message, end=True)
    return await stream.receive_unary(), stream


@pytest.mark.parametrize("size", [0, *SIZES])
async def test_a_unary_call_to_a_grpcio_server(connection, size: int) -> None:
    reply, stream = await unary(connection, "/s/Echo", b"m" * size)
    assert reply == b"m" * size and stream.status == OK


@pytest.mark.parametrize("size", SIZES)
async def test_a_client_streaming_call_to_a_grpcio_server(connection, size: int) -> None:
    stream = opened(connection, "/s/Sum", one_reply=True)
    for number in range(3):
        assert await stream.send(bytes([number]) * size)
    stream.end()
    assert await stream.receive_unary() == b"".join(bytes([number]) * size for number in range(3))


@pytest.mark.parametrize("size", SIZES)
async def test_a_server_streaming_call_to_a_grpcio_server(connection, size: int) -> None:
    stream = opened(connection, "/s/Count")
    stream.send_nowait(b"m" * size, end=True)
    for _ in range(5):
        assert await stream.receive() == b"m" * size
    assert await stream.receive() is None and stream.status == OK


@pytest.mark.parametrize("size", SIZES)
async def test_a_bidi_call_to_a_grpcio_server_in_turns(connection, size: int) -> None:
    stream = opened(connection, "/s/Chat")
    for number in range(3):
        assert await stream.send(bytes([number]) * size)
        assert await stream.receive() == bytes([number]) * size
    stream.end()
    assert await stream.receive() is None and stream.status == OK


async def test_a_bidi_call_to_a_grpcio_server_both_ways_at_once(connection) -> None:
    stream = opened(connection, "/s/Chat")

    async def send() -> None:
        for size in SIZES:
            assert await stream.send(bytes(size))
        stream.end()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        assert [len(await stream.receive() or b"") for _ in SIZES] == SIZES
    assert await stream.receive() is None and stream.status == OK


async def test_a_stream_without_messages(connection) -> None:
    stream = opened(connection, "/s/Chat")
    stream.end()
    assert await stream.receive() is None and stream.status == OK


async def test_many_concurrent_calls_to_a_grpcio_server(connection) -> None:
    done: list[bool] = []

    async def call(number: int) -> None:
        reply, _ = await unary(connection, "/s/Echo", b"%d" % number * 20_000)
        done.append(reply == b"%d" % number * 20_000)

    async with trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(call, number)
    assert done == [True] * 100


async def test_status_message_and_trailers(connection) -> None:
    _, stream = await unary(connection, "/s/Fail")
    assert stream.status == Status(StatusCode.FAILED_PRECONDITION, "no € today\n100%")
    assert stream.trailing_metadata == (("cost", "3"), ("trace-bin", b"\0\xff"))


async def test_a_grpcio_server_may_fail_a_call_after_messages(connection) -> None:
    stream = opened(connection, "/s/FailLate")
    stream.send_nowait(b"x", end=True)
    assert await stream.receive() == b"x" and await stream.receive() is None
    assert stream.status == Status(StatusCode.DATA_LOSS, "gone") and not stream.trailers_only


async def test_an_unknown_method_of_a_grpcio_server_is_unimplemented(connection) -> None:
    _, stream = await unary(connection, "/s/Nothing")
    assert stream.status.code is StatusCode.UNIMPLEMENTED and stream.trailers_only


async def test_metadata_and_timeout_arrive(connection) -> None:
    metadata = encode(check([("x-user", "7"), ("x-trace-bin", b"\0\1\2"), ("x-user", "8")]))
    left, stream = await unary(connection, "/s/Metadata", metadata=metadata, deadline=trio.current_time() + 1000)
    assert 900 < float(left) <= 1000
    assert set(stream.initial_metadata) == {("x-user", "7"), ("x-user", "8"), ("x-trace-bin", b"\0\1\2")}


async def test_the_deadline_ends_a_call_at_the_server(connection) -> None:
    _, stream = await unary(connection, "/s/Sleep", deadline=trio.current_time() + 0.2)
    assert stream.status.code is StatusCode.DEADLINE_EXCEEDED


async def test_a_cancelled_call_leaves_the_connection_well(connection) -> None:
    for _ in range(20):
        stream = opened(connection, "/s/Chat")
        stream.send_nowait(bytes(300_000))
        with trio.move_on_after(0.002):
            await stream.receive()
        stream.cancel()
    reply, _ = await unary(connection, "/s/Echo", b"m" * 1_000_000)
    assert reply == b"m" * 1_000_000


async def test_the_servers_limit_of_streams_is_kept(nursery) -> None:
    server, address = start(**{"grpc.max_concurrent_streams": 2})
    connection = await connected(address, nursery)
    done: list[bytes | None] = []

    async def call() -> None:
        reply, stream = await unary(connection, "/s/Echo")
        while stream.refused:  # it counts a call until its last write is done, and we may be faster than that
            reply, stream = await unary(connection, "/s/Echo")
        done.append(reply)

    async with trio.open_nursery() as calls:
        for _ in range(30):
            calls.start_soon(call)
    assert done == [b"x"] * 30
    connection.drain()
    server.stop(0)


async def test_a_server_that_stops_gracefully_lets_old_calls_finish(nursery) -> None:
    server, address = start()
    connection = await connected(address, nursery)
    stream = opened(connection, "/s/Chat")
    await stream.send(b"1")
    assert await stream.receive() == b"1"
    stopped = server.stop(60)
    with trio.fail_after(60):
        while connection.error is None:
            await trio.lowlevel.checkpoint()
    assert connection.open_stream(Request("/s/Echo", "s")) is None
    assert await stream.send(b"2", end=True)
    assert await stream.receive() == b"2" and await stream.receive() is None
    assert stream.status == OK
    with trio.fail_after(60):
        while connection.closed_status is None:
            await trio.lowlevel.checkpoint()
    stopped.wait(60)


async def test_a_server_that_dies_fails_its_calls(nursery) -> None:
    server, address = start()
    connection = await connected(address, nursery)
    stream = opened(connection, "/s/Chat")
    await stream.send(b"1")
    assert await stream.receive() == b"1"
    server.stop(0)
    assert await stream.receive() is None
    assert stream.status.code in (StatusCode.UNAVAILABLE, StatusCode.CANCELLED)
