"""A channel limits the attempts at a call, whatever control plane or service config allow (A6)."""

import pytest
from support.failing import PATH, failing
from support.hedged import HEDGING, Hedged, Host
from support.mesh import Mesh, ask, method

from trxds import RpcError

MANY = {"maxAttempts": 9, "nonFatalStatusCodes": HEDGING["nonFatalStatusCodes"]}


@pytest.mark.parametrize(("options", "made"), [({}, 5), ({"max_call_attempts": 7}, 7), ({"max_call_attempts": 1}, 1)])
async def test_a_retried_call_makes_at_most_so_many_attempts(options, made, autojump_clock):
    async with failing(99, retries=9, channel_options=options) as (_, channel, handler):
        with pytest.raises(RpcError, match="told to"):
            await method(channel, PATH)(b"x")
        assert len(handler.attempts) == made


@pytest.mark.parametrize(("options", "made"), [({}, 5), ({"max_call_attempts": 7}, 7), ({"max_call_attempts": 1}, 1)])
async def test_a_hedged_call_makes_at_most_so_many_attempts(options, made, monkeypatch, autojump_clock):
    async with Hedged(monkeypatch, MANY, channel_options=options) as world:
        host = world.serve(Host(1))
        await world.ask()
        assert len(host.came) == made


async def test_a_policy_that_allows_less_counts(autojump_clock):
    async with failing(99, retries=1, channel_options={"max_call_attempts": 7}) as (_, channel, handler):
        with pytest.raises(RpcError, match="told to"):
            await method(channel, PATH)(b"x")
        assert len(handler.attempts) == 2


async def test_a_transparent_retry_is_not_counted(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel(max_call_attempts=1) as channel:
        await ask(channel)
        (server,) = mesh.servers.values()
        server.goaway()
        assert await ask(channel) == mesh.hosts[0]
