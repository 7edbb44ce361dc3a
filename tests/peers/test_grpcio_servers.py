"""The whole client, from ADS down, against real grpcio servers: all four kinds, messages of any size."""

import pytest
import trio
from support.grpcio import channel_to_grpcio

import trxds

MIB = 1 << 20
SIZES = [1, 100, 16_384, 65_535, 65_536, MIB, 8 * MIB]
KINDS = {  # kind: (client_streaming, server_streaming)
    "unary": (False, False),
    "server_stream": (False, True),
    "client_stream": (True, False),
    "bidi": (True, True),
}


def method(channel, kind):
    client_streaming, server_streaming = KINDS[kind]
    return channel.method(f"/peer.Echo/{kind}", client_streaming=client_streaming, server_streaming=server_streaming)


def message(size, seed=0):
    """Bytes that tell whether any of them is lost or out of place."""
    return bytes((seed + position * 7 + (position >> 8)) % 251 for position in range(min(size, 65_536))).ljust(
        size, b"."
    )


async def exchange(call, messages):
    """Send all and receive all, at once: neither side has room for everything."""
    replies = []

    async def send():
        for each in messages:
            await call.send(each)
        call.done_sending()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        async for reply in call:
            replies.append(reply)
    return replies


@pytest.mark.parametrize("kind", KINDS)
async def test_messages_of_every_size_come_through(kind):
    async with channel_to_grpcio(max_receive_size=32 * MIB) as channel:
        for size in SIZES:
            first, second = message(size), message(size, seed=1)
            match kind:
                case "unary":
                    assert await method(channel, kind)(first, timeout=60) == first[::-1]
                case "server_stream":
                    async with method(channel, kind).open(first, timeout=60) as call:
                        assert [reply async for reply in call] == [first] * 3
                        assert call.trailing_metadata.first("kind") == kind
                case "client_stream":
                    assert await method(channel, kind)([first, second], timeout=60) == first + second
                case "bidi":
                    async with method(channel, kind).open(timeout=60) as call:
                        assert await exchange(call, [first, second]) == [first, second]
                        assert call.initial_metadata.first("kind") == kind


async def test_a_session_gets_its_cookie_whatever_the_server_is():
    async with channel_to_grpcio() as channel, method(channel, "bidi").open(timeout=20) as call:
        headers = await call.wait_initial_metadata()
        assert headers.first("set-cookie").startswith("session=")
        assert headers.first("kind") == "bidi"


async def test_a_hundred_calls_at_once_come_through():
    async with channel_to_grpcio() as channel, trio.open_nursery() as calls:

        async def ask(number):
            assert await method(channel, "unary")(b"%d" % number, timeout=30) == (b"%d" % number)[::-1]

        for number in range(100, 200):
            calls.start_soon(ask, number)


async def test_a_message_over_the_limit_is_refused():
    async with channel_to_grpcio(max_receive_size=MIB) as channel:
        with pytest.raises(trxds.RpcError) as failed:
            await method(channel, "unary")(message(MIB + 1), timeout=20)
    assert failed.value.status.code is trxds.StatusCode.RESOURCE_EXHAUSTED
