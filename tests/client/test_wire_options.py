"""The options of `open_channel` reach its connections: the limit on metadata, keepalive, and the user agent."""

from __future__ import annotations

import math
import re
import sys

import pytest
import trio
from support.mesh import Mesh, ask, method

import trxds
from trxds import RpcError, StatusCode
from trxds.core.version import VERSION


async def chatty(call):
    await call.send_initial_metadata([("x-long", "y" * 2000)])
    await call.send(b"")


async def test_headers_above_max_metadata_size_end_their_call_and_name_the_remedy(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel(max_metadata_size=1000) as channel:
        mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/Chatty"] = chatty
        with pytest.raises(RpcError, match=r"RESOURCE_EXHAUSTED: .* the limit of 1000; raise max_metadata_size"):
            await method(channel, "/shop.Cart/Chatty")(b"")
        await ask(channel)
        assert mesh.network.attempts[mesh.hosts[0]] == 1


async def test_keepalive_notices_a_vanished_host(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel(keepalive_time=30, keepalive_timeout=5) as channel:
        await ask(channel)
        mesh.network.silence(mesh.hosts[0])
        began = trio.current_time()
        with pytest.raises(RpcError) as lost:
            await ask(channel)
        assert lost.value.status.code is StatusCode.UNAVAILABLE and "PING within 5 s" in lost.value.status.message
        assert 35 <= trio.current_time() - began <= 65


@pytest.mark.parametrize(("given", "suffix"), [({}, ""), ({"user_agent": "shop/2.1 (eu)"}, " shop/2.1 (eu)")])
async def test_the_user_agent_of_a_channel_follows_that_of_trxds(given, suffix, autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel(**given) as channel:
        await ask(channel)
        (call,) = mesh.servers[mesh.hosts[0]].calls
        assert call.metadata.first("user-agent") == f"grpc-python-trxds/{VERSION}{suffix}"


NUMBERS = [
    "max_send_size",
    "max_receive_size",
    "max_metadata_size",
    "max_call_attempts",
    "max_read_delay",
    "keepalive_time",
    "keepalive_timeout",
    "idle_timeout",
    "max_connection_age",
    "max_connection_age_grace",
    "max_connections_per_subchannel_cap",
    "spread_within",
]


@pytest.mark.parametrize("value", ["20", math.nan, True, [20]], ids=repr)
@pytest.mark.parametrize("name", NUMBERS)
async def test_an_option_that_is_a_number_takes_nothing_else(name, value, autojump_clock):
    with pytest.raises(ValueError, match=re.escape(f"{name} is {value!r}; it must be a")):
        async with trxds.open_channel("ipv4:10.0.0.1:80", **{name: value}):
            pass


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"keepalive_time": 5}, "keepalive_time is 5; it must be a number of seconds from 10, or None for no PINGs"),
        ({"keepalive_time": 30, "keepalive_timeout": 0}, "keepalive_timeout is 0; it must be"),
        ({"keepalive_timeout": -1}, "keepalive_timeout is -1; it must be a finite number of seconds above 0"),
        ({"keepalive_without_calls": True}, "keepalive_without_calls has no meaning without keepalive_time; set both"),
        ({"max_metadata_size": 0}, "max_metadata_size is 0"),
        ({"max_call_attempts": 0}, "max_call_attempts is 0; it must be a whole number, 1 or more"),
        ({"max_metadata_size": 2**32}, "is 4294967296; it must be a whole number of bytes from 1 to 4294967295"),
        ({"max_read_delay": -0.001}, "max_read_delay is -0.001; it must be a finite number of seconds above 0, or 0"),
        ({"max_read_delay": float("nan")}, "max_read_delay is nan"),
        ({"user_agent": "shop\r\nx-admin: 1"}, "user_agent has a line end at position 4; write printable ASCII"),
        ({"user_agent": "shöp"}, "user_agent has "),
        ({"user_agent": " shop"}, "user_agent has a space at an end"),
        ({"user_agent": "x" * 513}, "user_agent has 513 characters; the most are 512"),
        ({"user_agent": b"shop"}, "user_agent is a text such as 'shop/2.1', not bytes"),
        (
            {"max_receive_size": -1},
            "max_receive_size is -1; it must be a whole number of bytes from 0, for no limit sys.maxsize",
        ),
        ({"max_send_size": -1}, "max_send_size is -1"),
        ({"credentials": "tls"}, "credentials are trxds.insecure(), trxds.tls(...) or "),
        ({"call_credentials": print}, "call credentials are trxds.CallCredentials(function), not builtin_function"),
    ],
)
async def test_invalid_channel_options_are_value_errors_before_anything_runs(options, problem, autojump_clock):
    async with Mesh.run(1) as mesh:
        with pytest.raises((ValueError, TypeError), match=re.escape(problem)):
            async with mesh.channel(**options):
                pass
        assert not mesh.network.attempts


async def test_call_credentials_of_another_type_are_a_type_error(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        with pytest.raises(TypeError, match=r"call credentials are trxds\.CallCredentials\(function\)"):
            await ask(channel, credentials=print)


async def test_max_receive_size_may_be_sys_maxsize(autojump_clock):
    async def large(call):
        await call.send(bytes(5_000_000))

    async with Mesh.run(1) as mesh, mesh.channel(max_receive_size=sys.maxsize) as channel:
        mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/Large"] = large
        assert len(await method(channel, "/shop.Cart/Large")(b"")) == 5_000_000
