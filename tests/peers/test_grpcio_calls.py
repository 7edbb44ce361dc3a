"""What calls ask for beside their messages, against a real grpcio server."""

import pytest
from support.grpcio import channel_to_grpcio

import trxds
from trxds import RpcError
from trxds.testing import resources as xds
from trxds.wire.compression import Compressed
from trxds.wire.framing import Deframer

LONG = b"a" * 100_000
RETRY = {
    "retry_on": "unavailable",
    "num_retries": 3,
    "retry_back_off": {"base_interval": "0.001s", "max_interval": "0.001s"},
}


def method(channel, name):
    return channel.method(f"/peer.Echo/{name}")


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_messages_are_compressed_both_ways(monkeypatch, encoding):
    received = []

    def take(deframer, take=Deframer.take):
        message = take(deframer)
        received.append(type(message))
        return message

    async with channel_to_grpcio() as channel, method(channel, encoding).open(LONG, compression=encoding) as call:
        monkeypatch.setattr(Deframer, "take", take)
        assert await call.receive() == LONG
        assert Compressed in received
        assert await call.receive() is None
        assert call.trailing_metadata.first("size") == str(len(LONG))


async def test_it_counts_the_attempts_as_we_do():
    route = xds.route("echo")
    route["route"]["retry_policy"] = RETRY
    async with channel_to_grpcio(route) as channel:
        flaky, failing = method(channel, "flaky"), ("fail-with", "UNAVAILABLE")
        assert await flaky(b"", metadata=[failing, ("fail-times", "2")]) == b"2"
        with pytest.raises(RpcError, match="UNAVAILABLE: after 3"):
            await flaky(b"", metadata=[failing, ("fail-times", "9")])
        with pytest.raises(RpcError, match="UNAVAILABLE: after 0"):
            await flaky(b"", metadata=[failing, ("fail-times", "9"), ("pushback", "-1")])


async def test_it_hears_the_authorization_of_call_credentials():
    async def token(context):
        return [("authorization", f"{context.service_url} {context.method}")]

    shown = trxds.CallCredentials(token, allow_insecure=True)
    async with channel_to_grpcio(call_credentials=shown) as channel:
        assert await method(channel, "who")(b"") == b"https://echo/peer.Echo who"
