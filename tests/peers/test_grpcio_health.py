"""grpcio's health service decides which of its servers get calls (A17)."""

from __future__ import annotations

import pytest
import trio
from support.grpcio import grpcio_server

import trxds

PATIENCE = 60  # seconds for a test, which takes one
CONFIG = {"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": ""}}


async def set_health(address: str, health: bytes) -> None:
    async with trxds.open_channel(f"ipv4:{address}") as channel:
        await channel.method("/peer.Echo/set_health")(health, timeout=PATIENCE)


async def come_to(channel: trxds.Channel, wanted: set[str]) -> None:
    """Call until the last eight calls met just these hosts."""
    unary, met = channel.method("/peer.Echo/unary"), [""] * 8
    while set(met) != wanted:
        met = [*met[1:], (await unary.with_call(b"x", wait_for_ready=True))[1].peer]


async def test_a_grpcio_server_gets_calls_while_its_health_service_says_serving() -> None:
    with trio.fail_after(PATIENCE):
        async with (
            grpcio_server() as first,
            grpcio_server() as second,
            trxds.open_channel(f"ipv4:{first},{second}", service_config=CONFIG) as channel,
        ):
            await come_to(channel, {first, second})
            await set_health(second, b"NOT_SERVING")
            await come_to(channel, {first})
            await set_health(second, b"SERVING")
            await come_to(channel, {first, second})


async def test_a_service_that_grpcio_does_not_know_gets_no_calls() -> None:
    config = {**CONFIG, "healthCheckConfig": {"serviceName": "nobody"}}
    async with grpcio_server() as address, trxds.open_channel(f"ipv4:{address}", service_config=config) as channel:
        with pytest.raises(trxds.RpcError, match="says SERVICE_UNKNOWN for service 'nobody'"):
            await channel.method("/peer.Echo/unary")(b"x", timeout=PATIENCE)
