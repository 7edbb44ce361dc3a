"""nginx, HAProxy and nghttpx between a channel and its servers, as companies have them.

They are not installed by `make`; docs/peers.md says what was checked besides, by hand.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
import trio
from support import proxies
from support.grpcio import grpcio_server
from support.ports import reserved_address
from support.proxies import MakeCommand, haproxy, nghttpx, nginx, running

import trxds
from trxds import RpcError, StatusCode
from trxds.interop import cases, compressed
from trxds.interop.cases import Case
from trxds.testing import Call, serve

INTEROP_SERVER = Path(__file__).parent / "interop_grpcio.py"
ECHO = "/shop.Cart/Echo"
PATIENCE = 60  # seconds for a whole test, which takes one or two
RETRIES = {
    "methodConfig": [
        {
            "name": [{}],
            "retryPolicy": {
                "maxAttempts": 5,
                "initialBackoff": "0.01s",
                "maxBackoff": "0.1s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ]
}

# No header table in either direction, and windows of 1 KiB.
SMALL = (
    "--frontend-http2-encoder-dynamic-table-size=0",
    "--frontend-http2-decoder-dynamic-table-size=0",
    "--frontend-http2-window-size=1023",
)
PROXIES: dict[str, MakeCommand] = {
    "nginx": nginx,
    "haproxy": haproxy,
    "nghttpx": nghttpx,
    "nghttpx, small": lambda *where: nghttpx(*where, *SMALL),
    # Of DATA and of HEADERS, towards both sides: grpcio's server does not understand the latter.
    "nghttpx, padding": lambda *where: nghttpx(*where, "--padding=200"),
}
# Without those that need many calls or servers, and those whose requests are compressed, which grpcio cannot see.
CASES: list[Case] = [
    cases.cancel_after_begin,
    cases.cancel_after_first_response,
    cases.client_streaming,
    cases.custom_metadata,
    cases.empty_stream,
    cases.empty_unary,
    cases.large_unary,
    cases.ping_pong,
    compressed.server_compressed_streaming,
    compressed.server_compressed_unary,
    cases.server_streaming,
    cases.special_status_message,
    cases.status_code_and_message,
    cases.timeout_on_sleeping_server,
    cases.unimplemented_method,
    cases.unimplemented_service,
]


@pytest.fixture
def make(request: pytest.FixtureRequest) -> MakeCommand:
    """How to start the proxy of that name, which is looked for here: an async test loses the reason of a skip."""
    name: str = request.param
    proxies.program(name.partition(",")[0])
    return PROXIES[name]


def through(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("make", names, indirect=True)


async def echo(call: Call) -> None:
    async for message in call:
        await call.send(message)


@pytest.mark.parametrize("tls", [False, True], ids=["h2c", "TLS"])
@through("nginx", "haproxy", "nghttpx", "nghttpx, small")
async def test_the_interop_cases_hold_through_a_proxy(make: MakeCommand, tls: bool, tmp_path: Path) -> None:
    with trio.fail_after(PATIENCE):
        async with (
            grpcio_server(program=INTEROP_SERVER) as port,
            running(make, tmp_path, f"127.0.0.1:{port}", tls=tls) as proxy,
        ):
            secured = {"credentials": trxds.tls(roots=proxy.roots, server_name=proxies.SERVER_NAME)} if tls else {}
            for case in CASES:
                async with trxds.open_channel(f"ipv4:{proxy.address}", **secured) as channel:
                    await case(channel)


@through("nginx")
async def test_no_call_fails_while_nginx_ends_its_connections(make: MakeCommand, tmp_path: Path) -> None:
    """It sends GOAWAY after 20 requests of a connection."""
    make = partial(make, http="keepalive_requests 20;")
    with trio.fail_after(PATIENCE):
        async with (
            serve({ECHO: echo}) as server,
            running(make, tmp_path, server.address) as proxy,
            trxds.open_channel(f"ipv4:{proxy.address}") as channel,
            trio.open_nursery() as nursery,
        ):
            for caller in range(8):
                nursery.start_soon(talk, channel, caller, 100)


@through("nginx")
async def test_no_call_with_retries_fails_while_nginx_reloads(make: MakeCommand, tmp_path: Path) -> None:
    """It sends GOAWAY to all connections of an old worker, also to one that it has just accepted.

    So a call can be refused twice, which its one transparent retry does not outlast (A6).
    """
    with trio.fail_after(PATIENCE):
        async with (
            serve({ECHO: echo}) as server,
            running(make, tmp_path, server.address) as proxy,
            trxds.open_channel(f"ipv4:{proxy.address}", service_config=RETRIES) as channel,
        ):
            for _ in range(4):
                async with trio.open_nursery() as nursery:
                    for caller in range(8):
                        nursery.start_soon(talk, channel, caller, 20)
                    proxy.reload()


async def talk(channel: trxds.Channel, caller: int, calls: int) -> None:
    for number in range(calls):
        request = f"{caller}: {number}".encode()
        assert await channel.method(ECHO)(request) == request


# HAProxy 2.6 loses trailers while many calls are cancelled, whoever the client is.
@through("nginx", "nghttpx, padding")
async def test_a_stream_goes_on_beside_hundreds_of_calls_that_are_cancelled(make: MakeCommand, tmp_path: Path) -> None:
    """A proxy takes too many RST_STREAM for an attack, and ends the connection with all of its calls."""
    with trio.fail_after(PATIENCE):
        async with (
            serve({ECHO: echo}) as server,
            running(make, tmp_path, server.address) as proxy,
            trxds.open_channel(f"ipv4:{proxy.address}") as channel,
            channel.method(ECHO, client_streaming=True, server_streaming=True).open() as stream,
        ):
            for number in range(50):
                async with trio.open_nursery() as nursery:
                    for _ in range(10):
                        nursery.start_soon(cancel_a_call, channel)
                message = f"{number}".encode()
                await stream.send(message)
                assert await stream.receive() == message


async def cancel_a_call(channel: trxds.Channel) -> None:
    async with channel.method(ECHO, client_streaming=True, server_streaming=True).open() as call:
        await call.send(b"")


@through("nginx", "haproxy", "nghttpx")
async def test_an_answer_before_the_end_of_an_upload_comes_through(make: MakeCommand, tmp_path: Path) -> None:
    """The server resets its stream behind the answer, and what is still on its way there has to do no harm."""

    async def enough(call: Call) -> None:
        await call.send(b"enough")

    with trio.fail_after(PATIENCE):
        async with (
            serve({ECHO: enough}) as server,
            running(make, tmp_path, server.address) as proxy,
            trxds.open_channel(f"ipv4:{proxy.address}") as channel,
        ):
            for _ in range(20):
                async with channel.method(ECHO, client_streaming=True).open() as call:
                    for _ in range(50):
                        if not await call.send(bytes(100_000)):
                            break
                    call.done_sending()
                    assert await call.receive() == b"enough"


@pytest.mark.parametrize(
    ("make", "http"), [("nginx", "502"), ("haproxy", "50[23]"), ("nghttpx", "502")], indirect=["make"]
)
async def test_a_proxy_that_does_not_reach_its_server_is_named(make: MakeCommand, http: str, tmp_path: Path) -> None:
    with trio.fail_after(PATIENCE), reserved_address() as nobody:
        async with (
            running(make, tmp_path, nobody) as proxy,
            trxds.open_channel(f"ipv4:{proxy.address}") as channel,
        ):
            with pytest.raises(RpcError) as caught:
                await channel.method(ECHO)(b"")
    status = caught.value.status
    assert status.code is StatusCode.UNAVAILABLE
    assert re.search(f"{proxy.address}: the answer has HTTP status {http};", status.message)
    assert status.message.endswith("check that a gRPC server listens there, and that proxies before it reach it")
