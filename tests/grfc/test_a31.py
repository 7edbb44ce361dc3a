"""Time limits of routes (A31) are tested row by row of both tables, at an RPC and at its server.

The choice of the field is tested in tests/resolver/test_select.py; lifetimes of clusters and route tables are in
tests/stories/test_lifetimes.py.
"""

import math

import pytest
import trio
from support.mesh import Mesh
from support.routing import routed, to

from trxds import RpcError, StatusCode
from trxds.testing import resources as xds

pytestmark = pytest.mark.slow

LONG = 1000  # seconds: far above any limit in the tables


async def seconds_allowed(mesh, timeout, **options):
    """Return the seconds that the client waits, and those that the server gets, for an RPC without an answer."""
    (host,) = mesh.servers.values()
    host.fallback = forever
    begun = trio.current_time()
    async with mesh.channel(**options) as channel, trio.open_nursery() as nursery:
        # No scope with a deadline: that would be the caller's own limit.
        nursery.start_soon(cancel_after, LONG, nursery.cancel_scope)
        with pytest.raises(RpcError) as caught:
            await channel.method("/s/m")(b"", timeout=timeout)
        assert caught.value.status.code is StatusCode.DEADLINE_EXCEEDED
        nursery.cancel_scope.cancel()
    waited = trio.current_time() - begun
    sent = host.calls[-1].timeout
    return (math.inf if waited >= LONG else round(waited, 2)), (math.inf if sent is None else round(sent, 2))


async def cancel_after(seconds, scope):
    await trio.sleep(seconds)
    scope.cancel()


async def forever(call):
    await trio.sleep_forever()


# -- the final text

FINAL = [  # the caller's, grpc_timeout_header_max, max_stream_duration, the listener's -> seconds
    (None, None, None, None, math.inf),
    (None, None, "0s", None, math.inf),
    (None, None, "10s", None, 10),
    (None, "0s", None, None, math.inf),
    (None, "0s", "5s", None, math.inf),
    (None, "10s", None, None, 10),
    (None, "10s", "5s", None, 10),
    (20, None, None, None, 20),
    (20, None, "0s", None, 20),
    (20, None, "10s", None, 10),
    (20, "0s", None, None, 20),
    (20, "0s", "5s", None, 20),
    (20, "10s", None, None, 10),
    (20, "10s", "5s", None, 10),
    # the connection manager's counts where the route says nothing
    (None, None, None, "7s", 7),
    (20, None, None, "7s", 7),
    (3, None, None, "7s", 3),
    (None, None, "10s", "7s", 10),
    (None, None, "0s", "7s", math.inf),
    (None, None, None, "0s", math.inf),
    # and no limit extends the caller's
    (3, None, "10s", None, 3),
    (3, "10s", None, None, 3),
]


def durations(**fields):
    return {name: value for name, value in fields.items() if value is not None}


@pytest.mark.parametrize("timeout, header_max, most, listeners, seconds", FINAL)
async def test_a_routes_time_limit_follows_the_table_of_a31(
    autojump_clock, timeout, header_max, most, listeners, seconds
):
    limits = durations(grpc_timeout_header_max=header_max, max_stream_duration=most)
    # Fields that no final rule reads: they must not count.
    action = {"max_stream_duration": limits, "timeout": "1s", "max_grpc_timeout": "1s"}
    async with Mesh.run(1) as mesh:
        mesh.route(to("cart", action=action))
        if listeners:
            listener = xds.listener("shop", routes="routes")
            manager = listener["api_listener"]["api_listener"]
            manager["common_http_protocol_options"] = {"max_stream_duration": listeners}
            mesh.plane.put(listener)
        assert await seconds_allowed(mesh, timeout) == (seconds, seconds)


# -- the first draft, an option of the channel

EARLY = [  # the caller's, max_grpc_timeout, timeout -> seconds
    (None, None, None, 15),
    (None, None, "10s", 10),
    (None, "0s", None, math.inf),
    (None, "0s", "5s", math.inf),
    (None, "10s", None, 10),
    (None, "10s", "5s", 10),
    (10, None, None, 10),
    (20, None, None, 15),
    (20, None, "10s", 10),
    (20, "0s", None, 20),
    (20, "0s", "5s", 20),
    (20, "10s", None, 10),
    (20, "10s", "5s", 10),
]


@pytest.mark.parametrize("timeout, max_grpc_timeout, routes, seconds", EARLY)
async def test_legacy_route_timeouts_follow_the_first_draft_of_a31(
    autojump_clock, timeout, max_grpc_timeout, routes, seconds
):
    action = durations(max_grpc_timeout=max_grpc_timeout, timeout=routes)
    # Fields that the first draft does not know.
    action["max_stream_duration"] = {"max_stream_duration": "1s"}
    async with Mesh.run(1) as mesh:
        mesh.route(to("cart", action=action))
        assert await seconds_allowed(mesh, timeout, legacy_route_timeouts=True) == (seconds, seconds)


async def test_grpc_timeout_header_offset_is_ignored(autojump_clock):
    limits = {"grpc_timeout_header_max": "10s", "grpc_timeout_header_offset": "4s"}
    async with Mesh.run(1) as mesh:
        mesh.route(to("cart", action={"max_stream_duration": limits}))
        assert await seconds_allowed(mesh, None) == (10, 10)


# -- since when, and what is left


async def test_the_time_limit_counts_from_the_rpcs_start_and_the_server_gets_the_rest(autojump_clock):
    async with Mesh.run(1) as mesh:
        (host,) = mesh.hosts
        mesh.network.refuse(host)
        mesh.route(to("cart", action={"max_stream_duration": {"max_stream_duration": "120s"}}))
        async with mesh.channel() as channel, trio.open_nursery() as nursery:
            nursery.start_soon(comes_up_after, mesh, host, 40)
            await channel.method("/s/m")(b"", wait_for_ready=True)
        assert 0 < mesh.servers[host].calls[-1].timeout <= 80


async def comes_up_after(mesh, host, seconds):
    await trio.sleep(seconds)
    mesh.network.restore(host)


# -- the chosen cluster


async def test_an_rpcs_cluster_is_drawn_once_for_all_attempts(nursery, autojump_clock):
    async with routed(to({"a": 1, "b": 1})) as rpcs:
        mesh = rpcs.mesh
        for host in mesh.hosts:
            mesh.network.refuse(host)
            mesh.network.cut(host)
        await trio.sleep(1)
        answers = []

        async def queued():
            answers.append(await rpcs.cluster(wait_for_ready=True))

        for _ in range(30):
            nursery.start_soon(queued)
        await trio.sleep(1)
        mesh.network.restore(rpcs.hosts["a"])
        await trio.sleep(300)
        assert set(answers) == {"a"}
        assert 0 < len(answers) < 30, "those of b wait for b"
        mesh.network.restore(rpcs.hosts["b"])
        await trio.sleep(300)
        assert len(answers) == 30
