"""A connection handles answers that come in one read, and those that nearly do."""

from __future__ import annotations

import pytest
import trio

from trxds.core.status import StatusCode
from trxds.transport.read_coalescing import MIN_CALLS_TO_PAUSE
from trxds.transport.response import SECOND_REPLY


@pytest.mark.parametrize("code", ["0", "5"])
@pytest.mark.parametrize("more", [b"\0\0\0\0\1b", b"\0\0"])
async def test_a_second_message_in_an_answer_of_one_read_is_an_error_too(
    wire, request_, nursery, autojump_clock, more, code
) -> None:
    connection, server = await wire()

    async def serve() -> None:
        for _ in range(4):
            await server.answer(await server.request(), b"a")  # from the second time on its headers are known
        stream_id = await server.request()
        server.h2.send_headers(stream_id, [(":status", "200"), ("content-type", "application/grpc")])
        server.h2.send_data(stream_id, b"\0\0\0\0\1a" + more)
        server.h2.send_headers(stream_id, [("grpc-status", code)], end_stream=True)
        await server.flush()

    nursery.start_soon(serve)
    for _ in range(4):
        await connection.open_stream(request_(message=b"x")).receive_unary()
    stream = connection.open_stream(request_(message=b"x"))
    assert await stream.receive_unary() is None
    assert stream.status == SECOND_REPLY
    assert connection.streams.calls.failed == 1 and connection.streams.broken == 1


async def test_an_answer_of_one_read_without_a_grpc_status_means_deadline_exceeded_at_the_deadline(
    wire, request_, nursery, autojump_clock
) -> None:
    connection, server = await wire()

    async def serve() -> None:
        for _ in range(4):
            await server.answer(await server.request(), b"a", [("who", "a proxy")])
        late = await server.request()
        await trio.sleep(1)
        await server.answer(late, b"a", [("who", "a proxy")])

    nursery.start_soon(serve)
    for _ in range(4):  # from the second time on its headers are known
        early = connection.open_stream(request_(message=b"x", deadline=trio.current_time() + 1))
        assert await early.receive_unary() is None and early.status.code is StatusCode.UNKNOWN
    late = connection.open_stream(request_(message=b"x", deadline=trio.current_time() + 1))
    assert await late.receive_unary() is None
    assert late.status.code is StatusCode.DEADLINE_EXCEEDED


async def test_data_of_ended_calls_leaves_no_trace_in_read_coalescing(wire, request_, nursery, autojump_clock) -> None:
    connection, server = await wire()
    streams = [connection.open_stream(request_(message=b"x")) for _ in range(MIN_CALLS_TO_PAUSE)]
    for number in range(100):
        await trio.sleep(0.001)
        # Headers that differ are read frame by frame; with the answer there is one call less than many.
        stream_id = await server.request()
        await server.answer(stream_id, b"a", [("grpc-status", "0"), ("number", str(number))])
        await streams[number].receive_unary()
        streams.append(connection.open_stream(request_(message=b"x")))
    assert len(connection._coalescing._streaming) == 1
