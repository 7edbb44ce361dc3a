"""A connection's streams, with a server that the test controls."""

from __future__ import annotations

import gc
import weakref

import h2.events
import pytest
import trio
from h2.settings import SettingCodes
from trio.testing import wait_all_tasks_blocked

from trxds.core.status import OK, Status, StatusCode
from trxds.transport.client_stream import ClientStream
from trxds.transport.response import NO_REPLY


async def answered(stream: ClientStream) -> tuple[bytes | None, Status | None]:
    return await stream.receive_unary(), stream.status


# -- calls


async def test_a_unary_call(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_())
    assert stream.send_nowait(b"add sku", end=True)
    stream_id = await server.request()
    await server.answer(stream_id, b"added", [("grpc-status", "0"), ("cost", "3")])
    assert await stream.receive_unary() == b"added"
    assert stream.status == OK
    assert stream.initial_metadata == ()
    assert stream.trailing_metadata == (("cost", "3"),)


async def test_headers_and_message_leave_in_one_write(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    await wait_all_tasks_blocked()
    await server.read()
    server.seen.clear()
    connection.open_stream(request_()).send_nowait(b"x", end=True)
    await server.read()
    kinds = [type(event) for event in server.seen]
    assert kinds == [h2.events.RequestReceived, h2.events.DataReceived, h2.events.StreamEnded]


async def test_an_answer_in_pieces_wakes_a_unary_call_once(wire, request_, autojump_clock, nursery) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_())
    stream.send_nowait(b"x", end=True)
    steps: list[object] = []

    class Steps(trio.abc.Instrument):
        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            if task.name == "caller":
                steps.append(task)

    nursery.start_soon(stream.receive_unary, name="caller")
    stream_id = await server.request()
    await wait_all_tasks_blocked()
    trio.lowlevel.add_instrument(instrument := Steps())
    await server.answer(stream_id, b"y")
    await wait_all_tasks_blocked()
    trio.lowlevel.remove_instrument(instrument)
    assert len(steps) == 1


async def test_the_request_has_the_headers_that_grpc_requires(wire, request_) -> None:
    connection, server = await wire()
    connection.open_stream(request_(metadata=[(b"user", b"7")], deadline=trio.current_time() + 2.5))
    event = await server.next(h2.events.RequestReceived)
    headers = dict(event.headers)
    timeout = headers.pop("grpc-timeout")
    assert timeout.endswith("u") and 2.0 < int(timeout[:-1]) / 1e6 <= 2.5
    assert headers.pop("user-agent").startswith("grpc-python-trxds/")
    assert headers == {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/shop.Cart/Add",
        ":authority": "shop",
        "te": "trailers",
        "content-type": "application/grpc",
        "grpc-accept-encoding": "identity,deflate,gzip",
        "user": "7",
    }


async def test_headers_above_the_servers_limit_are_not_sent(wire, request_, autojump_clock) -> None:
    connection, _ = await wire({SettingCodes.MAX_HEADER_LIST_SIZE: 1000})
    await connection.wait_ready()
    taken = connection.open_stream(request_(metadata=[(b"user", b"7" * 400)]))
    refused = connection.open_stream(request_(metadata=[(b"user", b"7" * 1000)]))
    assert taken.status is None and taken.id
    assert (refused.id, refused.refused, refused.status.code) == (0, False, StatusCode.RESOURCE_EXHAUSTED)
    assert "more than the 1000 that it takes; send less metadata" in refused.status.message
    assert len(connection.streams) == 1


async def test_large_metadata_does_not_outlive_its_call(wire, request_, autojump_clock) -> None:
    class Tokens(list):  # of which a weak reference can be had
        pass

    connection, _ = await wire({SettingCodes.MAX_HEADER_LIST_SIZE: 200_000})
    await connection.wait_ready()
    metadata = Tokens([(b"user", b"7" * 100_000)])
    gone = weakref.ref(metadata)
    connection.open_stream(request_(metadata=metadata)).cancel()
    del metadata
    gc.collect()
    assert gone() is None


async def test_a_lower_header_limit_in_later_settings_refuses_the_same_headers(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    metadata = [(b"user", b"7" * 1000)]
    assert connection.open_stream(request_(metadata=metadata)).id
    server.h2.update_settings({SettingCodes.MAX_HEADER_LIST_SIZE: 1000})
    await server.flush()
    await wait_all_tasks_blocked()
    assert connection.open_stream(request_(metadata=metadata)).refused is False
    assert len(connection.streams) == 1


async def test_one_task_sends_while_another_receives(wire, request_, autojump_clock, nursery) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_())
    received: list[bytes] = []

    async def receive() -> None:
        while (message := await stream.receive()) is not None:
            received.append(message)

    nursery.start_soon(receive)
    for number in range(3):
        assert await stream.send(b"%d" % number)
    stream.end()
    stream_id = await server.request()
    await server.request_end(stream_id)
    await server.answer(stream_id, b"bye")
    await wait_all_tasks_blocked()
    assert received == [b"bye"] and stream.status == OK


