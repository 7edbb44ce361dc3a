"""A client's stream where messages, status and the application come in an unusual order."""

from __future__ import annotations

import h2.events
import trio
from h2.settings import SettingCodes
from trio.testing import wait_all_tasks_blocked

from trxds.core.status import OK, Status, StatusCode
from trxds.transport.framing import frame
from trxds.transport.options import WireOptions
from trxds.transport.response import SECOND_REPLY

HEADERS = [(":status", "200"), ("content-type", "application/grpc")]
SMALL = WireOptions(stream_window=10_000, max_stream_window=10_000, connection_window=65_535)


class Observed:
    """The sizes of the messages of an attempt."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int, int]] = []

    def sent(self, size: int, compressed_size: int) -> None:
        self.seen.append(("sent", size, compressed_size))

    def received(self, size: int, compressed_size: int) -> None:
        self.seen.append(("received", size, compressed_size))


# -- the request


async def test_a_message_that_is_sent_in_the_queue_leaves_when_the_stream_opens(wire, request_, autojump_clock) -> None:
    connection, server = await wire({SettingCodes.MAX_CONCURRENT_STREAMS: 0})
    stream = connection.open_stream(request_())
    stream.send_nowait(b"one")
    server.h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 5})
    await server.flush()
    assert (await server.next(h2.events.DataReceived)).data == frame(b"one")


async def test_an_answer_that_comes_before_the_rest_of_the_request_resets_the_stream(
    wire, request_, autojump_clock
) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_(message=bytes(200_000)))  # more than the server's window
    await server.answer(await server.request(), b"enough")
    assert await stream.receive_unary() == b"enough"
    assert (await server.next(h2.events.StreamReset)).error_code == 0  # RFC 9113 §8.1: NO_ERROR


async def test_an_observer_gets_each_of_several_messages_that_are_sent_together(wire, request_, autojump_clock) -> None:
    connection, _ = await wire()
    observed = Observed()
    stream = connection.open_stream(request_(observer=observed))
    assert stream.send_many([b"one", b"three"])
    assert observed.seen == [("sent", 3, 3), ("sent", 5, 5)]


# -- the answer


async def test_the_message_of_each_answer_is_observed_and_counted_however_it_was_read(
    wire, request_, autojump_clock
) -> None:
    connection, server = await wire()
    for number in range(1, 5):  # from the second time on its headers are known, and the answer is read as one event
        observed = Observed()
        stream = connection.open_stream(request_(message=b"x", observer=observed, one_reply=True))
        await server.answer(await server.request(), b"hello")
        assert await stream.receive_unary() == b"hello"
        assert observed.seen == [("sent", 1, 1), ("received", 5, 5)]
        assert connection.http2.counts.messages_received == number


async def test_an_answer_that_ends_with_data_and_without_trailers_is_an_error(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_())
    stream_id = await server.request()
    server.h2.send_headers(stream_id, HEADERS)
    server.h2.send_data(stream_id, frame(b"hello"), end_stream=True)
    await server.flush()
    assert await stream.receive() == b"hello" and await stream.receive() is None
    assert stream.status == Status(StatusCode.UNKNOWN, "the server ended the call without a status")


async def test_a_stream_that_ended_before_anybody_received_has_no_messages(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_())
    stream_id = await server.request()
    server.h2.send_headers(stream_id, [*HEADERS, ("grpc-status", "0")], end_stream=True)
    await server.flush()
    await wait_all_tasks_blocked()
    with trio.fail_after(1):
        assert stream.status == OK and await stream.receive() is None


async def test_a_second_message_that_came_before_the_only_one_was_asked_for_ends_the_call(
    wire, request_, autojump_clock
) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_(one_reply=True))
    stream_id = await server.request()
    server.h2.send_headers(stream_id, HEADERS)
    server.h2.send_data(stream_id, frame(b"one") + frame(b"two"))
    await server.flush()
    await wait_all_tasks_blocked()
    with trio.fail_after(1):
        assert await stream.receive_unary() is None and stream.status == SECOND_REPLY


async def test_a_caller_that_waits_for_its_answer_in_the_queue_gets_it(wire, request_, nursery, autojump_clock) -> None:
    connection, server = await wire({SettingCodes.MAX_CONCURRENT_STREAMS: 0})
    answers = []

    async def call() -> None:
        answers.append(await stream.receive_unary())

    stream = connection.open_stream(request_(message=b"x"))
    nursery.start_soon(call)
    await wait_all_tasks_blocked()
    server.h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 5})
    await server.flush()
    stream_id = await server.request()
    await wait_all_tasks_blocked()
    await server.answer(stream_id, b"hello")
    await wait_all_tasks_blocked()
    assert answers == [b"hello"]


# -- windows


async def test_each_byte_of_a_streams_window_is_given_back_once(wire, request_, nursery, autojump_clock) -> None:
    connection, server = await wire(options=SMALL)
    stream = connection.open_stream(request_())
    stream_id = await server.request()
    nursery.start_soon(stream.receive)
    message = frame(bytes(100_000))
    server.h2.send_headers(stream_id, HEADERS)
    assert await server.send_within_windows(stream_id, message) == len(message)
    assert server.h2.local_flow_control_window(stream_id) <= SMALL.stream_window


async def test_a_caller_that_asks_late_for_a_large_answer_is_sent_all_of_it(
    wire, request_, nursery, autojump_clock
) -> None:
    connection, server = await wire(options=SMALL)
    stream = connection.open_stream(request_(message=b"x"))
    stream_id = await server.request()
    message = frame(bytes(100_000))
    server.h2.send_headers(stream_id, HEADERS)
    sent = await server.send_within_windows(stream_id, message)
    assert sent == SMALL.stream_window
    nursery.start_soon(stream.receive_unary)
    await wait_all_tasks_blocked()
    with trio.move_on_after(0.001):
        await server.read()
    assert server.h2.local_flow_control_window(stream_id) > 0


async def test_a_task_that_has_waited_in_the_queue_and_does_not_read_bounds_what_it_is_sent(
    wire, request_, nursery, autojump_clock
) -> None:
    connection, server = await wire({SettingCodes.MAX_CONCURRENT_STREAMS: 0}, options=SMALL)
    stream = connection.open_stream(request_())
    nursery.start_soon(stream.wait_open)
    await wait_all_tasks_blocked()
    server.h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 5})
    await server.flush()
    stream_id = await server.request()
    server.h2.send_headers(stream_id, HEADERS)
    assert await server.send_within_windows(stream_id, frame(bytes(100_000))) == SMALL.stream_window


async def test_messages_behind_one_that_cannot_be_decompressed_are_not_delivered(
    wire, request_, autojump_clock
) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_())
    stream_id = await server.request()
    server.h2.send_headers(stream_id, [*HEADERS, ("grpc-encoding", "gzip")])
    compressed = b"\1"
    server.h2.send_data(stream_id, compressed + frame(b"no gzip")[1:] + frame(b"next"))
    await server.flush()
    assert [await stream.receive() for _ in range(2)] == [None, None]
    assert stream.status.code is StatusCode.INTERNAL
