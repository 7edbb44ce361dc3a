"""Observers get the events of the control plane, of connections and of policies."""

from contextlib import asynccontextmanager

import pytest
import trio
from support.mesh import PLANE, Mesh, ask, bidi
from support.outliers import eject_one_of_two
from support.watching import Watching
from trio.testing import wait_all_tasks_blocked

import trxds
from trxds import RpcError
from trxds.core.observe import NOWHERE, Location, OutlierEvent
from trxds.testing import resources as xds

WRR = "type.googleapis.com/envoy.extensions.load_balancing_policies.client_side_weighted_round_robin.v3."


@asynccontextmanager
async def watched(hosts=1, *, calls=1, **how):
    """Run a mesh, a channel observed from its first step on, and the record of its events."""
    watching = Watching()
    async with Mesh.run(hosts, sessions=False) as mesh, mesh.channel(telemetry=watching, **how) as channel:
        for _ in range(calls):
            await ask(channel)
        yield mesh, channel, watching.watcher


class TestControlPlane:
    async def test_an_observer_gets_the_ads_stream_from_its_start(self, autojump_clock):
        async with watched() as (_, _, watcher):
            assert watcher.of("xds", "request", "response")[:8] == [
                f"xds {PLANE} connected",
                "request Listener asks shop",
                "response Listener shop",
                "request Listener ACK shop",
                "request RouteConfiguration asks routes",
                "response RouteConfiguration routes",
                "request RouteConfiguration ACK routes",
                "request Cluster asks cart",
            ]

    async def test_an_observer_gets_the_states_of_each_resource(self, autojump_clock):
        async with watched() as (mesh, _, watcher):
            await trio.sleep(1)
            watcher.notes.clear()
            mesh.plane.remove("CDS", "cart")
            await trio.sleep(1)
            assert watcher.of("resource") == [
                "resource Cluster cart does_not_exist",
                "resource ClusterLoadAssignment cart unwanted",
            ]

    async def test_an_observer_gets_a_nacked_resource_as_invalid(self, autojump_clock):
        async with watched() as (mesh, _, watcher):
            watcher.notes.clear()
            mesh.plane.put({**xds.cluster("cart"), "lb_policy": "MAGLEV"})
            await trio.sleep(1)
            told = watcher.of("request", "response", "resource")
            assert [note for note in told if note.split()[1] == "Cluster"] == [
                "response Cluster  bad cart",
                "resource Cluster cart nacked",
                "request Cluster NACK cart",
            ]

    async def test_an_observer_gets_xds_failed_for_an_unreachable_server(self, autojump_clock):
        watching = Watching()
        async with Mesh.run(1) as mesh:
            mesh.network.refuse(PLANE)
            async with mesh.channel(telemetry=watching) as channel:
                with pytest.raises(RpcError):
                    await ask(channel)
        assert watching.watcher.of("xds")[0].startswith(f"xds {PLANE} failed: Connection refused")

    async def test_an_observer_gets_no_xds_failed_for_a_stream_with_responses(self, autojump_clock):
        async with watched() as (mesh, _, watcher):
            mesh.plane.drop_streams()
            await trio.sleep(5)
            assert watcher.of("xds") == [f"xds {PLANE} connected"] * 2

    async def test_a_shared_client_has_telemetry_of_its_own(self, autojump_clock):
        shared, watching = Watching(), Watching()
        async with Mesh.run(1) as mesh:
            how = {"network": mesh.network}
            async with (
                trxds.open_xds_client(bootstrap=mesh.bootstrap, telemetry=shared, **how) as client,
                trxds.open_channel("xds:///shop", xds=client, telemetry=watching, **how) as channel,
            ):
                await ask(channel)
        assert shared.target == "#shared" and shared.watcher.of("xds") == [f"xds {PLANE} connected"]
        assert shared.watcher.notes[-1] == watching.watcher.notes[-1] == "closed"
        assert watching.watcher.of("xds", "response") == [] != watching.watcher.of("call")


async def test_closed_is_an_observers_last_event(autojump_clock):
    watching = Watching()
    async with Mesh.run(1) as mesh:
        with pytest.raises(ZeroDivisionError):
            async with mesh.channel(telemetry=watching) as channel:
                await ask(channel)
                raise ZeroDivisionError
    assert watching.watcher.notes.index("closed") == len(watching.watcher.notes) - 1


