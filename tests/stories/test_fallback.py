"""RPCs go on when one of two control planes fails (A71, A95); this includes the mesh suite's FallbackTest."""

from contextlib import asynccontextmanager

import pytest
import trio
from support.mesh import PLANE, Mesh, ask
from support.watching import Watcher

import trxds
from trxds import RpcError, StatusCode
from trxds.testing import ManagementServer, Server
from trxds.testing import resources as xds

SECOND = "10.0.0.2:18000"


@pytest.fixture(params=["xds_v3", "trxds.delta"], autouse=True)
def feature(request, monkeypatch):
    """Run each test in both protocol variants."""
    monkeypatch.setattr(TwoPlanes, "features", (request.param,))


class TwoPlanes:
    """The mesh's plane routes "shop" to host 0, the second one to host 1, both by cluster names of their own."""

    features = ()

    def __init__(self, mesh):
        self.mesh = mesh
        self.first, self.second = mesh.plane, ManagementServer()
        self.offer(self.first, "first", mesh.hosts[0])
        self.offer(self.second, "second", mesh.hosts[1])

    @classmethod
    @asynccontextmanager
    async def run(cls):
        async with Mesh.run(3) as mesh:
            planes = cls(mesh)
            server = Server(planes.second.handlers, address=SECOND, network=mesh.network)
            async with trio.open_nursery() as nursery:
                await nursery.start(server.run)
                yield planes
                nursery.cancel_scope.cancel()

    def offer(self, plane, cluster, host):
        plane.put(
            xds.listener("shop", routes="routes"),
            xds.routes("routes", xds.route(cluster)),
            xds.cluster(cluster),
            xds.endpoints(cluster, xds.locality(host)),
        )

    def down(self, address):
        self.mesh.network.refuse(address)
        self.mesh.network.cut(address)

    def up(self, address):
        self.mesh.network.restore(address)

    def channel(self, **more):
        bootstrap = xds.bootstrap(PLANE, SECOND, features=self.features) | more
        return trxds.open_channel("xds:///shop", bootstrap=bootstrap, network=self.mesh.network)


async def test_the_fallback_server_serves_at_startup_until_the_primary_is_up(autojump_clock):
    async with TwoPlanes.run() as planes:
        planes.down(PLANE)
        planes.down(SECOND)
        async with planes.channel() as channel:
            with pytest.raises(RpcError) as caught:
                await ask(channel)
            assert caught.value.status.code is StatusCode.UNAVAILABLE
            assert f": {PLANE}: Connection refused" in caught.value.status.message.partition("any xDS server since ")[2]
            assert f"; {SECOND}: Connection refused" in caught.value.status.message
            planes.up(SECOND)
            await trio.sleep(10)
            assert await ask(channel) == planes.mesh.hosts[1]
            planes.up(PLANE)
            await planes.first.wait_for_ack("EDS")
            await trio.sleep(1)
            assert await ask(channel) == planes.mesh.hosts[0]
            assert (planes.first.streams, planes.second.streams) == (1, 0)


async def test_the_fallback_server_takes_over_when_the_primary_dies_during_startup(autojump_clock):
    async with TwoPlanes.run() as planes:
        planes.first.withhold("CDS")
        async with planes.channel() as channel:
            await planes.first.wait_for_ack("RDS")
            await trio.sleep(1)
            planes.down(PLANE)
            # The second does not have the cluster that the first one's routes name; its own routes come with it.
            # It is asked after a backoff of 0.8 to 1.2 s. A call that waits just then may see the cluster gone
            # before the new routes are there.
            await trio.sleep(2)
            assert await ask(channel) == planes.mesh.hosts[1]
            planes.up(PLANE)
            planes.first.release("CDS")
            await trio.sleep(120)
            assert await ask(channel) == planes.mesh.hosts[0]
            assert planes.second.streams == 0


async def test_the_fallback_server_takes_over_when_the_primary_dies_during_an_update(autojump_clock):
    async with TwoPlanes.run() as planes:
        planes.offer(planes.second, "first", planes.mesh.hosts[1])
        planes.offer(planes.second, "new", planes.mesh.hosts[2])
        async with planes.channel() as channel:
            assert await ask(channel) == planes.mesh.hosts[0]
            planes.first.put(xds.routes("routes", xds.route("new")))
            await planes.first.wait_for_ack("RDS")
            planes.down(PLANE)
            for _ in range(20):
                assert await ask(channel) in planes.mesh.hosts
                await trio.sleep(1)
            assert await ask(channel) == planes.mesh.hosts[2]


