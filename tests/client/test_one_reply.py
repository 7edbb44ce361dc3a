"""Every way to call a method with one reply has the same outcome, whatever its server does."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import trio
from support.channelz import ADMIN, Tool
from support.plain import hosts_in_memory

from trxds import CompletedCall, FixedResponseCall, Metadata, RpcError, Status, StatusCode
from trxds.admin.server import serve as serve_admin
from trxds.transport.response import NO_REPLY, SECOND_REPLY

PATH = "/shop.Cart/Add"
HOST = "10.0.1.1:50051"
HEAD, TAIL = [("head", "1")], [("tail", "2")]
NOT_FOUND = Status(StatusCode.NOT_FOUND, "no such cart")


@dataclass
class Outcome:
    """The outcome of a call for its caller."""

    reply: bytes | None
    status: Status
    initial: list
    trailing: list
    peer: str = HOST


# -- what a server may do, and what each caller is to have of it


async def one_reply(call):
    await call.send_initial_metadata(HEAD)
    await call.send(b"one")
    call.set_trailing_metadata(TAIL)


async def no_reply(call):
    await call.send_initial_metadata(HEAD)
    call.set_trailing_metadata(TAIL)


async def trailers_only_ok(call):
    call.set_trailing_metadata(TAIL)


async def two_replies(call):
    await call.send_initial_metadata(HEAD)
    await call.send(b"one")
    await call.send(b"two")
    call.set_trailing_metadata(TAIL)


async def second_reply_late(call):
    await call.send_initial_metadata(HEAD)
    await call.send(b"one")
    await trio.sleep(1)
    await call.send(b"two")
    call.set_trailing_metadata(TAIL)


async def reply_then_error(call):
    await call.send_initial_metadata(HEAD)
    await call.send(b"one")
    call.set_trailing_metadata(TAIL)
    call.abort(NOT_FOUND.code, NOT_FOUND.message)


async def error_without_reply(call):
    await call.send_initial_metadata(HEAD)
    call.set_trailing_metadata(TAIL)
    call.abort(NOT_FOUND.code, NOT_FOUND.message)


async def trailers_only_error(call):
    call.set_trailing_metadata(TAIL)
    call.abort(NOT_FOUND.code, NOT_FOUND.message)


SERVERS = {
    one_reply: Outcome(b"one", Status(StatusCode.OK), HEAD, TAIL),
    no_reply: Outcome(None, NO_REPLY, HEAD, TAIL),
    trailers_only_ok: Outcome(None, NO_REPLY, [], TAIL),
    # The call ends at the second reply, and what the server says later is not waited for.
    two_replies: Outcome(None, SECOND_REPLY, HEAD, []),
    second_reply_late: Outcome(None, SECOND_REPLY, HEAD, []),
    reply_then_error: Outcome(None, NOT_FOUND, HEAD, TAIL),
    error_without_reply: Outcome(None, NOT_FOUND, HEAD, TAIL),
    trailers_only_error: Outcome(None, NOT_FOUND, [], TAIL),
}


# -- the ways to call it; each returns the reply and what has metadata, status and peer


def unary(channel):
    return channel.method(PATH)


def client_streaming(channel):
    return channel.method(PATH, client_streaming=True)


async def called(channel):
    return await unary(channel)(b"x"), None


async def called_with_requests(channel):
    return await client_streaming(channel)([b"x", b"y"]), None


async def with_call(channel):
    return await unary(channel).with_call(b"x")


async def with_call_and_requests(channel):
    return await client_streaming(channel).with_call([b"x", b"y"])


async def opened(channel):
    async with unary(channel).open(b"x") as call:
        return await call.receive(), call


async def opened_for_requests(channel):
    async with client_streaming(channel).open(b"x") as call:
        await call.send(b"y")
        call.done_sending()
        return await call.receive(), call


async def opened_and_read_late(channel):
    async with unary(channel).open(b"x") as call:
        await trio.sleep(5)
        return await call.receive(), call


async def opened_and_headers_read_first(channel):
    async with unary(channel).open(b"x") as call:
        await call.wait_initial_metadata()
        return await call.receive(), call


async def opened_and_iterated(channel):
    async with unary(channel).open(b"x") as call:
        (reply,) = [reply async for reply in call]
        return reply, call


async def called_in_a_session(channel):
    async with channel.session() as session:
        return await unary(session)(b"x"), None


WAYS = (
    called,
    called_with_requests,
    with_call,
    with_call_and_requests,
    opened,
    opened_for_requests,
    opened_and_read_late,
    opened_and_headers_read_first,
    opened_and_iterated,
    called_in_a_session,
)


@asynccontextmanager
async def passing(call, next):
    async with next(call) as stream:
        yield stream


def config(**policy):
    return {"methodConfig": [{"name": [{}], **policy}]}


CHANNELS = {
    "plain": {},
    "intercepted": {"interceptors": [passing]},
    "retrying": {
        "service_config": config(
            retryPolicy={
                "maxAttempts": 3,
                "initialBackoff": "0.1s",
                "maxBackoff": "1s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE", "UNIMPLEMENTED", "INTERNAL"],
            }
        )
    },
    "hedging": {
        "service_config": config(
            hedgingPolicy={"maxAttempts": 3, "hedgingDelay": "20s", "nonFatalStatusCodes": ["UNAVAILABLE"]}
        )
    },
}


async def outcome(way, channel):
    try:
        reply, call = await way(channel)
    except RpcError as error:
        return Outcome(None, error.status, list(error.initial_metadata), list(error.trailing_metadata), error.peer)
    if call is None:
        return reply
    return Outcome(reply, call.status, list(call.initial_metadata), list(call.trailing_metadata), call.peer)


@asynccontextmanager
async def served(server, **options):
    calls = []

    async def handler(call):
        calls.append(call)
        if call.path == PATH:
            async for _ in call:
                pass
        await server(call)

    async with hosts_in_memory(1) as mesh, mesh.channel(f"ipv4:{HOST}", **options) as channel:
        mesh.servers[HOST].fallback = handler
        yield channel, calls


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.__name__)
async def test_every_way_to_call_a_method_with_one_reply_has_the_same_outcome(server, way, channel, autojump_clock):
    async with served(server, **CHANNELS[channel]) as (open_channel, calls):
        found, expected = await outcome(way, open_channel), SERVERS[server]
        assert found == (expected.reply if isinstance(found, bytes) else expected)
        assert len(calls) == 1  # what has answered is not asked again
        succeeded = open_channel._state.calls.succeeded
        assert succeeded == expected.status.ok


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_channelz_counts_a_call_with_two_replies_or_none_as_failed(way, autojump_clock):
    for server in (no_reply, trailers_only_ok, two_replies):
        async with hosts_in_memory(1) as mesh, mesh.channel(f"ipv4:{HOST}") as channel:
            mesh.servers[HOST].fallback = server
            async with serve_admin(channel, address=ADMIN, network=mesh.network):
                await outcome(way, channel)
                told = (await Tool(mesh.network).channel("ipv4:")).data
                assert (told.calls_started, told.calls_succeeded, told.calls_failed) == (1, 0, 1)


async def test_a_call_left_with_two_unread_replies_is_counted_as_failed(autojump_clock):
    async with served(two_replies) as (channel, _):
        async with unary(channel).open(b"x"):
            await trio.sleep(1)
        assert channel._state.calls.succeeded == 0


async def test_the_status_of_a_call_is_known_with_its_one_reply_and_stays(autojump_clock):
    async with served(one_reply) as (channel, _), unary(channel).open(b"x") as call:
        assert call.status is None and not call.trailing_metadata
        assert await call.receive() == b"one"
        assert call.status.ok and list(call.trailing_metadata) == TAIL
        assert await call.receive() is None and await call.receive() is None


async def test_a_failed_call_raises_at_each_further_receive(autojump_clock):
    async with served(two_replies) as (channel, _), unary(channel).open(b"x") as call:
        for _ in range(2):
            with pytest.raises(RpcError) as failed:
                await call.receive()
            assert failed.value.status == call.status == SECOND_REPLY


async def test_a_receive_that_was_cancelled_loses_no_reply(autojump_clock):
    async with served(one_reply) as (channel, _), unary(channel).open(b"x") as call:
        with trio.CancelScope() as scope:
            scope.cancel()
            await call.receive()
        assert scope.cancelled_caught
        assert await call.receive() == b"one"


async def test_the_reply_of_a_stream_may_come_before_its_status(autojump_clock):
    async with (
        served(second_reply_late) as (channel, _),
        channel.method(PATH, server_streaming=True).open(b"x") as call,
    ):
        assert await call.receive() == b"one" and call.status is None
        assert [reply async for reply in call] == [b"two"]


@pytest.mark.parametrize("replies", [(), (b"one", b"two")])
async def test_replies_of_an_interceptor_are_counted_too(replies, autojump_clock):
    @asynccontextmanager
    async def answering(call, next):
        yield FixedResponseCall(*replies, initial_metadata=HEAD, trailing_metadata=TAIL)

    expected = Outcome(None, SECOND_REPLY if replies else NO_REPLY, HEAD, TAIL, peer="")
    async with served(one_reply, interceptors=[answering]) as (channel, calls):
        for way in (called, called_with_requests, with_call, with_call_and_requests):
            assert await outcome(way, channel) == expected
        assert calls == []


async def test_with_call_returns_the_completed_call_with_the_reply(autojump_clock):
    async with served(one_reply) as (channel, _):
        assert await unary(channel).with_call(b"x", timeout=2) == (
            b"one",
            CompletedCall(Status(StatusCode.OK), Metadata(HEAD), Metadata(TAIL), HOST),
        )


async def test_with_call_takes_the_options_of_a_call(autojump_clock):
    seen = []

    async def note(call):
        seen.append((call.metadata.first("user"), call.timeout is not None, call.incoming.deframer.encoding))
        await one_reply(call)

    async with served(note) as (channel, _):
        await unary(channel).with_call(b"x", metadata=[("user", "7")], timeout=2, compression="gzip")
        await client_streaming(channel).with_call([b"x"], metadata=[("user", "7")], timeout=2, compression="gzip")
    assert seen == [("7", True, "gzip")] * 2


async def test_with_call_of_a_method_with_streamed_replies_is_a_type_error(autojump_clock):
    async with served(one_reply) as (channel, _):
        with pytest.raises(TypeError, match="streams its replies; use `async with method"):
            await channel.method(PATH, server_streaming=True).with_call(b"x")


async def test_an_unparsable_reply_fails_the_call_in_every_way_to_call(autojump_clock):
    async with served(one_reply) as (channel, _):
        for kind in ({}, {"client_streaming": True}):
            method = channel.method(PATH, None, int, **kind)
            for call in (method, method.with_call):
                with pytest.raises(RpcError, match=r"INTERNAL: .*cannot be parsed") as failed:
                    await call([b"x"] if kind else b"x")
                assert list(failed.value.trailing_metadata) == TAIL
        assert channel._state.calls.succeeded == 0


@pytest.mark.parametrize("server_streaming", [False, True])
async def test_an_unparsable_reply_is_the_end_of_its_open_call(server_streaming, autojump_clock):
    async with (
        served(one_reply) as (channel, _),
        channel.method(PATH, None, int, server_streaming=server_streaming).open(b"x") as call,
    ):
        for _ in range(2):
            with pytest.raises(RpcError, match=r"INTERNAL: .*cannot be parsed") as failed:
                await call.receive()
            assert call.status == failed.value.status and not call.cancel()


def nothing(payload):
    return None


@asynccontextmanager
async def forwards(call, next):
    async with next(call) as stream:
        yield stream


@pytest.mark.parametrize("interceptors", [[], [forwards]], ids=["plain", "intercepted"])
async def test_the_one_reply_may_be_deserialized_to_none(interceptors, autojump_clock):
    async with served(one_reply, interceptors=interceptors) as (channel, _):
        for kind, request in (({}, b"x"), ({"client_streaming": True}, [b"x"])):
            method = channel.method(PATH, None, nothing, **kind)
            reply, call = await method.with_call(request)
            assert (reply, call.status.ok, await method(request)) == (None, True, None)


async def test_a_streamed_reply_that_is_deserialized_to_none_fails_the_call_and_ends_no_stream(autojump_clock):
    async with (
        served(one_reply) as (channel, _),
        channel.method(PATH, None, nothing, server_streaming=True).open(b"x") as call,
    ):
        with pytest.raises(RpcError, match=r"INTERNAL: .*its deserializer returned None"):
            await call.receive()
