"""What calls ask for beside their messages, against a real grpcio server."""

import pytest
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from support.grpcio import channel_to_grpcio
from support.method_config import bind_with, for_all

import trxds
from trxds import RpcError, StatusCode
from trxds.resolver.routes import BoundRoutes
from trxds.testing import resources as xds
from trxds.transport.compression import Compressed
from trxds.transport.framing import Deframer

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


async def test_a_grpcio_server_counts_the_attempts_as_we_do():
    route = xds.route("echo")
    route["route"]["retry_policy"] = RETRY
    async with channel_to_grpcio(route) as channel:
        flaky, failing = method(channel, "flaky"), ("fail-with", "UNAVAILABLE")
        assert await flaky(b"", metadata=[failing, ("fail-times", "2")]) == b"2"
        with pytest.raises(RpcError, match="UNAVAILABLE: after 3"):
            await flaky(b"", metadata=[failing, ("fail-times", "9")])
        with pytest.raises(RpcError, match="UNAVAILABLE: after 0"):
            await flaky(b"", metadata=[failing, ("fail-times", "9"), ("pushback", "-1")])


async def test_hedging_to_a_grpcio_server_follows_its_non_fatal_status_codes(monkeypatch):
    policy = {"maxAttempts": 4, "hedgingDelay": "0s", "nonFatalStatusCodes": ["UNAVAILABLE"]}
    monkeypatch.setattr(BoundRoutes, "_bind", bind_with(for_all(hedgingPolicy=policy)))
    async with channel_to_grpcio() as channel:
        flaky, failing = method(channel, "flaky"), ("fail-with", "UNAVAILABLE")
        assert await flaky(b"", metadata=[failing, ("fail-times", "3")]) == b"3"
        with pytest.raises(RpcError, match="UNAVAILABLE: after"):
            await flaky(b"", metadata=[failing, ("fail-times", "9")])
        with pytest.raises(RpcError, match="ABORTED: after"):
            await flaky(b"", metadata=[("fail-with", "ABORTED"), ("fail-times", "9")])


async def test_a_grpcio_server_gets_the_authorization_of_call_credentials():
    async def token(context):
        return [("authorization", f"{context.service_url} {context.method}")]

    shown = trxds.CallCredentials(token, allow_insecure=True)
    async with channel_to_grpcio(call_credentials=shown) as channel:
        assert await method(channel, "who")(b"") == b"https://echo/peer.Echo who"


async def test_rich_details_come_as_messages():
    async with channel_to_grpcio() as channel:
        with pytest.raises(RpcError) as caught:
            await method(channel, "rich")(b"")
    status = caught.value.status
    assert (status.rich.code, status.rich.message) == (StatusCode.RESOURCE_EXHAUSTED, "no more of them")
    assert status.detail(ErrorInfo) == ErrorInfo(reason="SOLD_OUT")
    assert status.detail(RetryInfo) == RetryInfo() and status.detail(BadRequest) is None


async def test_more_metadata_than_a_grpcio_server_takes_is_not_sent():
    async with channel_to_grpcio() as channel:
        ask = method(channel, "unary")
        assert await ask(b"x", metadata=[("long", "a" * 1_000)]) == b"x"
        with pytest.raises(RpcError, match="more than the 16384 that it takes; send less metadata") as caught:
            await ask(b"x", metadata=[("long", "a" * 20_000)])
        assert caught.value.status.code is StatusCode.RESOURCE_EXHAUSTED
        assert await ask(b"x") == b"x"
