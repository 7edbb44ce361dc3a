"""grpc-java's servers (Netty) as our hosts: how they go away, how many calls they take, and whom they refuse."""

from __future__ import annotations

import json
import logging
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from support import backends
from support.backends import duplex, hosts, say, unary
from support.java_peers import command, running
from support.peer_programs import Peer
from support.pki import Authority

import trxds
from trxds import Connectivity, StatusCode
from trxds.interop import protos
from trxds.interop.protos import StreamingOutputCallRequest as Request
from trxds.transport import keepalive

pytestmark = pytest.mark.usefixtures("java_programs", "sigint")

ABRUPT = {"shutdownNow": signal.SIGINT, "SIGKILL": signal.SIGKILL}
abruptly = pytest.mark.parametrize("how", ABRUPT.values(), ids=ABRUPT)
NOTHING = protos.SimpleRequest()
LATE = Request(response_parameters=[protos.ResponseParameters(interval_us=1_000_000)])
"""Asks for a reply after a second."""


def backend(*flags: str) -> list[str]:
    return command("Backend", *flags)


def server(*flags: str) -> AbstractAsyncContextManager[Peer]:
    return running("Backend", "-name", "one", *flags)


# -- it goes


async def test_a_server_that_shuts_down_fails_no_call() -> None:
    await backends.stops_gracefully(backend)


async def test_a_stream_is_cancelled_by_a_server_that_shuts_down_now() -> None:
    """It resets its streams; the reason is in the GOAWAY before. grpc-go's Stop closes the connection."""
    status = await backends.ends_abruptly_in_a_stream(backend, signal.SIGINT)
    assert status.code is StatusCode.CANCELLED
    assert status.message.startswith("the server reset the stream: CANCEL, after GOAWAY NO_ERROR")


async def test_a_stream_to_a_server_that_is_killed_is_unavailable() -> None:
    status = await backends.ends_abruptly_in_a_stream(backend, signal.SIGKILL)
    assert status.code is StatusCode.UNAVAILABLE


@abruptly
async def test_a_session_whose_server_ends_abruptly_moves_once_and_stays(how: signal.Signals) -> None:
    await backends.ends_abruptly_in_a_session(backend, how)


# -- it stays, and keeps to its limits


async def test_connections_that_grow_too_old_fail_no_call() -> None:
    """MaxConnectionAge, of which a second is the least: GOAWAY twice, and the next connection takes over."""
    await backends.ends_old_connections(backend, "1s", 3)


async def test_a_stream_that_outlives_its_connections_grace_is_unavailable() -> None:
    with trio.fail_after(backends.PATIENCE):
        async with (
            server("-max_age", "1s", "-max_age_grace", "100ms") as one,
            trxds.open_channel(f"ipv4:{one.address}") as channel,
        ):
            with pytest.raises(trxds.RpcError, match="after GOAWAY NO_ERROR: max_age") as error:
                async with duplex(channel).open() as call:
                    await say(call)
                    await call.receive()
            assert error.value.status.code is StatusCode.UNAVAILABLE
            while await fails(channel):
                pass  # on a busy machine another connection may grow as old meanwhile


async def fails(channel: trxds.Channel) -> bool:
    try:
        await unary(channel)(NOTHING)
    except trxds.RpcError:
        return True
    return False


async def test_a_connection_without_calls_is_ended_by_the_server_and_the_next_call_makes_another() -> None:
    """MaxConnectionIdle, of which a second is the least."""
    with trio.fail_after(backends.PATIENCE):
        async with server("-max_idle", "1s") as one, trxds.open_channel(f"ipv4:{one.address}") as channel:
            await unary(channel)(NOTHING)
            assert await channel.wait_for_state_change(Connectivity.READY) is Connectivity.IDLE
            await unary(channel)(NOTHING)
            one.process.send_signal(signal.SIGTERM)
            assert (await backends.ended(one))["connections"] == 2


async def test_no_more_calls_are_under_way_than_the_server_takes() -> None:
    """maxConcurrentCallsPerConnection: the calls beyond it wait for their turn, and none fails."""
    assert await backends.allows_three_calls(backend, 12) == (3, 1)


async def test_a_host_that_may_have_two_connections_takes_twice_as_many_calls() -> None:
    assert await backends.allows_three_calls(backend, 24, backends.TWO_CONNECTIONS) == (6, 2)


