"""Several channels share one xDS client, and none of them affects the others."""

from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio
from support.mesh import PLANE, Mesh, ask, bidi

import trxds
from trxds import RpcError, TrxdsInternalError
from trxds.testing import resources as xds
from trxds.xds.ads_stream import AdsStream


@asynccontextmanager
async def shared(mesh, **more):
    async with trxds.open_xds_client(bootstrap=mesh.bootstrap, network=mesh.network, **more) as client:
        yield client


def channel(mesh, client, target="xds:///shop"):
    return trxds.open_channel(target, xds=client, network=mesh.network)


async def test_channels_of_a_shared_client_make_one_ads_stream(autojump_clock):
    async with Mesh.run() as mesh, shared(mesh) as client, AsyncExitStack() as stack:
        mesh.listen(name="kiosk")
        targets = ["xds:///shop", "xds:///kiosk", "xds:///shop"]
        channels = [await stack.enter_async_context(channel(mesh, client, target)) for target in targets]
        for each in channels:
            await ask(each)
        assert mesh.plane.streams == 1
        asked = [request for request in mesh.plane.requests if request.answer == "SUBSCRIBE"]
        assert [request.kind for request in asked] == ["LDS", "RDS", "CDS", "EDS"]


async def test_the_ads_stream_of_a_shared_client_outlives_its_channels(autojump_clock):
    async with Mesh.run() as mesh:
        async with shared(mesh) as client:
            async with channel(mesh, client) as first:
                await ask(first)
            assert mesh.plane.streams == 1
            async with channel(mesh, client) as second:
                await ask(second)
        await mesh.plane.wait_for_streams(0)


async def test_a_channel_does_not_get_the_outage_that_an_unused_shared_client_saw_before(autojump_clock):
    async with Mesh.run(1) as mesh, shared(mesh) as client:
        mesh.network.refuse(PLANE)
        async with channel(mesh, client):
            await trio.sleep(1)
        await trio.sleep(1800)
        mesh.network.restore(PLANE)
        async with channel(mesh, client) as later:
            assert await ask(later) == mesh.hosts[0]


async def test_a_channel_does_not_get_what_a_shared_client_knew_before_nobody_used_it(autojump_clock):
    async with Mesh.run(1) as mesh, shared(mesh) as client:
        async with channel(mesh, client) as first:
            await ask(first)
            mesh.plane.remove("LDS", "shop")
            await trio.sleep(1)
            mesh.plane.drop_streams()
            await trio.sleep(0.1)  # the channel closes while there is no stream
        await trio.sleep(1800)
        mesh.listen()
        async with channel(mesh, client) as later:
            assert await ask(later) == mesh.hosts[0]


async def test_a_shared_client_connects_nothing_before_it_has_a_channel(autojump_clock):
    async with Mesh.run() as mesh, shared(mesh) as client:
        await trio.sleep(60)
        assert mesh.plane.requests == []
        assert repr(client) == "<Xds 10.0.0.1:18000 open>"


async def test_circuit_breakers_count_over_all_channels_of_a_shared_client(autojump_clock):
    async with Mesh.run() as mesh:
        limited = {"thresholds": [{"priority": "DEFAULT", "max_requests": 1}]}
        mesh.plane.put({**xds.cluster("cart"), "circuit_breakers": limited})
        async with shared(mesh) as client, channel(mesh, client) as one, channel(mesh, client) as two:
            await ask(one)
            await ask(two)
            async with bidi(one).open() as call:
                await call.send(b"")
                await call.receive()
                with pytest.raises(RpcError, match="circuit breaker"):
                    await ask(two)
            await ask(two)


class Lent:
    """A client in a task of its own, which can close before the channels that use it."""

    def __init__(self, mesh):
        self.mesh = mesh
        self._close, self._closed = trio.Event(), trio.Event()

    async def run(self, task_status):
        async with shared(self.mesh) as client:
            task_status.started(client)
            await self._close.wait()
        self._closed.set()

    async def close(self):
        self._close.set()
        await self._closed.wait()