async def test_the_fallback_server_is_not_connected_while_all_resources_are_cached(autojump_clock):
    async with TwoPlanes.run() as planes, planes.channel() as channel:
        await ask(channel)
        planes.down(PLANE)
        await trio.sleep(600)
        assert await ask(channel) == planes.mesh.hosts[0]
        assert planes.mesh.network.attempts[SECOND] == 0


@pytest.mark.parametrize("on_reachability_only", [True, False])
async def test_an_authority_with_fallback_on_reachability_only_falls_back_alone(autojump_clock, on_reachability_only):
    name = "xdstp://fleet/envoy.config.endpoint.v3.ClusterLoadAssignment/cart"
    async with TwoPlanes.run() as planes:
        cluster = xds.cluster("first")
        cluster["eds_cluster_config"]["service_name"] = name
        planes.first.put(cluster, xds.endpoints(name, xds.locality(planes.mesh.hosts[0])))
        planes.second.put(xds.endpoints(name, xds.locality(planes.mesh.hosts[2])))
        bootstrap = xds.bootstrap(PLANE, features=planes.features)
        servers = xds.bootstrap(PLANE, SECOND, features=planes.features)["xds_servers"]
        fleet = {"xds_servers": servers, "fallback_on_reachability_only": on_reachability_only}
        async with planes.channel(**bootstrap, authorities={"fleet": fleet}) as channel:
            assert await ask(channel) == planes.mesh.hosts[0]
            planes.down(PLANE)
            await trio.sleep(60)
            assert await ask(channel) == planes.mesh.hosts[2 if on_reachability_only else 0]
            asked = [(request.kind, *request.names) for request in planes.second.requests if not request.nonce]
            assert asked == ([("EDS", name)] if on_reachability_only else [])
            planes.up(PLANE)
            await trio.sleep(120)
            assert await ask(channel) == planes.mesh.hosts[0]
            assert (planes.first.streams, planes.second.streams) == (1, 0)


async def test_a_flapping_primary_server_fails_no_rpc(autojump_clock):
    async with TwoPlanes.run() as planes, planes.channel() as channel:
        await ask(channel)
        for _ in range(10):
            planes.down(PLANE)
            await trio.sleep(7)
            await ask(channel)
            planes.up(PLANE)
            await trio.sleep(3)
            await ask(channel)


async def test_a_silent_primary_server_does_not_replace_the_fallback_server(autojump_clock):
    async with TwoPlanes.run() as planes:
        planes.down(PLANE)
        async with planes.channel() as channel:
            assert await ask(channel) == planes.mesh.hosts[1]
            for kind in ("LDS", "RDS", "CDS", "EDS"):
                planes.first.withhold(kind)
            planes.up(PLANE)
            await planes.first.wait_for_streams(1)
            await trio.sleep(60)
            assert planes.second.streams == 1
            assert await ask(channel) == planes.mesh.hosts[1]


async def test_a_fallback_and_the_return_are_logged_once(autojump_clock, caplog):
    caplog.set_level("INFO", "trxds.xds")
    async with TwoPlanes.run() as planes:
        planes.down(PLANE)
        async with planes.channel() as channel:
            await ask(channel)
            await trio.sleep(60)
            planes.up(PLANE)
            await trio.sleep(120)
    texts = [record.getMessage() for record in caplog.records]
    assert [text for text in texts if "as well" in text] == [
        f"xDS server {PLANE}: Connection refused; check that it runs, and server_uri in the bootstrap; "
        f"using {SECOND} as well"
    ]
    assert texts.count(f"xDS server {PLANE} answers; {SECOND} is no longer used") == 1


async def test_an_observer_learns_that_the_fallback_server_is_used_no_longer(autojump_clock):
    async with TwoPlanes.run() as planes:
        planes.down(PLANE)
        async with planes.channel() as channel:
            await ask(channel)
            with channel.observed_by(watcher := Watcher()):
                planes.up(PLANE)
                await planes.first.wait_for_ack("EDS")
                await trio.sleep(1)
                assert f"xds {SECOND} left" in watcher.notes