class TestConnections:
    async def test_an_observer_gets_a_connection_and_its_end_with_the_channel(self, autojump_clock):
        async with watched() as (mesh, _, watcher):
            host = mesh.hosts[0]
        assert watcher.of("connection") == [
            f"connection {host} opened, none",
            f"connection {host} closed: subchannel shutdown",
        ]

    async def test_an_observer_gets_connection_failed(self, autojump_clock):
        async with watched() as (mesh, _, watcher):
            mesh.network.refuse(mesh.hosts[0])
            mesh.network.cut(mesh.hosts[0])
            await trio.sleep(0.5)
            assert [note.partition(": ")[0] for note in watcher.of("connection")[1:3]] == [
                f"connection {mesh.hosts[0]} closed",
                f"connection {mesh.hosts[0]} failed",
            ]

    async def test_an_abandoned_connection_attempt_is_no_connection_failed(self, autojump_clock):
        async with watched() as (mesh, _, watcher):
            mesh.network.black_hole("10.0.1.99:50051")
            mesh.endpoints("cart", [mesh.hosts[0], "10.0.1.99:50051"])
            await trio.sleep(1)
            mesh.endpoints("cart", [mesh.hosts[0]])
            await trio.sleep(60)
            assert [note for note in watcher.of("connection") if "99" in note] == []

    async def test_the_disconnect_reason_of_a_goaway_has_its_code(self, autojump_clock):
        async with watched() as (mesh, _, watcher):
            mesh.servers[mesh.hosts[0]].goaway()
            await wait_all_tasks_blocked()
            assert watcher.of("connection")[1] == f"connection {mesh.hosts[0]} closed: GOAWAY NO_ERROR"

    async def test_the_disconnect_reason_of_a_goaway_with_an_unknown_code_is_an_internal_error(self, autojump_clock):
        async with watched() as (mesh, _, watcher):
            mesh.servers[mesh.hosts[0]].goaway(4_000_000_000)
            await wait_all_tasks_blocked()
            assert watcher.of("connection")[1] == f"connection {mesh.hosts[0]} closed: GOAWAY INTERNAL_ERROR"

    async def test_the_disconnect_reason_of_a_removed_host_is_subchannel_shutdown(self, autojump_clock):
        async with watched(2, calls=2) as (mesh, _, watcher):
            mesh.endpoints("cart", [mesh.hosts[1]])
            await trio.sleep(1)
            assert watcher.of("connection")[2:] == [f"connection {mesh.hosts[0]} closed: subchannel shutdown"]

    async def test_the_disconnect_reason_of_a_vanished_host_is_a_timeout(self, autojump_clock):
        async with watched(keepalive_time=10) as (mesh, channel, watcher):
            async with bidi(channel).open(b"") as call:
                await call.receive()
                mesh.network.silence(mesh.hosts[0])
                with pytest.raises(RpcError):
                    await call.receive()
            assert watcher.of("connection")[1] == f"connection {mesh.hosts[0]} closed: connection timed out"


class TestPolicies:
    async def test_an_observer_gets_wrr_weights_when_they_are_updated(self, autojump_clock):
        policy = {"name": "wrr", "typed_config": {"@type": f"{WRR}ClientSideWeightedRoundRobin"}}
        watching = Watching()
        async with Mesh.run(2, sessions=False) as mesh:
            policies = [{"typed_extension_config": policy}]
            mesh.plane.put({**xds.cluster("cart"), "load_balancing_policy": {"policies": policies}})
            async with mesh.channel(telemetry=watching) as channel:
                await ask(channel)
                await trio.sleep(5)
                watching.watcher.notes.clear()
                await ask(channel)
        (told,) = watching.watcher.of("weights")
        assert "endpoints=(0.0, 0.0), not_yet_usable=2, stale=0, fell_back=True" in told

    async def test_an_observer_gets_an_ejected_outlier_or_the_reason_against_it(self, autojump_clock):
        watching = Watching()
        await eject_one_of_two(watching)
        told = watching.watcher.outliers
        assert [(each.method, each.unenforced) for each in told] == [
            ("failure_percentage", ""),
            ("failure_percentage", "max_ejection_overflow"),
        ]
        assert isinstance(told[0], OutlierEvent)


class TestLocations:
    async def test_the_location_of_a_host_is_its_cluster_and_locality(self, autojump_clock):
        watching = Watching()
        async with Mesh.run(1) as mesh, mesh.channel(telemetry=watching) as channel:
            await ask(channel)
            where = Location("cart", '{region="", zone="z0", sub_zone=""}')
            assert watching.locate(mesh.hosts[0]) == watching.locate(mesh.hosts[0], "cart") == where

    async def test_a_locality_without_names_is_written_with_its_braces(self, autojump_clock):
        watching = Watching()
        async with Mesh.run(1) as mesh, mesh.channel(telemetry=watching) as channel:
            mesh.endpoints("cart", {**xds.locality(mesh.hosts[0]), "locality": {}})
            await ask(channel)
            # As by the C++ client, grpc-go and grpc-java, and as the metrics of weighted_round_robin have it.
            assert watching.locate(mesh.hosts[0]).locality == '{region="", zone="", sub_zone=""}'

    async def test_the_location_of_an_unknown_address_is_empty(self, autojump_clock):
        watching = Watching()
        async with Mesh.run(1) as mesh, mesh.channel(telemetry=watching) as channel:
            assert watching.locate("10.9.9.9:1") == NOWHERE
            await ask(channel)
            assert watching.locate("10.9.9.9:1", "cart") == Location("cart")

    async def test_the_backend_of_a_pick_by_least_request_is_the_cluster(self, autojump_clock):
        watching = Watching()
        async with Mesh.run(1, sessions=False) as mesh:
            mesh.plane.put({**xds.cluster("cart"), "lb_policy": "LEAST_REQUEST"})
            async with mesh.channel(telemetry=watching) as channel:
                await ask(channel)
        assert watching.watcher.backends == ["cart"]

    async def test_the_backend_of_a_pick_in_an_aggregate_is_the_leaf(self, autojump_clock):
        watching = Watching()
        async with Mesh.run(1, sessions=False) as mesh:
            mesh.plane.put(xds.aggregate("all", "cart"))
            mesh.route("all")
            async with mesh.channel(telemetry=watching) as channel:
                await ask(channel)
                assert watching.locate(mesh.hosts[0]).backend == "cart"
        assert watching.watcher.backends == ["cart"]


def test_the_target_for_telemetry_always_has_a_scheme():
    from trxds.resolver.target_uri import canonical

    assert [canonical(each) for each in ("cart:80", "dns:cart", "xds:///shop", "unix:/x", "[::1]:80")] == [
        "dns:///cart:80", "dns:cart", "xds:///shop", "unix:/x", "dns:///[::1]:80",
    ]  # fmt: skip