async def test_a_shared_client_that_closes_first_leaves_its_channels_and_is_logged_once(
    autojump_clock, nursery, caplog
):
    async with Mesh.run() as mesh:
        lent = Lent(mesh)
        client = await nursery.start(lent.run)
        async with channel(mesh, client) as one, channel(mesh, client) as two:
            await ask(one)
            await ask(two)
            await lent.close()
            assert mesh.plane.streams == 0
            mesh.endpoints("cart", mesh.hosts[:1])
            await trio.sleep(3600)
            assert {await ask(one) for _ in range(20)} == set(mesh.hosts)
            await ask(two)
    assert [record.getMessage() for record in caplog.records] == [
        "the shared xDS client is closed; what its channels have stays as it is: 4 resources"
    ]


async def test_pending_resources_fail_when_a_shared_client_closes(autojump_clock, nursery):
    async with Mesh.run() as mesh:
        mesh.plane.withhold("CDS")
        lent = Lent(mesh)
        async with channel(mesh, await nursery.start(lent.run)) as waiting:
            await mesh.plane.wait_for_ack("RDS")
            await lent.close()
            with pytest.raises(RpcError, match="the xDS client is closed"):
                await ask(waiting)


async def test_open_channel_with_a_closed_shared_client_raises(autojump_clock):
    async with Mesh.run() as mesh:
        async with shared(mesh) as client:
            pass
        with pytest.raises(trio.ClosedResourceError, match="xDS client is closed"):
            async with channel(mesh, client):
                pass


async def test_bootstrap_and_policies_with_a_shared_client_are_a_value_error(autojump_clock):
    async with Mesh.run() as mesh, shared(mesh) as client:
        with pytest.raises(ValueError, match="open_xds_client"):
            async with trxds.open_channel("xds:///shop", xds=client, bootstrap=mesh.bootstrap):
                pass


async def test_a_bug_in_a_shared_client_reaches_its_opener_as_one_error(autojump_clock, monkeypatch):
    async def crash(self):
        raise AssertionError("a bug")

    monkeypatch.setattr(AdsStream, "run", crash)
    async with Mesh.run() as mesh:
        with pytest.raises(TrxdsInternalError, match="bug in trxds"):
            async with shared(mesh) as client, channel(mesh, client):
                await trio.sleep_forever()


async def test_the_exception_of_a_shared_clients_block_leaves_it_unchanged(autojump_clock):
    async with Mesh.run() as mesh:
        with pytest.raises(KeyError):
            async with shared(mesh):
                raise KeyError


async def test_a_channel_of_a_shared_client_comes_and_goes_without_effect_on_others(autojump_clock):
    async with Mesh.run() as mesh, shared(mesh) as client, channel(mesh, client) as steady:
        await ask(steady)
        before = len(mesh.plane.requests)
        for _ in range(20):
            async with channel(mesh, client) as passing:
                await ask(passing)
        await ask(steady)
        assert len(mesh.plane.requests) == before


async def test_waiting_channels_of_a_shared_client_do_not_block_its_ads_stream(autojump_clock):
    async with Mesh.run(2) as mesh, shared(mesh) as client, AsyncExitStack() as stack:
        mesh.plane.put(xds.listener("depot", routes="missing"))
        mesh.plane.put(xds.listener("kiosk", routes="kiosk"), xds.routes("kiosk", xds.route("far")), xds.cluster("far"))
        for target in ("xds:///depot", "xds:///kiosk"):
            await stack.enter_async_context(channel(mesh, client, target))
        steady = await stack.enter_async_context(channel(mesh, client))
        await ask(steady)
        began = trio.current_time()
        for number in range(50):
            far = f"10.9.9.{number}:1"
            mesh.network.black_hole(far)
            mesh.endpoints("far", [far])
            mesh.endpoints("cart", [mesh.hosts[number % 2]])
            await mesh.plane.wait_for_ack("EDS")
        await trio.sleep(0.1)  # configurations have a pace of their own
        assert await ask(steady) == mesh.hosts[1]
        assert trio.current_time() - began < 0.5
