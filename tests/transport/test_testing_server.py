"""The server of tests and demos."""

from __future__ import annotations

import contextlib
import ssl

import pytest
import trio
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message_factory import GetMessageClass
from trio.testing import wait_all_tasks_blocked

import trxds.admin
from trxds.core.metadata import check, encode
from trxds.core.status import OK, Status, StatusCode
from trxds.testing import (
    Call,
    ManagementServer,
    MemoryNetwork,
    Server,
    client_streaming,
    serve,
    server_streaming,
    unary,
)
from trxds.transport.client_stream import ClientStream
from trxds.transport.connection import Connection
from trxds.transport.request import Request


@pytest.fixture
async def server(network: MemoryNetwork):
    async with serve(network=network, address="s:1") as server:
        yield server


@pytest.fixture
async def connection(network: MemoryNetwork, server: Server, nursery: trio.Nursery) -> Connection:
    connection = Connection(await network.connect("s:1"), peer="s:1")
    nursery.start_soon(connection.run)
    assert await connection.wait_ready()
    return connection


def call(connection: Connection, path: str = "/s/M", message: bytes | None = b"", **fields) -> ClientStream:
    stream = connection.open_stream(Request(path, "shop", **fields))
    assert stream is not None
    if message is not None:
        stream.send_nowait(message, end=True)
    return stream


async def test_a_handler_sees_what_the_client_sent(server, connection, autojump_clock) -> None:
    seen: list[object] = []

    async def handler(call: Call) -> None:
        seen.extend((call.path, call.metadata, call.authority, call.timeout, call.deadline - trio.current_time()))

    server.fallback = handler
    metadata = encode(check([("user", "7"), ("trace-bin", b"\0\1")]))
    stream = call(connection, metadata=metadata, deadline=trio.current_time() + 3)
    assert await stream.receive() is None and stream.status == OK
    path, received, authority, timeout, left = seen
    assert (path, authority, timeout, left) == ("/s/M", "shop", pytest.approx(3), pytest.approx(3))
    assert received.first("user") == "7" and received.first("trace-bin") == b"\0\1"


async def test_initial_metadata_can_come_before_any_message(server, connection, autojump_clock) -> None:
    async def handler(call: Call) -> None:
        await call.send_initial_metadata([("set-cookie", "a=b")])
        await trio.sleep(5)
        call.set_trailing_metadata([("cost", "3")])

    server.fallback = handler
    stream = call(connection)
    await stream.wait_headers()
    assert stream.initial_metadata == (("set-cookie", "a=b"),) and stream.status is None
    await stream.receive()
    assert stream.trailing_metadata == (("cost", "3"),)


async def test_abort_ends_the_call_with_its_status(server, connection, autojump_clock) -> None:
    async def handler(call: Call) -> None:
        call.abort(StatusCode.NOT_FOUND, "no €\n", b"why")

    server.fallback = handler
    stream = call(connection)
    await stream.receive()
    assert stream.status == Status(StatusCode.NOT_FOUND, "no €\n", b"why") and stream.trailers_only


async def test_initial_metadata_after_the_first_message_is_an_error(server, connection, autojump_clock) -> None:
    async def handler(call: Call) -> None:
        await call.send(b"first")
        await call.send_initial_metadata()  # nothing is lost
        await call.send_initial_metadata([("cost", "3")])

    server.fallback = handler
    stream = call(connection)
    assert await stream.receive() == b"first"
    assert await stream.receive() is None
    assert stream.status.message.startswith("RuntimeError: the initial metadata was sent, by the first message at the")


@pytest.mark.parametrize("arguments", [("NOT_FOUND", ""), (StatusCode.NOT_FOUND, LookupError("sku")), (5, "", "why")])
async def test_an_abort_with_another_type_fails_its_call_and_not_the_server(
    server, connection, arguments, autojump_clock
) -> None:
    async def handler(call: Call) -> None:
        call.abort(*arguments)

    server.fallback = handler
    for _ in range(2):
        stream = call(connection)
        assert await stream.receive() is None and stream.status.code is StatusCode.UNKNOWN
        assert stream.status.message.startswith("TypeError: abort takes a trxds.StatusCode, a text and bytes, not ")


async def test_abort_in_a_nursery_of_the_handler_ends_the_call_with_its_status(
    server, connection, caplog, autojump_clock
) -> None:
    async def not_found(call: Call) -> None:
        call.abort(StatusCode.NOT_FOUND, "no such cart")

    async def handler(call: Call) -> None:
        async with trio.open_nursery() as nursery, trio.open_nursery() as inner:
            nursery.start_soon(trio.sleep_forever)
            inner.start_soon(not_found, call)

    server.fallback = handler
    stream = call(connection)
    await stream.receive()
    assert stream.status == Status(StatusCode.NOT_FOUND, "no such cart")
    assert caplog.text == ""


