"""A retried call sends its messages again, as far as they are kept (A6)."""

import contextlib

import pytest
import trio
from support.failing import PATH, failing
from support.mesh import bidi

from trxds import RpcError, StatusCode


async def test_a_retried_stream_replays_all_messages(autojump_clock):
    async with failing(1) as (_, channel, handler), bidi(channel, PATH).open() as call:
        for message in (b"one", b"fail"):
            await call.send(message)
        call.done_sending()
        assert [message async for message in call] == [b"one", b"fail"]
        assert handler.attempts[1][1] == [b"one", b"fail"]


async def test_messages_sent_during_a_retry_backoff_are_replayed_in_order(nursery, autojump_clock):
    async with failing(1) as (_, channel, _), bidi(channel, PATH).open() as call:
        received = []

        async def receive():
            async for message in call:
                received.append(message)

        nursery.start_soon(receive)
        await call.send(b"fail")
        await trio.sleep(1)
        await call.send(b"during the backoff")
        await trio.sleep(30)
        await call.send(b"after")
        call.done_sending()
        await trio.sleep(1)
        assert received == [b"fail", b"during the backoff", b"after"]


async def test_a_stream_over_the_replay_buffer_is_not_retried(autojump_clock):
    async with failing(1) as (_, channel, handler), bidi(channel, PATH).open() as call:
        for _ in range(5):
            await call.send(b"x" * 100_000)
        await call.send(b"fail")
        began = trio.current_time()
        with pytest.raises(RpcError, match="told to"):
            await call.receive()
        assert trio.current_time() == began, "there is no backoff, for no attempt follows"
        assert len(handler.attempts) == 1


async def test_a_stream_whose_first_message_alone_is_over_the_replay_buffer_is_retried(autojump_clock):
    large = b"x" * 300_000

    async def fail_once(call):
        if call.metadata.first("grpc-previous-rpc-attempts") is None:
            call.abort(StatusCode.UNAVAILABLE, "told to")
        await call.send(b"%d" % len(await call.receive()))

    async with failing(0) as (mesh, channel, _):
        mesh.servers[mesh.hosts[0]].handlers[PATH] = fail_once
        async with bidi(channel, PATH).open(large) as call:
            assert await call.receive() == b"300000"


async def test_a_stream_that_has_response_headers_keeps_no_messages_for_another_attempt(autojump_clock):
    async with failing(0) as (_, channel, _), bidi(channel, PATH).open() as call:
        for _ in range(2):
            await call.send(b"x")
            await call.receive()
        assert repr(call._replay) == "<ReplayBuffer 0 messages, dropped>"


async def send_much(call):
    await trio.sleep(5)  # the backoff takes twice as long
    with contextlib.suppress(RpcError):
        for _ in range(5):
            await call.send(b"x" * 100_000)


async def test_a_stream_that_overflows_the_replay_buffer_in_backoff_is_tried_again(nursery, autojump_clock):
    async with failing(1) as (_, channel, handler), bidi(channel, PATH).open() as call:
        await call.send(b"fail")
        nursery.start_soon(send_much, call)
        assert [len(await call.receive()) for _ in range(6)] == [4, *[100_000] * 5]
        assert len(handler.attempts) == 2


async def test_a_stream_that_overflows_the_replay_buffer_in_backoff_is_tried_once_more_only(nursery, autojump_clock):
    async with failing(2) as (_, channel, handler), bidi(channel, PATH).open() as call:
        await call.send(b"fail")
        nursery.start_soon(send_much, call)
        for _ in range(2):
            with pytest.raises(RpcError, match="told to"):
                await call.receive()
        assert len(handler.attempts) == 2


async def test_a_sender_that_overflows_the_replay_buffer_in_backoff_waits_for_the_next_attempt(nursery, autojump_clock):
    async with failing(1) as (_, channel, _), bidi(channel, PATH).open() as call:
        await call.send(b"fail")

        async def receive():
            async for _ in call:
                pass

        nursery.start_soon(receive)
        await trio.sleep(5)  # within the backoff
        began = trio.current_time()
        for _ in range(2):
            await call.send(b"x" * 100_000)
        assert trio.current_time() == began
        await call.send(b"x" * 100_000)
        assert trio.current_time() > began
        call.done_sending()
        await trio.sleep(1)


async def test_a_message_that_waits_for_the_next_attempt_is_not_sent_if_its_sender_is_cancelled(autojump_clock):
    async with failing(1) as (_, channel, _), bidi(channel, PATH).open() as call:
        await call.send(b"fail")
        await trio.sleep(1)  # the attempt has failed
        with trio.move_on_after(1) as scope:
            await call.send(b"x" * 300_000)
        assert scope.cancelled_caught
        call.done_sending()
        assert [message async for message in call] == [b"fail"]