async def test_two_tasks_may_not_receive_at_once(wire, request_, autojump_clock, nursery) -> None:
    connection, _ = await wire()
    stream = connection.open_stream(request_())
    nursery.start_soon(stream.receive)
    await wait_all_tasks_blocked()
    with pytest.raises(trio.BusyResourceError):
        await stream.receive()


async def test_headers_commit_the_call_before_any_task_receives(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    told: list[str] = []
    stream = connection.open_stream(request_(on_headers=lambda: told.append("committed")))
    stream_id = await server.request()
    server.h2.send_headers(stream_id, [(":status", "200"), ("content-type", "application/grpc"), ("set-cookie", "a=b")])
    await server.flush()
    await stream.wait_headers()
    assert told == ["committed"] and stream.initial_metadata == (("set-cookie", "a=b"),)


async def test_a_trailers_only_answer_does_not_commit_the_call(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    told: list[str] = []
    stream = connection.open_stream(request_(on_headers=lambda: told.append("committed")))
    stream_id = await server.request()
    trailers = [(":status", "200"), ("grpc-status", "5"), ("grpc-message", "no%20cart")]
    server.h2.send_headers(stream_id, trailers, end_stream=True)
    await server.flush()
    await stream.wait_headers()
    assert stream.status == Status(StatusCode.NOT_FOUND, "no cart")
    assert stream.trailers_only and stream.initial_metadata is None and told == []


async def test_messages_that_came_before_a_failure_are_delivered_first(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_())
    await server.answer(await server.request(), b"first", [("grpc-status", "13")])
    assert await stream.receive() == b"first"
    assert await stream.receive() is None
    assert stream.status == Status(StatusCode.INTERNAL)


async def test_a_second_message_of_a_unary_call_is_unimplemented(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_(one_reply=True))
    stream_id = await server.request()
    server.h2.send_headers(stream_id, [(":status", "200"), ("content-type", "application/grpc")])
    server.h2.send_data(stream_id, b"\0\0\0\0\1a\0\0\0\0\1b")
    await server.flush()
    assert await answered(stream) == (
        None,
        Status(StatusCode.UNIMPLEMENTED, "the server sent a second message where the method has one"),
    )
    assert (await server.next(h2.events.StreamReset)).stream_id == stream_id


async def test_ok_without_a_message_of_a_unary_call_is_unimplemented(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_(one_reply=True))
    stream_id = await server.request()
    server.h2.send_headers(stream_id, [(":status", "200"), ("grpc-status", "0")], end_stream=True)
    await server.flush()
    assert await answered(stream) == (None, NO_REPLY)


async def test_ok_in_the_middle_of_a_message_is_internal(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_())
    stream_id = await server.request()
    server.h2.send_headers(stream_id, [(":status", "200"), ("content-type", "application/grpc")])
    server.h2.send_data(stream_id, b"\0\0\0\0\5abc")
    server.h2.send_headers(stream_id, [("grpc-status", "0")], end_stream=True)
    await server.flush()
    assert await stream.receive() is None
    assert stream.status == Status(StatusCode.INTERNAL, "the server said OK in the middle of a message")


async def test_a_message_above_the_limit_ends_and_resets_the_stream(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_(max_receive_size=10))
    stream_id = await server.request()
    server.h2.send_headers(stream_id, [(":status", "200"), ("content-type", "application/grpc")])
    server.h2.send_data(stream_id, b"\0\0\0\0\x0b")
    await server.flush()
    assert await stream.receive() is None
    assert stream.status.code is StatusCode.RESOURCE_EXHAUSTED
    assert (await server.next(h2.events.StreamReset)).error_code == 8


async def test_a_status_before_the_request_has_ended_stops_the_request(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_())
    await stream.send(b"x")
    stream_id = await server.request()
    await server.answer(stream_id, b"enough")
    assert await stream.receive() == b"enough"
    assert not await stream.send(b"y")
    assert (await server.next(h2.events.StreamReset)).error_code == 0


# -- cancelling


async def test_cancel_resets_the_stream_and_is_idempotent(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_())
    stream_id = await server.request()
    stream.cancel()
    stream.cancel()
    assert stream.status.code is StatusCode.CANCELLED and len(connection.streams) == 0
    reset = await server.next(h2.events.StreamReset)
    assert (reset.stream_id, reset.error_code) == (stream_id, 8)


async def test_cancel_wakes_whoever_waits_on_the_stream(wire, request_, autojump_clock) -> None:
    connection, _ = await wire()
    stream = connection.open_stream(request_())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.receive)
        nursery.start_soon(stream.wait_headers)
        nursery.start_soon(stream.send, bytes(10**6))
        await wait_all_tasks_blocked()
        stream.cancel()


async def test_a_receiver_that_was_cancelled_loses_no_message(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_())
    with trio.move_on_after(1):
        await stream.receive()
    await server.answer(await server.request(), b"late")
    assert await stream.receive() == b"late"


async def test_a_send_that_was_cancelled_still_goes_out_whole(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_())
    with trio.move_on_after(1):
        await stream.send(bytes(200_000))
    stream_id, size = await server.request(), 0
    stream.end()
    while size < 200_005:
        data = await server.next(h2.events.DataReceived)
        size += len(data.data)
        server.h2.acknowledge_received_data(data.flow_controlled_length, stream_id)
        await server.flush()
    await server.request_end(stream_id)


async def test_a_cancelled_stream_sends_nothing_more_and_its_neighbour_does(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    first, second = connection.open_stream(request_()), connection.open_stream(request_())
    with trio.move_on_after(1):
        await first.send(bytes(10**6))  # takes the connection's whole window
    second.send_nowait(b"me too", end=True)
    first.cancel()
    await wait_all_tasks_blocked()
    server.h2.increment_flow_control_window(100)
    await server.flush()
    await server.request()
    assert await server.request() == second.id
    await server.request_end(second.id)


# -- resets


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (0, StatusCode.INTERNAL),
        (1, StatusCode.INTERNAL),
        (2, StatusCode.INTERNAL),
        (7, StatusCode.UNAVAILABLE),
        (8, StatusCode.CANCELLED),
        (11, StatusCode.RESOURCE_EXHAUSTED),
        (12, StatusCode.PERMISSION_DENIED),
        (99, StatusCode.INTERNAL),
    ],
)
async def test_the_code_of_a_reset_decides_the_status(wire, request_, autojump_clock, code, status) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_())
    server.h2.reset_stream(await server.request(), code)
    await server.flush()
    assert await stream.receive() is None
    assert stream.status.code is status and stream.refused is (code == 7)