async def test_an_exception_beside_an_abort_is_logged(server, connection, caplog, autojump_clock) -> None:
    async def handler(call: Call) -> None:
        async with trio.open_nursery():
            try:
                call.abort(StatusCode.NOT_FOUND, "no such cart")
            except Exception as abort:
                raise ExceptionGroup("both", [LookupError("sku"), abort]) from None

    server.fallback = handler
    stream = call(connection)
    await stream.receive()
    assert stream.status == Status(StatusCode.NOT_FOUND, "no such cart")
    assert "LookupError: sku" in caplog.text and "no such cart" not in caplog.text


async def test_an_exception_of_a_handler_is_unknown_and_logged(server, connection, caplog, autojump_clock) -> None:
    async def handler(call: Call) -> None:
        raise LookupError("sku")

    server.fallback = handler
    stream = call(connection)
    await stream.receive()
    assert stream.status == Status(StatusCode.UNKNOWN, "LookupError: sku")
    assert "handler of /s/M failed" in caplog.text


async def test_a_call_without_a_handler_is_unimplemented(connection, autojump_clock) -> None:
    stream = call(connection, "/s/Nothing")
    await stream.receive()
    assert stream.status == Status(StatusCode.UNIMPLEMENTED, "no handler for /s/Nothing")


async def test_a_handler_is_cancelled_when_its_client_cancels(server, connection, autojump_clock) -> None:
    cancelled = trio.Event()

    async def handler(call: Call) -> None:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    server.fallback = handler
    stream = call(connection)
    await wait_all_tasks_blocked()
    stream.cancel()
    await cancelled.wait()
    await wait_all_tasks_blocked()
    assert server.calls[0].status.code is StatusCode.CANCELLED
    assert repr(server.connections[0]).endswith("0 calls>")


async def test_the_server_enforces_the_deadline_too(server, connection, autojump_clock) -> None:
    async def handler(call: Call) -> None:
        await trio.sleep_forever()

    server.fallback = handler
    stream = call(connection, deadline=trio.current_time() + 2)
    await stream.receive()
    assert stream.status == Status(StatusCode.DEADLINE_EXCEEDED, "the deadline passed at the server")
    assert trio.current_time() < 2.1


async def test_handlers_are_made_from_functions_of_all_four_kinds(server, connection, autojump_clock) -> None:
    async def upper(request: str, call: Call) -> str:
        return request.upper()

    async def letters(request: str, call: Call):
        for letter in request:
            yield letter

    async def join(requests, call: Call) -> str:
        return "".join([request async for request in requests])

    codec = (bytes.decode, str.encode)
    server.handlers["/s/Upper"] = unary(upper, *codec)
    server.handlers["/s/Letters"] = server_streaming(letters, *codec)
    server.handlers["/s/Join"] = client_streaming(join, *codec)
    assert await call(connection, "/s/Upper", b"abc").receive_unary() == b"ABC"
    stream = call(connection, "/s/Letters", b"abc")
    assert [await stream.receive() for _ in range(4)] == [b"a", b"b", b"c", None]
    stream = call(connection, "/s/Join", None)
    for letter in (b"x", b"y"):
        await stream.send(letter)
    stream.end()
    assert await stream.receive_unary() == b"xy"


async def test_a_protobuf_service_gets_parsed_messages(server, connection, autojump_clock) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="wire_test.proto", package="t", syntax="proto3")
    file.message_type.add(name="Text").field.add(name="text", number=1, type=9, label=1)
    service = file.service.add(name="Greeter")
    service.method.add(name="Hello", input_type=".t.Text", output_type=".t.Text")
    service.method.add(name="Many", input_type=".t.Text", output_type=".t.Text", server_streaming=True)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    Text = GetMessageClass(pool.FindMessageTypeByName("t.Text"))

    class Greeter:
        async def Hello(self, request, call: Call):
            return Text(text=f"hello {request.text}")

        async def Many(self, request, call: Call):
            for number in range(2):
                yield Text(text=f"{request.text}{number}")

    server.add_service(pool.FindServiceByName("t.Greeter"), Greeter())
    reply = await call(connection, "/t.Greeter/Hello", Text(text="you").SerializeToString()).receive_unary()
    assert Text.FromString(reply).text == "hello you"
    stream = call(connection, "/t.Greeter/Many", Text(text="n").SerializeToString())
    assert [Text.FromString(await stream.receive()).text for _ in range(2)] == ["n0", "n1"]


async def test_a_handler_may_reset_the_stream_in_place_of_a_status(server, connection, autojump_clock) -> None:
    async def handler(call: Call) -> None:
        await call.send(b"first")
        call.reset(11)

    server.fallback = handler
    stream = call(connection)
    assert await stream.receive() == b"first"
    assert await stream.receive() is None and stream.status.code is StatusCode.RESOURCE_EXHAUSTED


async def test_the_stream_limit_is_announced_to_clients(network, autojump_clock, nursery) -> None:
    async with serve(network=network, address="s:2", max_concurrent_streams=3):
        connection = Connection(await network.connect("s:2"), peer="s:2")
        nursery.start_soon(connection.run)
        await connection.wait_ready()
        assert connection.http2.engine.peer_max_streams == 3


