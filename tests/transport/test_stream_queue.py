"""Streams wait for one of the server's concurrent streams, and other bounds of a connection."""

from __future__ import annotations

import time

import h2.events
import pytest
import trio
import trio.testing
from h2.settings import SettingCodes

from trxds.core.calls import Calls
from trxds.core.status import OK
from trxds.testing.network import memory_stream_pair
from trxds.transport.connection import Connection
from trxds.transport.fast_http2 import FastHttp2Engine
from trxds.transport.options import WireOptions
from trxds.transport.send_queue import MAX_STREAMS_PER_STEP


async def test_calls_beyond_the_servers_limit_queue_in_order(wire, request_, autojump_clock) -> None:
    connection, server = await wire({SettingCodes.MAX_CONCURRENT_STREAMS: 1})
    streams = [connection.open_stream(request_(f"/s/{number}")) for number in range(3)]
    assert [stream.id != 0 for stream in streams] == [True, False, False]
    for stream in streams:
        stream.send_nowait(b"x", end=True)
    for number, stream in enumerate(streams):
        event = await server.next(h2.events.RequestReceived)
        assert dict(event.headers)[":path"] == f"/s/{number}"
        await server.answer(event.stream_id, b"y")
        assert await stream.receive_unary() == b"y"
    assert server.h2.open_inbound_streams == 0


async def test_a_higher_stream_limit_opens_waiting_streams(wire, request_, autojump_clock) -> None:
    connection, server = await wire({SettingCodes.MAX_CONCURRENT_STREAMS: 0})
    stream = connection.open_stream(request_())
    assert not stream.id
    server.h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 5})
    await server.flush()
    assert await stream.wait_open()


async def test_one_step_opens_a_bounded_number_of_waiting_streams(wire, request_, autojump_clock) -> None:
    connection, server = await wire({SettingCodes.MAX_CONCURRENT_STREAMS: 0})
    for _ in range(MAX_STREAMS_PER_STEP + 1):
        connection.open_stream(request_())
    server.h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 1000})
    connection.http2.engine.receive(server.h2.data_to_send())
    connection.streams.begin_waiting()
    assert (len(connection.streams.open), len(connection.streams.waiting)) == (MAX_STREAMS_PER_STEP, 1)
    await trio.testing.wait_all_tasks_blocked()  # the writer opens the last one
    assert not connection.streams.waiting


async def test_a_new_call_does_not_overtake_those_that_wait_for_the_next_step(wire, request_, autojump_clock) -> None:
    connection, server = await wire({SettingCodes.MAX_CONCURRENT_STREAMS: 0})
    *_, last = [connection.open_stream(request_()) for _ in range(2 * MAX_STREAMS_PER_STEP + 1)]
    server.h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 1000})
    connection.http2.engine.receive(server.h2.data_to_send())
    connection.streams.begin_waiting()
    newest = connection.open_stream(request_())
    await trio.testing.wait_all_tasks_blocked()
    assert 0 < last.id < newest.id


async def test_a_message_waits_for_the_one_before_it_and_none_follows_the_end(wire, request_, autojump_clock) -> None:
    connection, server = await wire({SettingCodes.MAX_CONCURRENT_STREAMS: 0})
    stream = connection.open_stream(request_())
    assert stream.send_nowait(b"one")
    with pytest.raises(trio.WouldBlock):
        stream.send_nowait(b"two")
    stream.end()
    assert not stream.send_nowait(b"two") and not stream.send_many([b"two"])
    server.h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 5})
    await server.flush()
    assert (await server.next(h2.events.DataReceived)).data == b"\0\0\0\0\3one"
    await server.next(h2.events.StreamEnded)


async def test_a_lower_stream_limit_holds_for_a_stream_that_the_same_read_would_open(
    wire, request_, autojump_clock
) -> None:
    connection, server = await wire({SettingCodes.MAX_CONCURRENT_STREAMS: 1})
    first, second = connection.open_stream(request_()), connection.open_stream(request_())
    server.answer_later(await server.request())
    server.h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 0})
    await server.flush()
    await server.next(h2.events.SettingsAcknowledged)
    assert first.status == OK and not second.id


async def test_messages_count_as_sent_when_the_stream_opens(wire, request_, autojump_clock) -> None:
    connection, server = await wire({SettingCodes.MAX_CONCURRENT_STREAMS: 0})
    stream = connection.open_stream(request_())
    stream.send_nowait(b"one")
    stream.send_many([b"two", b"three"])
    assert connection.http2.counts.messages_sent == 0
    server.h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 5})
    await server.flush()
    assert await stream.wait_open()
    assert connection.http2.counts.messages_sent == 3


async def test_the_timeout_is_computed_when_the_call_leaves_the_queue(wire, request_, autojump_clock) -> None:
    connection, server = await wire({SettingCodes.MAX_CONCURRENT_STREAMS: 0})
    connection.open_stream(request_(deadline=trio.current_time() + 10))
    await trio.sleep(7)
    server.h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 5})
    await server.flush()
    event = await server.next(h2.events.RequestReceived)
    assert dict(event.headers)["grpc-timeout"] == "3000000u"


