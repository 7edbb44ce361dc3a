"""Fault injection delays and fails RPCs (A33); tested from ADS bytes to RPCs."""

import pytest
import trio
from support.mesh import Mesh, ask, spread

from trxds import RpcError, StatusCode
from trxds.testing import resources as xds

FAULT = "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault"
ALL = {"numerator": 100}


def fault(**config):
    return {"name": "fault", "typed_config": override(**config)}


def override(**config):
    return {"@type": FAULT, **config}


def aborting(code=StatusCode.ABORTED, **more):
    return {"abort": {"grpc_status": int(code), "percentage": ALL}, **more}


DELAYING = {"delay": {"fixed_delay": "2s", "percentage": ALL}}
SESSION = xds.stateful_session()


def listen(mesh, *filters):
    mesh.plane.put(xds.listener("shop", routes="routes", filters=filters))


async def error(caller, **more):
    """Make an RPC that has to fail; return its code and message."""
    with pytest.raises(RpcError) as caught:
        await ask(caller, **more)
    return caught.value.status.code, caught.value.status.message


async def test_an_injected_abort_fails_the_rpc_before_it_reaches_a_host(autojump_clock):
    async with Mesh.run(1) as mesh:
        listen(mesh, fault(**aborting()))
        async with mesh.channel() as channel:
            assert await error(channel) == (StatusCode.ABORTED, "Fault injected")
            assert await error(channel, wait_for_ready=True) == (StatusCode.ABORTED, "Fault injected")
        assert all(not server.calls for server in mesh.servers.values())


async def test_an_injected_delay_comes_before_the_pick(autojump_clock):
    async with Mesh.run(1) as mesh:
        listen(mesh, fault(**DELAYING))
        async with mesh.channel() as channel:
            before = trio.current_time()
            await ask(channel)
            assert 2 <= trio.current_time() - before < 2.1


async def test_the_deadline_runs_during_an_injected_delay(autojump_clock):
    async with Mesh.run(1) as mesh:
        listen(mesh, fault(**DELAYING))
        async with mesh.channel() as channel:
            code, message = await error(channel, timeout=1)
            assert code is StatusCode.DEADLINE_EXCEEDED
            assert message.endswith("waiting for the filter Fault")


async def test_an_injected_delay_ends_when_the_caller_is_cancelled(autojump_clock):
    async with Mesh.run(1) as mesh:
        listen(mesh, fault(**DELAYING))
        async with mesh.channel() as channel:
            with trio.move_on_after(1) as scope:
                await ask(channel)
            assert scope.cancelled_caught


async def test_an_injected_abort_is_not_retried(autojump_clock):
    async with Mesh.run(1) as mesh:
        listen(mesh, fault(**aborting(StatusCode.UNAVAILABLE, **DELAYING)))
        route = xds.route("cart")
        route["route"]["retry_policy"] = {"retry_on": "unavailable", "num_retries": 3}
        mesh.route(route)
        async with mesh.channel() as channel:
            before = trio.current_time()
            code, message = await error(channel)
            assert code is StatusCode.UNAVAILABLE and message.startswith("Fault injected")
            # The filter is above the attempts: it delayed once, and no backoff followed.
            assert trio.current_time() - before == 2


async def test_an_rpc_requests_its_fault_by_header(autojump_clock):
    async with Mesh.run(1) as mesh:
        listen(mesh, fault(abort={"header_abort": {}, "percentage": ALL}))
        async with mesh.channel() as channel:
            await ask(channel)
            asking = [("x-envoy-fault-abort-grpc-request", "8")]
            assert await error(channel, metadata=asking) == (StatusCode.RESOURCE_EXHAUSTED, "Fault injected")


async def test_a_route_overrides_the_listeners_fault(autojump_clock):
    async with Mesh.run(1) as mesh:
        listen(mesh, fault(**aborting()))
        harmless = {**xds.route("cart"), "typed_per_filter_config": {"fault": override()}}
        mesh.route({**harmless, "match": {"path": "/shop.Cart/Add"}}, xds.route("cart"))
        async with mesh.channel() as channel:
            await ask(channel)
            with pytest.raises(RpcError):
                await channel.method("/shop.Cart/Remove")(b"")


async def test_the_fault_of_a_weighted_cluster_hits_its_share_of_the_rpcs(autojump_clock):
    async with Mesh.run(1) as mesh:
        listen(mesh, fault())
        shares = [
            {"name": "cart", "weight": 1},
            {"name": "cart", "weight": 1, "typed_per_filter_config": {"fault": override(**aborting())}},
        ]
        mesh.route({"match": {"prefix": ""}, "route": {"weighted_clusters": {"clusters": shares}}})
        failed = 0
        async with mesh.channel() as channel:
            for _ in range(100):
                try:
                    await ask(channel)
                except RpcError:
                    failed += 1
        assert 20 < failed < 80


@pytest.mark.parametrize("filters", [(SESSION, fault(**DELAYING)), (fault(**DELAYING), SESSION)])
async def test_session_and_fault_work_in_either_order(autojump_clock, filters):
    async with Mesh.run(3) as mesh:
        listen(mesh, *filters)
        async with mesh.channel() as channel, channel.session() as session:
            before = trio.current_time()
            assert len(await spread(session, 5)) == 1
            assert trio.current_time() - before >= 10


@pytest.mark.parametrize("filters", [(SESSION, fault(**aborting())), (fault(**aborting()), SESSION)])
async def test_an_injected_abort_sets_no_cookie(autojump_clock, filters):
    async with Mesh.run(3) as mesh:
        listen(mesh, *filters)
        async with mesh.channel() as channel:
            with pytest.raises(RpcError) as caught:
                await ask(channel)
            assert caught.value.initial_metadata == caught.value.trailing_metadata == ()