@pytest.mark.parametrize("steps", range(8))
async def test_a_server_that_stops_drops_connections_that_it_has_just_accepted(
    network, server, autojump_clock, steps: int
) -> None:
    transport = await network.connect("s:1")
    for _ in range(steps):
        await trio.lowlevel.checkpoint()
    server.stop()
    with trio.fail_after(1), contextlib.suppress(trio.BrokenResourceError):
        while await transport.receive_some():
            pass


async def test_a_server_that_stops_drops_connections_in_their_tls_handshake(network, autojump_clock) -> None:
    async with serve(network=network, address="s:2", tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)) as server:
        transport = await network.connect("s:2")
        await wait_all_tasks_blocked()
        server.stop()
        with trio.fail_after(1), contextlib.suppress(trio.BrokenResourceError):
            assert await transport.receive_some() == b""


async def test_a_stopped_server_refuses_until_it_is_restarted(network, server, connection, autojump_clock) -> None:
    server.stop()
    await wait_all_tasks_blocked()
    assert connection.closed_status is not None and repr(server) == "<Server s:1 stopped, 0 connections>"
    with pytest.raises(ConnectionRefusedError):
        await network.connect("s:1")
    await server.restart()
    await network.connect("s:1")
    await wait_all_tasks_blocked()
    assert repr(server) == "<Server s:1 listening, 1 connections>"


async def test_an_exception_of_the_serve_block_is_not_in_a_group(network, autojump_clock) -> None:
    with pytest.raises(KeyError):
        async with serve(network=network, address="s:3"):
            raise KeyError


async def simple(request: bytes, call: Call) -> bytes:
    return request


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"handlers": {"/s/M": simple}}, TypeError, "the handler of /s/M takes other arguments .*; wrap .* in unary"),
        ({"handlers": {"/s/M": None}}, TypeError, "the handler of /s/M is a function of the call, not NoneType"),
        ({"handlers": {"s/M": unary(simple)}}, ValueError, "handler path 's/M' is not of the form /package.Service/"),
        ({"handlers": [simple]}, TypeError, "handlers is a mapping .*; `add_service` takes a servicer, not "),
        ({"address": 50051}, TypeError, "address is a text such as '127.0.0.1:0', not int"),
        (
            {"network": MemoryNetwork},
            TypeError,
            r"network is <class .*; it must be an object such as MemoryNetwork\(\)",
        ),
        ({"network": "10.0.0.1"}, TypeError, "network is '10.0.0.1'; it must be an object"),
        ({"fallback": simple}, TypeError, "fallback takes other arguments than the call"),
        ({"limits": 5}, TypeError, "limits is a ServerLimits, not int"),
        ({"tls": 5}, TypeError, "tls is an ssl.SSLContext, or None, not int"),
        ({"max_receive_size": "x"}, ValueError, "max_receive_size is 'x'; it must be a whole number of bytes from 0"),
        ({"max_receive_size": -1}, ValueError, "max_receive_size is -1; it must be a whole number of bytes from 0"),
        ({"max_concurrent_streams": -1}, ValueError, "max_concurrent_streams is -1; .* from 0 to 4294967295, or None"),
        ({"max_concurrent_streams": 2**32}, ValueError, "max_concurrent_streams is 4294967296; it must be a whole"),
    ],
)
async def test_a_wrong_argument_of_a_server_is_an_error_before_it_serves(arguments, error, text) -> None:
    with pytest.raises(error, match=text):
        async with serve(**arguments):
            pytest.fail("it serves")


async def test_a_server_that_cannot_listen_raises_an_os_error() -> None:
    plane = ManagementServer()
    async with serve() as taken:
        for another in (serve, plane.serve, trxds.admin.serve):
            with pytest.raises(OSError, match=r"Address already in use|listens there already"):
                async with another(address=taken.address):
                    pytest.fail("two listen at one address")


async def test_the_error_of_a_server_that_cannot_listen_names_its_address() -> None:
    async with serve() as taken:
        with pytest.raises(OSError, match=f"{taken.address}: Address already in use"):
            async with serve(address=taken.address):
                pytest.fail("two listen at one address")


async def test_a_server_listens_at_one_of_the_addresses_of_a_name(monkeypatch) -> None:
    resolve = trio.socket.getaddrinfo

    async def two(host, *rest, **options):
        return [info for ip in ("127.0.0.1", "127.0.0.2") for info in await resolve(ip, *rest, **options)]

    monkeypatch.setattr(trio.socket, "getaddrinfo", two)
    async with serve(address="localhost:0") as server:
        assert server.address.startswith("127.0.0.1:")


async def test_a_server_that_does_not_run_is_not_restarted() -> None:
    with pytest.raises(RuntimeError, match="the server is not running; use `async with serve"):
        await Server().restart()
