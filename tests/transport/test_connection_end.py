"""A connection ends by GOAWAY, by loss, or by our own decision; the test controls the server."""

from __future__ import annotations

import os

import h2.events
import pytest
import trio
from h2.settings import SettingCodes
from hyperframe.frame import RstStreamFrame
from trio.testing import wait_all_tasks_blocked

from trxds.core.status import OK, Status, StatusCode
from trxds.testing.network import memory_stream_pair
from trxds.transport.connection import Connection
from trxds.transport.connection_tasks import ConnectionTasks
from trxds.transport.framing import frame


async def test_old_streams_finish_after_a_goaway_and_then_the_connection_ends(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_())
    stream_id = await server.request()
    server.transport_data = server.h2.close_connection(last_stream_id=stream_id)
    await server.flush()
    await wait_all_tasks_blocked()
    assert connection.open_stream(request_()) is None
    assert connection.error == Status(StatusCode.UNAVAILABLE, "10.0.0.1:443: GOAWAY NO_ERROR")
    server.h2.state_machine.state = h2.connection.ConnectionState.SERVER_OPEN  # h2 would send no more
    await server.answer(stream_id, b"still here")
    assert await stream.receive_unary() == b"still here"
    await wait_all_tasks_blocked()
    assert connection.closed_status is not None


async def test_a_goaway_refuses_streams_that_the_server_has_not_processed(wire, request_, autojump_clock) -> None:
    connection, server = await wire({SettingCodes.MAX_CONCURRENT_STREAMS: 2})
    first, second, queued = (connection.open_stream(request_()) for _ in range(3))
    server.h2.close_connection(11, b"too_many_pings", last_stream_id=first.id)
    await server.flush()
    assert not await queued.wait_open()
    assert first.status is None
    assert second.refused and queued.refused
    assert second.status == Status(StatusCode.UNAVAILABLE, "10.0.0.1:443: GOAWAY ENHANCE_YOUR_CALM: too_many_pings")


async def test_on_draining_is_called_before_any_stream_is_refused(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_())
    seen: list[tuple[object, object]] = []

    class Owner:
        def on_draining(self, connection: Connection) -> None:
            seen.append((connection.open_stream(request_()), stream.status))

    connection.owner = Owner()
    server.h2.close_connection(last_stream_id=0)
    await server.flush()
    await stream.receive()
    assert seen == [(None, None)] and stream.refused


async def test_a_draining_connection_closes_after_its_last_stream(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_())
    connection.drain()
    assert connection.open_stream(request_()) is None and connection.closed_status is None
    await server.answer(await server.request(), b"done")
    assert await stream.receive_unary() == b"done"
    await server.next(h2.events.ConnectionTerminated)
    assert connection.closed_status is not None


async def test_closing_a_connection_fails_every_stream_at_once(wire, request_, autojump_clock) -> None:
    connection, _ = await wire({SettingCodes.MAX_CONCURRENT_STREAMS: 1})
    streams = [connection.open_stream(request_()) for _ in range(2)]
    closed = Status(StatusCode.CANCELLED, "channel closed")
    connection.close(closed)
    assert [stream.status for stream in streams] == [closed, closed]


async def test_closing_a_connection_does_not_wait_for_a_peer_that_does_not_read(autojump_clock, request_) -> None:
    ours, _ = memory_stream_pair(capacity=10)
    connection = Connection(ours, peer="stuck")
    with trio.fail_after(2):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.run)
            await wait_all_tasks_blocked()
            connection.close(Status(StatusCode.CANCELLED))


async def test_a_lost_connection_fails_its_streams_and_names_the_peer(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_())
    await server.request()
    server.transport.cut()
    assert await stream.receive() is None
    text = "10.0.0.1:443: connection lost: Connection reset by peer"
    assert stream.status == Status(StatusCode.UNAVAILABLE, text)
    assert not stream.refused and connection.error == stream.status


async def test_the_peers_end_of_stream_ends_the_connection(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_())
    await server.request()
    await server.transport.aclose()
    assert await stream.receive() is None
    assert stream.status == Status(StatusCode.UNAVAILABLE, "10.0.0.1:443: connection closed by the peer")


async def test_the_error_of_a_stream_that_a_goaway_left_open_has_the_goaways_reason(
    wire, request_, autojump_clock
) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_())
    server.h2.close_connection(11, b"too_many_pings", last_stream_id=await server.request())
    await server.flush()
    await server.transport.aclose()
    assert await stream.receive() is None
    text = "10.0.0.1:443: connection closed by the peer, after GOAWAY ENHANCE_YOUR_CALM: too_many_pings"
    assert stream.status == Status(StatusCode.UNAVAILABLE, text)