async def test_no_call_fails_while_the_client_replaces_its_connections() -> None:
    await backends.has_connections_replaced(backend)


# -- PINGs


@asynccontextmanager
async def pinged(seconds: float, *flags: str) -> AsyncIterator[tuple[Peer, trxds.Channel]]:
    """A server, and a channel that sends a PING each time so many seconds are quiet, of which 10 are the least."""
    with pytest.MonkeyPatch.context() as patch, trio.fail_after(backends.PATIENCE):
        patch.setattr(keepalive, "MIN_KEEPALIVE_TIME", seconds)
        async with server(*flags) as one:
            address = f"ipv4:{one.address}"
            async with trxds.open_channel(address) as channel:
                await unary(channel)(NOTHING)  # the first call of a server may take longer
            async with trxds.open_channel(address, keepalive_time=seconds) as channel:
                yield one, channel


async def test_a_client_that_pings_too_often_is_told_so_and_pings_half_as_often(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The server permits a PING in five minutes. It bears with two that come earlier."""
    async with pinged(0.1) as (_, channel):
        for _ in range(2):
            with pytest.raises(trxds.RpcError, match="after GOAWAY ENHANCE_YOUR_CALM: too_many_pings"):
                async with duplex(channel).open() as call:
                    await say(call)
                    await call.receive()
            while await fails(channel):
                pass  # on a busy machine the PINGs of a unary call, too, may be too many
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert ["asks after 0.2 s" in told[0], "asks after 0.4 s" in told[1]] == [True, True]


async def test_a_server_takes_pings_that_it_permits() -> None:
    async with pinged(0.1, "-permit_keepalive", "20ms") as (one, channel):
        async with duplex(channel).open() as call:
            await call.send(LATE)
            assert await call.receive() is not None
        one.process.send_signal(signal.SIGTERM)
        assert (await backends.ended(one))["connections"] == 2


async def test_the_pings_of_a_server_are_answered() -> None:
    """Otherwise it would end the connection, and so the stream, after two seconds."""
    flags = ("-keepalive", "50ms", "-keepalive_timeout", "2s")
    async with hosts(backend, "one", flags=flags) as shop, shop.talk(shop.channel) as call:
        for _ in range(3):
            await call.send(LATE)
            assert await call.receive() is not None
        await say(call)


# -- limits of a call


async def test_metadata_is_sent_as_far_as_the_server_takes_it() -> None:
    """Both sides count alike: what we send, it takes; one byte more, and we do not send it."""
    async with hosts(backend, "one", flags=("-max_metadata", "2000")) as shop:

        async def code(length: int) -> StatusCode:
            try:
                await shop.ask(shop.channel, metadata=[("long", "a" * length)])
            except trxds.RpcError as error:
                assert "more than the 2000 that it takes; send less metadata" in error.status.message
                return error.status.code
            return StatusCode.OK

        codes = [await code(length) for length in range(1200, 1800)]
        taken = codes.count(StatusCode.OK)
        assert codes == [StatusCode.OK] * taken + [StatusCode.RESOURCE_EXHAUSTED] * (600 - taken)
        assert 0 < taken < 600


async def test_a_refusal_of_metadata_by_chance_has_the_servers_words() -> None:
    """Above its soft limit it refuses calls by chance: the more, the nearer they are to the hard one."""
    async with hosts(backend, "one", flags=("-soft_max_metadata", "2000", "-max_metadata", "20000")) as shop:
        with pytest.raises(trxds.RpcError, match="exceeded Metadata size soft limit: 2000") as error:
            while True:
                await shop.ask(shop.channel, metadata=[("long", "a" * 19_000)])
        assert error.value.status.code is StatusCode.RESOURCE_EXHAUSTED
        assert await shop.ask(shop.channel) == "one"


# -- TLS


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    authority = Authority()
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    return authority


async def ask_by_tls(address: str, credentials: trxds.ChannelCredentials) -> str:
    """The authority that the server saw."""
    channel = trxds.open_channel(f"ipv4:{address}", credentials=credentials, authority="cart.example")
    async with channel as opened:
        _, completed = await unary(opened).with_call(NOTHING)
    return str(completed.initial_metadata.first("seen-authority"))


async def test_a_server_with_tls_has_to_prove_its_name(tmp_path: Path, ca: Authority) -> None:
    cert, key = ca.issue(names=["cart.example"]).write(tmp_path)
    with trio.fail_after(backends.PATIENCE):
        async with server("-cert", cert, "-key", key) as one:
            trusted = trxds.tls(roots=ca.pem)
            assert await ask_by_tls(one.address, trusted) == "cart.example"
            with pytest.raises(trxds.RpcError, match=r"certificate is not valid for 'depot\.example'"):
                await ask_by_tls(one.address, trxds.tls(roots=ca.pem, server_name="depot.example"))
            with pytest.raises(trxds.RpcError, match="unable to get local issuer certificate"):
                await ask_by_tls(one.address, trxds.tls(roots=Authority().pem))
            with pytest.raises(trxds.RpcError, match="closed by the peer before HTTP/2 began; does it speak TLS"):
                await ask_by_tls(one.address, trxds.insecure())


async def test_a_server_with_mutual_tls_wants_our_certificate(tmp_path: Path, ca: Authority) -> None:
    cert, key = ca.issue(names=["cart.example"]).write(tmp_path)
    ours, our_key = ca.issue(names=["web.example"]).write(tmp_path)
    with trio.fail_after(backends.PATIENCE):
        async with server("-cert", cert, "-key", key, "-client_ca", str(tmp_path / "ca.pem")) as one:
            shown = trxds.tls(roots=ca.pem, certificate=ours, private_key=our_key)
            assert await ask_by_tls(one.address, shown) == "cart.example"
            with pytest.raises(trxds.RpcError, match="does it want a certificate from us"):
                await ask_by_tls(one.address, trxds.tls(roots=ca.pem))


# -- health (A17)


async def set_health(one: Peer, status: str) -> None:
    assert one.process.stdin is not None
    since = len(one.events)
    await one.process.stdin.send_all(json.dumps({"health": status, "service": "cart"}).encode() + b"\n")
    await one.wait_for(lambda event: "health" in event, since=since)


async def test_a_server_gets_calls_while_its_health_service_says_serving() -> None:
    config = {"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": "cart"}}
    with trio.fail_after(backends.PATIENCE):
        async with server() as one, trxds.open_channel(f"ipv4:{one.address}", service_config=config) as channel:
            with pytest.raises(trxds.RpcError, match="says SERVICE_UNKNOWN for service 'cart'"):
                await unary(channel)(NOTHING)
            await set_health(one, "SERVING")
            await unary(channel)(NOTHING, wait_for_ready=True)
            await set_health(one, "NOT_SERVING")
            assert await channel.wait_for_state_change(Connectivity.READY) is Connectivity.TRANSIENT_FAILURE
            with pytest.raises(trxds.RpcError, match="says NOT_SERVING for service 'cart'"):
                await unary(channel)(NOTHING)
            await set_health(one, "SERVING")
            await unary(channel)(NOTHING, wait_for_ready=True)


# -- load reports (A51, A58)

WRR = "envoy.extensions.load_balancing_policies.client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin"


@pytest.mark.parametrize("is_out_of_band", [True, False], ids=["out of band", "with each call"])
async def test_a_server_with_a_quarter_of_the_load_gets_four_times_as_many_calls(is_out_of_band: bool) -> None:
    rules: dict[str, Any] = {"blackout_period": "0s", "weight_update_period": "0.1s", "oob_reporting_period": "1s"}
    rules |= {"enable_oob_load_report": is_out_of_band}
    policy = {"name": "wrr", "typed_config": {"@type": f"type.googleapis.com/{WRR}", **rules}}
    more = {"load_balancing_policy": {"policies": [{"typed_extension_config": policy}]}}
    async with hosts(backend, "idle", "busy", flags=("-qps", "100"), more=more) as shop:
        for name, load in ("idle", 0.2), ("busy", 0.8):
            async with trxds.open_channel(f"ipv4:{shop.servers[name].address}") as channel:
                await set_load(channel, load)
        share = 0
        while share not in range(9, 12):
            share = [await shop.ask(shop.channel) for _ in range(50)].count("busy")


async def set_load(channel: trxds.Channel, load: float) -> None:
    report = protos.TestOrcaReport(cpu_utilization=load)
    async with duplex(channel).open() as call:
        await call.send(Request(orca_oob_report=report, response_parameters=[protos.ResponseParameters(size=1)]))
        assert await call.receive() is not None