@pytest.mark.parametrize("code", [8, 2], ids=["the server itself", "nginx for its server"])
async def test_a_reset_at_the_deadline_means_deadline_exceeded(wire, request_, autojump_clock, code) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_(deadline=trio.current_time() + 1))
    stream_id = await server.request()
    await trio.sleep(1)
    server.h2.reset_stream(stream_id, code)
    await server.flush()
    assert await stream.receive() is None
    assert stream.status.code is StatusCode.DEADLINE_EXCEEDED


@pytest.mark.parametrize(
    ("http", "code", "text"),
    [
        ("502", StatusCode.UNAVAILABLE, "the answer has HTTP status 502"),  # as nginx has it
        ("200", StatusCode.UNKNOWN, "the server ended the call without a status"),  # as Caddy has it
    ],
)
async def test_what_a_proxy_makes_of_a_server_that_gave_up_at_the_deadline_means_deadline_exceeded(
    wire, request_, autojump_clock, http, code, text
) -> None:
    connection, server = await wire()
    early, late = (connection.open_stream(request_(deadline=trio.current_time() + seconds)) for seconds in (2, 1))
    stream_ids = [await server.request(), await server.request()]
    await trio.sleep(1)
    for stream_id in stream_ids:
        server.h2.send_headers(stream_id, [(":status", http), ("content-type", "application/grpc")])
        server.h2.send_data(stream_id, b"", end_stream=True)
    await server.flush()
    for stream in early, late:
        assert await stream.receive() is None
    assert early.status.code is code
    assert late.status.code is StatusCode.DEADLINE_EXCEEDED and text in late.status.message


@pytest.mark.parametrize("http", ["504", "200"])
async def test_headers_alone_without_a_grpc_status_mean_deadline_exceeded_at_the_deadline(
    wire, request_, autojump_clock, http
) -> None:
    """As a proxy answers without a page."""
    connection, server = await wire()
    stream = connection.open_stream(request_(deadline=trio.current_time() + 1))
    stream_id = await server.request()
    await trio.sleep(1)
    server.h2.send_headers(stream_id, [(":status", http), ("content-type", "application/grpc")], end_stream=True)
    await server.flush()
    assert await stream.receive() is None
    assert stream.status.code is StatusCode.DEADLINE_EXCEEDED


@pytest.mark.parametrize("end_stream", [True, False], ids=["headers alone", "headers and a page"])
async def test_the_servers_own_status_beside_an_http_error_stands_at_the_deadline(
    wire, request_, autojump_clock, end_stream
) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_(deadline=trio.current_time() + 1))
    stream_id = await server.request()
    await trio.sleep(1)
    headers = [(":status", "431"), ("content-type", "application/grpc"), ("grpc-status", "8")]
    server.h2.send_headers(stream_id, headers, end_stream=end_stream)
    await server.flush()
    assert await stream.receive() is None
    assert stream.status.code is StatusCode.RESOURCE_EXHAUSTED