async def test_a_call_cancelled_in_the_queue_sends_nothing(wire, request_, autojump_clock) -> None:
    connection, server = await wire({SettingCodes.MAX_CONCURRENT_STREAMS: 1})
    first, second, third = (connection.open_stream(request_(path)) for path in ("/s/1", "/s/2", "/s/3"))
    second.cancel()
    await server.answer(await server.request())
    event = await server.next(h2.events.RequestReceived)
    assert dict(event.headers)[":path"] == "/s/3"
    assert first.status == OK and not await second.wait_open() and third.id


async def test_a_cancelled_call_leaves_a_long_queue_without_a_search(wire, request_, autojump_clock) -> None:
    connection, _ = await wire({SettingCodes.MAX_CONCURRENT_STREAMS: 0})
    streams = [connection.open_stream(request_()) for _ in range(30_000)]
    began = time.process_time()
    for stream in reversed(streams):
        stream.cancel()
    assert len(connection.streams) == 0
    assert time.process_time() - began < 3  # to search it takes fifteen


def set_next_id(connection, stream_id: int) -> None:
    engine = connection.http2.engine
    if isinstance(engine, FastHttp2Engine):
        engine._streams.next_id = stream_id
    else:
        engine._next_id = stream_id


async def test_a_connection_whose_identifiers_are_used_up_takes_no_more_and_drains(
    wire, request_, autojump_clock
) -> None:
    connection, server = await wire({SettingCodes.MAX_CONCURRENT_STREAMS: 1})
    set_next_id(connection, 2**31 - 1)
    last = connection.open_stream(request_())
    assert connection.open_stream(request_()) is None
    await server.answer(await server.request(), b"the last")
    assert await last.receive_unary() == b"the last"
    assert "all its stream identifiers" in connection.error.message


async def test_a_call_in_the_queue_is_refused_when_the_one_before_it_uses_the_last_identifier(
    wire, request_, autojump_clock
) -> None:
    connection, server = await wire({SettingCodes.MAX_CONCURRENT_STREAMS: 1})
    set_next_id(connection, 2**31 - 3)
    first, last, late = [connection.open_stream(request_()) for _ in range(3)]
    await server.answer(await server.request())
    await first.receive_unary()
    await trio.testing.wait_all_tasks_blocked()
    assert last.id == 2**31 - 1 and last.status is None
    assert "all its stream identifiers" in late.status.message


async def test_metrics_have_no_word_for_a_connection_whose_identifiers_are_used_up(
    wire, request_, autojump_clock
) -> None:
    connection, _ = await wire()
    set_next_id(connection, 2**31 - 1)
    connection.open_stream(request_())
    assert connection.open_stream(request_()) is None
    assert connection.http2.disconnect == "unknown"  # A94


async def test_a_connection_that_finds_its_identifiers_used_up_without_an_open_call_ends(
    wire, request_, autojump_clock
) -> None:
    connection, server = await wire()
    set_next_id(connection, 2**31 - 1)
    last = connection.open_stream(request_())
    await server.answer(await server.request())
    assert await last.receive_unary() == b""
    assert connection.open_stream(request_()) is None
    assert "all its stream identifiers" in connection.closed_status.message


async def test_a_connection_counts_the_calls_that_left_the_queue(wire, request_, autojump_clock) -> None:
    connection, server = await wire({SettingCodes.MAX_CONCURRENT_STREAMS: 2})
    assert connection.streams.calls == Calls()
    await trio.sleep(3)
    good, bad, *_ = [connection.open_stream(request_()) for _ in range(4)]
    began = trio.current_time()
    assert connection.streams.calls == Calls(2, 0, 0, began)
    await server.answer(await server.request())
    await good.receive_unary()
    assert connection.streams.calls == Calls(3, 1, 0, began)
    await server.answer(await server.request(), trailers=[("grpc-status", "5")])
    await bad.receive_unary()
    assert connection.streams.calls == Calls(4, 1, 1, began)


# -- bounds


async def test_a_peer_that_provokes_answers_and_reads_none_is_not_read(autojump_clock, nursery) -> None:
    options = WireOptions(control_bound=1000)
    ours, theirs = memory_stream_pair(capacity=1000)
    connection = Connection(ours, peer="flood", options=options)
    nursery.start_soon(connection.run)
    await theirs.send_all(b"\0\0\0\4\0\0\0\0\0")
    sent = 0
    with trio.move_on_after(5):
        while True:
            await theirs.send_all(b"\0\0\x08\6\0\0\0\0\0" + bytes(8))
            sent += 17
    assert sent < 10_000 and connection.closed_status is None
    assert connection.http2.engine.outgoing.control_unsent < 3000