async def test_the_error_of_a_stream_that_is_reset_after_a_goaway_has_the_goaways_reason(
    wire, request_, autojump_clock
) -> None:
    """As grpc-java's server does at shutdownNow()."""
    connection, server = await wire()
    stream = connection.open_stream(request_())
    server.h2.close_connection(0, b"app_requested", last_stream_id=await server.request())
    await server.flush()
    await server.transport.send_all(RstStreamFrame(stream.id, error_code=8).serialize())
    assert await stream.receive() is None
    text = "the server reset the stream: CANCEL, after GOAWAY NO_ERROR: app_requested"
    assert stream.status == Status(StatusCode.CANCELLED, text)


async def test_a_stream_whose_headers_never_left_may_be_sent_again(wire, request_, autojump_clock) -> None:
    connection, server = await wire(capacity=400)
    stuck = connection.open_stream(request_())
    stuck.send_nowait(bytes(1000))
    await wait_all_tasks_blocked()  # the writer is in the middle of this
    unwritten = connection.open_stream(request_())
    server.transport.cut()
    await unwritten.receive()
    assert unwritten.refused and not stuck.refused


async def test_a_goaway_is_read_also_if_the_rest_of_a_request_finds_the_connection_closed(
    wire, request_, autojump_clock
) -> None:
    """Whichever task wakes first, the reader or the writer: a call that the server has not processed is sent again."""
    for _ in range(10):
        connection, server = await wire({SettingCodes.INITIAL_WINDOW_SIZE: 1 << 24}, sockets=True)
        server.h2.increment_flow_control_window(1 << 24)
        await server.flush()
        first = connection.open_stream(request_())
        stream_id = await server.request()
        first.send_nowait(bytes(1 << 23))  # more than the socket takes
        second = connection.open_stream(request_())
        await wait_all_tasks_blocked()
        server.h2.close_connection(11, b"too_many_pings", last_stream_id=stream_id)
        os.write(server.transport.socket.fileno(), server.h2.data_to_send())  # no task runs before it is closed
        server.transport.socket.close()
        assert await second.receive() is None and await first.receive() is None
        reason = "GOAWAY ENHANCE_YOUR_CALM: too_many_pings"
        assert second.refused and second.status.message.endswith(reason)
        assert not first.refused and first.status.message.endswith(f", after {reason}")


async def test_invalid_bytes_are_a_protocol_error_that_names_the_peer(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_())
    await server.request()
    await server.transport.send_all(b"\xff" * 100)
    assert await stream.receive() is None
    assert stream.status.code is StatusCode.UNAVAILABLE
    assert stream.status.message.startswith("10.0.0.1:443: FRAME_SIZE_ERROR: frame of 16777215 bytes")


async def test_a_peer_of_another_protocol_is_never_ready(autojump_clock) -> None:
    ours, theirs = memory_stream_pair()
    connection = Connection(ours, peer="web:80")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        await theirs.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        assert not await connection.wait_ready()
    assert "web:80" in str(connection.error) and "HTTP/1" in str(connection.error)


async def test_a_cancelled_connection_leaves_no_task_and_no_transport(autojump_clock, request_) -> None:
    ours, theirs = memory_stream_pair()
    connection = Connection(ours, peer="there")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        stream = connection.open_stream(request_())
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert stream.status == Status(StatusCode.UNAVAILABLE, "there: the connection was shut down")
    with pytest.raises(trio.ClosedResourceError):
        await ours.receive_some()
    with pytest.raises(trio.BrokenResourceError):
        await theirs.send_all(b"x")


async def test_no_task_of_a_connection_starts_while_it_ends(nursery) -> None:
    # If a pool is cancelled, the first of a host's connections to end may have the health watched on the next one.
    tasks = ConnectionTasks("host")
    tasks.open(nursery)
    tasks.close()
    tasks.start(trio.sleep_forever, name="health")
    assert not nursery.child_tasks


async def test_the_repr_of_a_connection_and_its_streams_is_short(wire, request_, autojump_clock) -> None:
    connection, _ = await wire()
    stream = connection.open_stream(request_())
    assert repr(connection) == "<Connection 10.0.0.1:443 open, 1 streams>"
    assert repr(stream) == "<ClientStream 1 /shop.Cart/Add at 10.0.0.1:443: open>"
    stream.cancel()
    assert repr(stream) == "<ClientStream 1 /shop.Cart/Add at 10.0.0.1:443: CANCELLED: cancelled by the client>"


async def test_a_call_that_is_dropped_after_its_end_keeps_none_of_its_messages(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_())
    stream_id = await server.request()
    server.h2.send_headers(stream_id, [(":status", "200"), ("content-type", "application/grpc")])
    server.h2.send_data(stream_id, 3 * frame(b"message"))
    server.h2.send_headers(stream_id, [("grpc-status", "0")], end_stream=True)
    await server.flush()
    await wait_all_tasks_blocked()
    stream.cancel()
    assert await stream.receive() is None and stream.status == OK
