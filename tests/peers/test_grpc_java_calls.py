"""Calls to a server of grpc-java: metadata, sizes, windows, resets, early ends, and scripts that are drawn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
import trio
from grpc_channelz.v1 import channelz_pb2 as pb
from support import java_peers
from support.backends import PATIENCE, SERVICE, duplex, ended, say, unary

import trxds
from trxds import StatusCode
from trxds.interop import protos
from trxds.interop.protos import EchoStatus, ResponseParameters, SimpleRequest
from trxds.interop.protos import StreamingOutputCallRequest as Request

MAX_MESSAGE = 5_000_000
"""What the server takes."""
INITIAL, TRAILING = "x-grpc-test-echo-initial", "x-grpc-test-echo-trailing-bin"
NOTHING = SimpleRequest()


@pytest.fixture(scope="module")
def address(java_programs: None) -> Iterator[str]:
    """A server that the tests share."""
    with java_peers.serving("Backend", "-name", "one", "-max_message", str(MAX_MESSAGE)) as found:
        yield found


@asynccontextmanager
async def channel_to(address: str, **options: Any) -> AsyncIterator[trxds.Channel]:
    with trio.fail_after(PATIENCE):
        async with trxds.open_channel(f"ipv4:{address}", **options) as channel:
            yield channel


def payload(size: int) -> Any:
    return protos.Payload(body=bytes(size))


def uploading(channel: trxds.Channel) -> trxds.Method[Any, Any]:
    types = protos.StreamingInputCallRequest, protos.StreamingInputCallResponse
    return channel.method(f"{SERVICE}/StreamingInputCall", *types, client_streaming=True)


def part(size: int) -> Any:
    return protos.StreamingInputCallRequest(payload=payload(size))


def asking(*sizes: int, **fields: Any) -> Any:
    return Request(response_parameters=[ResponseParameters(size=size) for size in sizes], **fields)


async def open_calls(channel: trxds.Channel) -> int:
    """The number of streams that this channel's connection has by the server's channelz, without the one that asks."""

    async def ask(name: str, request: Any, reply: type[Any]) -> Any:
        return await channel.method(f"/grpc.channelz.v1.Channelz/{name}", type(request), reply)(request)

    (server,) = (await ask("GetServers", pb.GetServersRequest(), pb.GetServersResponse)).server
    asked = pb.GetServerSocketsRequest(server_id=server.ref.server_id)
    (ref,) = (await ask("GetServerSockets", asked, pb.GetServerSocketsResponse)).socket_ref
    data = (await ask("GetSocket", pb.GetSocketRequest(socket_id=ref.socket_id), pb.GetSocketResponse)).socket.data
    return int(data.streams_started - data.streams_succeeded - data.streams_failed) - 1


# -- one call


async def test_metadata_of_any_bytes_comes_back(address: str) -> None:
    every = bytes(range(256))
    text = "".join(map(chr, range(0x21, 0x7F)))
    sent = [(INITIAL, text), (TRAILING, every * 10)]
    async with channel_to(address) as channel:
        _, done = await unary(channel).with_call(NOTHING, metadata=sent)
        assert done.initial_metadata.first(INITIAL) == text
        assert done.trailing_metadata.first(TRAILING) == every * 10
        assert done.initial_metadata.first("seen-authority") == address


async def test_a_compression_that_the_server_does_not_have_is_unimplemented(address: str) -> None:
    async with channel_to(address) as channel:
        with pytest.raises(trxds.RpcError, match="Can't find decompressor for deflate") as error:
            await unary(channel)(SimpleRequest(payload=payload(1000)), compression="deflate")
        assert error.value.status.code is StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    ("when", "code", "text"),
    [("to begin", StatusCode.INTERNAL, "INTERNAL_ERROR"), ("to reply", StatusCode.CANCELLED, "CANCEL")],
)
async def test_a_stream_that_the_server_resets_costs_its_call_only(
    address: str, when: str, code: StatusCode, text: str
) -> None:
    """It resets a stream on errors of its own; with CANCEL, if it has sent headers before."""
    async with channel_to(address) as channel, duplex(channel).open() as other:
        await say(other)
        with pytest.raises(trxds.RpcError, match=rf"the server reset the stream: {text} \(") as error:
            await unary(channel)(NOTHING, metadata=[("fails", when)])
        assert error.value.status.code is code
        await say(other)


async def test_a_call_whose_time_is_over_ends_at_the_server_too(address: str) -> None:
    async with channel_to(address) as channel:
        with pytest.raises(trxds.RpcError) as error:
            async with duplex(channel).open(timeout=0.1) as call:
                await call.receive()
        assert error.value.status.code is StatusCode.DEADLINE_EXCEEDED
        while await open_calls(channel):
            pass


# -- sizes and windows


async def test_messages_as_large_as_the_server_takes_go_both_ways(address: str) -> None:
    async with channel_to(address, max_receive_size=30_000_000) as channel:
        request = SimpleRequest(payload=payload(MAX_MESSAGE - 100), response_size=20_000_000)
        reply = await unary(channel)(request)
        assert len(reply.payload.body) == 20_000_000


async def test_a_message_that_is_too_large_for_the_server_ends_its_call_while_it_is_sent(address: str) -> None:
    # Not by StreamingInputCall: grpc-java's TestService answers there what has failed, and that ends the connection.
    async with channel_to(address) as channel, duplex(channel).open() as other:
        await say(other)
        with pytest.raises(trxds.RpcError, match=f"message exceeds maximum size {MAX_MESSAGE}") as error:
            await unary(channel)(SimpleRequest(payload=payload(MAX_MESSAGE * 4)))
        assert error.value.status.code is StatusCode.RESOURCE_EXHAUSTED
        await say(other)


async def upload(channel: trxds.Channel, *sizes: int) -> int:
    return int((await uploading(channel)(map(part, sizes))).aggregated_payload_size)


@pytest.mark.parametrize("window", [1, 100, 10_000, 1 << 24])
async def test_streams_go_both_ways_whatever_the_servers_windows(java_programs: None, window: int) -> None:
    count, size = (3, 1000) if window == 1 else (20, 1000 if window == 100 else 200_000)
    async with java_peers.running("Backend", "-window", str(window)) as server, channel_to(server.address) as channel:
        received: list[int] = []
        async with duplex(channel).open() as call, trio.open_nursery() as nursery:

            @nursery.start_soon
            async def receive() -> None:
                received.extend([len(reply.payload.body) async for reply in call])

            for _ in range(count):
                await call.send(asking(50_000, payload=payload(size)))
            call.done_sending()
        assert received == [50_000] * count


async def test_long_streams_of_small_messages_go_both_ways_at_once(address: str) -> None:
    async with channel_to(address) as channel:
        async with duplex(channel).open() as call, trio.open_nursery() as nursery:

            @nursery.start_soon
            async def send() -> None:
                for number in range(3000):
                    await call.send(asking(number % 100 + 1))
                call.done_sending()

            sizes = [len(reply.payload.body) async for reply in call]
        assert sizes == [number % 100 + 1 for number in range(3000)]
        assert await upload(channel, *range(3000)) == sum(range(3000))


# -- the server ends first


async def test_a_server_that_ends_a_stream_while_we_send_says_why_and_takes_other_calls(java_programs: None) -> None:
    """It takes one call at a time, and the next one only after the last one has ended on both sides."""
    refusal = Request(response_status=EchoStatus(code=9, message="enough"))
    async with java_peers.running("Backend", "-max_streams", "1") as server, channel_to(server.address) as channel:
        for _ in range(5):
            with pytest.raises(trxds.RpcError, match="enough") as error:
                async with duplex(channel).open() as call:
                    await call.send(refusal)
                    while True:
                        await call.send(asking(payload=payload(10_000)))
            assert error.value.status.code is StatusCode.FAILED_PRECONDITION
            assert (await unary(channel)(SimpleRequest(response_size=3))).payload.body


async def test_a_server_that_sees_too_many_resets_ends_the_connection_and_says_so(java_programs: None) -> None:
    """maxRstFramesPerWindow, which is against Rapid Reset."""
    async with java_peers.running("Backend", "-max_resets", "20") as server, channel_to(server.address) as channel:
        async with duplex(channel).open() as other:
            for _ in range(21):
                async with duplex(channel).open() as call:
                    await say(call)  # the block's end resets it
            with pytest.raises(trxds.RpcError, match="after GOAWAY ENHANCE_YOUR_CALM: too_many_rststreams") as error:
                await other.receive()
        assert error.value.status.code is StatusCode.UNAVAILABLE
        await unary(channel)(NOTHING)
        server.process.terminate()
        assert (await ended(server))["connections"] == 2


# -- what is drawn


@dataclass
class Script:
    """A call by chance; `run` makes it and checks that the server did all that it was asked for."""

    draw: Random
    channel: trxds.Channel
    options: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        sent = [(INITIAL, str(self.draw.random())), (TRAILING, self.draw.randbytes(self.draw.choice([0, 1, 2, 500])))]
        self.options = {
            "compression": self.draw.choice([None, None, "gzip"]),
            "metadata": [pair for pair in sent if self.draw.random() < 0.5],
        }

    async def run(self) -> None:
        await self.draw.choice([self.ask, self.upload, self.download, self.talk, self.fail])()

    def size(self) -> int:
        return self.draw.choice([1, 10, 5_000, 70_000, 300_000])

    def parameters(self) -> list[Any]:
        compressed = protos.BoolValue(value=self.draw.random() < 0.5)
        return [
            ResponseParameters(size=self.size(), interval_us=self.draw.choice([0, 0, 1000]), compressed=compressed)
            for _ in range(self.draw.randrange(5))
        ]

    def check(self, call: Any) -> None:
        for key, value in self.options["metadata"]:
            found = call.initial_metadata if key == INITIAL else call.trailing_metadata
            assert not found or found.first(key) == value  # an answer without a message may have trailers only

    async def ask(self) -> None:
        request = SimpleRequest(payload=payload(self.size()), response_size=self.size())
        request.response_compressed.value = self.draw.random() < 0.5
        reply, done = await unary(self.channel).with_call(request, **self.options)
        assert (len(reply.payload.body), reply.hostname) == (request.response_size, "one")
        self.check(done)

    async def upload(self) -> None:
        sizes = [self.size() for _ in range(self.draw.randrange(10))]
        reply, done = await uploading(self.channel).with_call(map(part, sizes), **self.options)
        assert reply.aggregated_payload_size == sum(sizes)
        self.check(done)

    async def download(self) -> None:
        types = Request, protos.StreamingOutputCallResponse
        method = self.channel.method(f"{SERVICE}/StreamingOutputCall", *types, server_streaming=True)
        parameters = self.parameters()
        async with method.open(Request(response_parameters=parameters), **self.options) as call:
            sizes = [len(reply.payload.body) async for reply in call]
            assert sizes == [each.size for each in parameters]
            self.check(call)

    async def talk(self) -> None:
        async with duplex(self.channel).open(**self.options) as call:
            for _ in range(self.draw.randrange(6)):
                parameters = self.parameters()
                await call.send(Request(response_parameters=parameters, payload=payload(self.size())))
                for each in parameters:
                    reply = await call.receive()
                    assert len(reply.payload.body) == each.size
            call.done_sending()
            assert await call.receive() is None
            self.check(call)

    async def fail(self) -> None:
        text = self.draw.choice(["", "sold out", "größer \t\r\n als 100 % ☺"])
        status = EchoStatus(code=self.draw.randrange(1, 17), message=text)
        with pytest.raises(trxds.RpcError) as error:
            if self.draw.random() < 0.5:
                await unary(self.channel)(SimpleRequest(payload=payload(self.size()), response_status=status))
            else:
                async with duplex(self.channel).open(**self.options) as call:
                    await call.send(asking(payload=payload(self.size()), response_status=status))
                    await call.receive()
        assert (error.value.status.code, error.value.status.message) == (status.code, text)


@pytest.mark.parametrize("seed", range(4))
async def test_every_call_by_chance_gets_what_it_asked_for(address: str, seed: int) -> None:
    draw = Random(seed)
    async with channel_to(address) as channel:
        async with trio.open_nursery() as nursery:

            async def run(draws: Random) -> None:
                for _ in range(20):
                    await Script(draws, channel).run()

            for _ in range(10):
                nursery.start_soon(run, Random(draw.random()))
        while await open_calls(channel):
            pass


@pytest.mark.parametrize("seed", range(2))
async def test_calls_cancelled_by_chance_leave_nothing_behind(address: str, seed: int) -> None:
    draw, cancelled = Random(seed), 0
    async with channel_to(address) as channel:
        async with trio.open_nursery() as nursery:

            async def run(draws: Random) -> None:
                nonlocal cancelled
                for _ in range(10):
                    with trio.move_on_after(draws.choice([0, 0.001, 0.01, 0.05])) as scope:
                        await Script(draws, channel).run()
                    cancelled += scope.cancelled_caught

            for _ in range(30):
                nursery.start_soon(run, Random(draw.random()))
        await Script(draw, channel).ask()
        while await open_calls(channel):
            pass
    assert cancelled > 100
