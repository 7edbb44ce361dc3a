"""Calls compress requests and replies, message by message, and report errors of compression."""

import gzip
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from support.mesh import Mesh, bidi, method

from trxds import RpcError, StatusCode
from trxds.transport.compression import Compressed

PATH = "/shop.Cart/Squeeze"
LONG = b"a" * 10_000


class Echo:
    """Echoes requests, compressed by `encoding`, and records them as they were on the wire."""

    def __init__(self, encoding=""):
        self.encoding = encoding
        self.seen = []

    async def __call__(self, call):
        if self.encoding:
            call.compress_with(self.encoding)
        while True:
            await call.incoming.wait()
            self.seen += [type(message) for message in call.incoming.deframer.messages]
            message = await call.receive()
            if message is None:
                return
            await call.send(message)


class Raw:
    """Responds with given headers and bytes that claim to be a compressed message."""

    def __init__(self, encoding, *messages):
        self.encoding, self.messages = encoding, messages

    async def __call__(self, call):
        await call.receive()
        call._headers_sent = True
        named = [(b"grpc-encoding", self.encoding)] if self.encoding else []
        call._connection.send_headers(call.id, [(b":status", b"200"), (b"content-type", b"application/grpc"), *named])
        for message in self.messages:
            await call.send(message)


@asynccontextmanager
async def served(handler, **options):
    async with Mesh.run(1) as mesh, mesh.channel(**options) as channel:
        for server in mesh.servers.values():
            server.handlers[PATH] = handler
        yield channel


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_requests_and_replies_are_compressed(encoding, autojump_clock):
    async with served(echo := Echo(encoding)) as channel:
        assert await method(channel, PATH)(LONG, compression=encoding) == LONG
        assert echo.seen == [Compressed]


async def test_the_channels_compression_is_that_of_calls_that_name_none(autojump_clock):
    async with served(echo := Echo(), compression="gzip") as channel:
        await method(channel, PATH)(LONG)
        await method(channel, PATH)(LONG, compression="identity")
        assert echo.seen == [Compressed, bytes]


async def test_a_message_of_a_compressed_stream_may_be_sent_uncompressed(autojump_clock):
    async with served(echo := Echo()) as channel, bidi(channel, PATH).open(compression="gzip") as call:
        for compress in (True, False, True):
            await call.send(LONG, compress=compress)
            assert await call.receive() == LONG
        assert echo.seen == [Compressed, bytes, Compressed]


async def test_messages_larger_than_a_frame_are_compressed(autojump_clock):
    message = bytes(n * n % 251 for n in range(300_000))
    async with served(Echo("gzip")) as channel:
        assert await method(channel, PATH)(message, compression="deflate") == message


async def test_a_compressed_reply_may_not_expand_beyond_max_receive_size(autojump_clock):
    async with served(Echo("gzip"), max_receive_size=9_999) as channel:
        with pytest.raises(RpcError, match="larger than the limit of 9999 when decompressed") as caught:
            await method(channel, PATH)(LONG)
        assert caught.value.status.code is StatusCode.RESOURCE_EXHAUSTED


async def test_max_send_size_counts_uncompressed_bytes_and_a_larger_message_is_not_sent(autojump_clock):
    async with served(echo := Echo(), max_send_size=9_999, compression="gzip") as channel:
        with pytest.raises(RpcError, match="message of 10000 bytes is larger than the limit of 9999") as caught:
            await method(channel, PATH)(LONG)
        assert caught.value.status.code is StatusCode.RESOURCE_EXHAUSTED
        async with bidi(channel, PATH).open() as call:
            with pytest.raises(RpcError, match="message of 10000 bytes"):
                await call.send(LONG)
        await trio.testing.wait_all_tasks_blocked()
        assert echo.seen == []


async def test_a_message_over_max_send_size_is_the_end_of_the_call_for_every_task(nursery, autojump_clock):
    async def receive():
        with pytest.raises(RpcError, match="message of 10000 bytes") as caught:
            await call.receive()
        ended.append(caught.value.status.code)

    ended = []
    async with served(Echo(), max_send_size=9_999) as channel, bidi(channel, PATH).open() as call:
        nursery.start_soon(receive)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(RpcError):
            await call.send(LONG)
        await trio.testing.wait_all_tasks_blocked()
        assert ended == [StatusCode.RESOURCE_EXHAUSTED]


async def test_a_message_over_max_send_size_ends_a_call_that_the_server_has_ended_with_ok(autojump_clock):
    async def answer_early(call):
        await call.send(b"early")

    async with served(answer_early, max_send_size=9_999) as channel, bidi(channel, PATH).open() as call:
        await trio.testing.wait_all_tasks_blocked()
        for step in (lambda: call.send(LONG), call.receive):
            with pytest.raises(RpcError, match="message of 10000 bytes"):
                await step()


@pytest.mark.parametrize("encoding", [b"", b"identity", b"snappy"])
async def test_a_reply_with_an_unannounced_or_unknown_compression_is_internal(encoding, autojump_clock):
    async with served(Raw(encoding, Compressed(gzip.compress(LONG)))) as channel:
        with pytest.raises(RpcError) as caught:
            await method(channel, PATH)(b"")
        assert caught.value.status.code is StatusCode.INTERNAL


async def test_an_unknown_compression_that_is_not_used_is_ignored(autojump_clock):
    async with served(Raw(b"snappy", b"plain")) as channel:
        assert await method(channel, PATH)(b"") == b"plain"


async def test_a_reply_that_does_not_decompress_ends_the_call_and_hides_later_messages(autojump_clock):
    async with (
        served(Raw(b"gzip", Compressed(gzip.compress(b"good")), Compressed(b"bad"), b"after")) as channel,
        bidi(channel, PATH).open(b"") as call,
    ):
        await trio.testing.wait_all_tasks_blocked()
        assert await call.receive() == b"good"
        for _ in range(2):
            with pytest.raises(RpcError, match="received message is no gzip"):
                await call.receive()


async def test_a_server_without_the_compression_answers_unimplemented(monkeypatch, autojump_clock):
    async with served(Echo()) as channel:
        monkeypatch.setattr("trxds.client.method.parse_encoding", lambda name: name)
        monkeypatch.setattr("trxds.client.call_routing.compress", lambda payload, encoding: Compressed(payload))
        with pytest.raises(RpcError, match="'snappy' is unknown; use identity,deflate,gzip") as caught:
            await method(channel, PATH)(LONG, compression="snappy")
        assert caught.value.status.code is StatusCode.UNIMPLEMENTED


async def test_an_unknown_compression_is_a_value_error(autojump_clock):
    async with served(Echo()) as channel:
        with pytest.raises(ValueError, match="compression 'zip' is unknown"):
            await method(channel, PATH)(b"", compression="zip")
    async with Mesh.run(1) as mesh:
        with pytest.raises(ValueError, match="compression 'zip' is unknown"):
            async with mesh.channel(compression="zip"):
                pass
