"""Metrics of the control plane, of connections, policies and sessions, as the SDK's reader finds them."""

from contextlib import asynccontextmanager

import pytest
import trio
from support.mesh import PLANE, Mesh, ask, method
from support.metering import TARGET, Metered, metered
from support.mirroring import mirrored
from support.outliers import eject_one_of_two
from support.xds_files import shop, write
from trio.testing import wait_all_tasks_blocked

import trxds
from trxds import RpcError
from trxds.testing import resources as xds

XDS = "grpc.xds_client"
CLUSTER = "envoy.config.cluster.v3.Cluster"


class TestXdsClient:
    async def test_xds_client_metrics_are_off_by_default(self, autojump_clock):
        async with metered() as (_, _, its):
            assert [name for name in its.metrics() if name.startswith(XDS)] == []

    async def test_xds_updates_are_counted_by_server_and_type(self, autojump_clock):
        async with metered(XDS) as (_, _, its):
            await trio.sleep(1)
            types = {f"envoy.config.{name}" for name in ("listener.v3.Listener", "route.v3.RouteConfiguration")}
            types |= {CLUSTER, "envoy.config.endpoint.v3.ClusterLoadAssignment"}
            labels = ("grpc.target", "grpc.xds.server", "grpc.xds.resource_type")
            valid = its.read(f"{XDS}.resource_updates_valid", *labels)
            assert valid == {(TARGET, PLANE, type): 1 for type in types}
            assert its.points(f"{XDS}.resource_updates_invalid") == []

    async def test_a_resource_that_is_refused_is_invalid_and_its_old_one_cached(self, autojump_clock):
        async with metered(XDS) as (mesh, _, its):
            mesh.plane.put({**xds.cluster("cart"), "lb_policy": "MAGLEV"})
            await trio.sleep(1)
            assert its.read(f"{XDS}.resource_updates_invalid", "grpc.xds.resource_type") == {(CLUSTER,): 1}
            labels = ("grpc.xds.authority", "grpc.xds.cache_state", "grpc.xds.resource_type")
            states = its.read(f"{XDS}.resources", *labels)
            assert states["#old", "nacked_but_cached", CLUSTER] == 1
            assert sum(states.values()) == 4

    async def test_a_resource_that_is_absent_or_new_has_its_state(self, autojump_clock):
        async with metered(XDS) as (mesh, _, its):
            labels = ("grpc.xds.cache_state", "grpc.xds.resource_type")
            mesh.route({"cart": 50, "other": 50})
            await wait_all_tasks_blocked()
            assert its.read(f"{XDS}.resources", *labels)["requested", CLUSTER] == 1
            await trio.sleep(16)
            assert its.read(f"{XDS}.resources", *labels)["does_not_exist", CLUSTER] == 1

    async def test_a_server_is_healthy_until_it_fails_and_again_when_it_answers(self, autojump_clock):
        async with metered(XDS) as (mesh, _, its):
            key = (("grpc.target", TARGET), ("grpc.xds.server", PLANE))
            assert its.read(f"{XDS}.connected") == {key: 1}
            mesh.network.refuse(PLANE)
            mesh.network.cut(PLANE)
            await trio.sleep(10)
            assert its.read(f"{XDS}.connected") == {key: 0}
            assert its.read(f"{XDS}.server_failure") == {key: 1}  # however often it is tried
            mesh.network.restore(PLANE)
            await trio.sleep(200)
            assert its.read(f"{XDS}.connected") == {key: 1}

    async def test_a_fallback_server_that_is_used_no_longer_has_no_value(self, autojump_clock, tmp_path):
        its, files = Metered(XDS), f"file://{tmp_path}"
        async with Mesh.run(1) as mesh:
            write(tmp_path / "mesh.yaml", *shop(mesh.hosts[0]))
            mesh.network.refuse(PLANE)
            servers = [*mesh.bootstrap["xds_servers"], {"server_uri": files}]
            bootstrap = mesh.bootstrap | {"xds_servers": servers}
            async with mesh.channel(bootstrap=bootstrap, telemetry=its.telemetry) as channel:
                await ask(channel)
                assert its.read(f"{XDS}.connected", "grpc.xds.server") == {(PLANE,): 0, (files,): 1}
                mesh.network.restore(PLANE)
                await mesh.plane.wait_for_ack("EDS")
                await trio.sleep(1)
                assert its.read(f"{XDS}.connected", "grpc.xds.server") == {(PLANE,): 1}

    async def test_a_stream_that_ends_after_an_answer_is_no_failure(self, autojump_clock):
        async with metered(XDS) as (mesh, _, its):
            mesh.plane.drop_streams()
            await trio.sleep(0.1)
            assert set(its.read(f"{XDS}.connected").values()) == {1}
            assert its.points(f"{XDS}.server_failure") == []

    async def test_gauges_have_no_value_for_a_closed_channel(self, autojump_clock):
        async with metered(XDS) as (_, _, its):
            pass
        assert its.points(f"{XDS}.connected") == its.points(f"{XDS}.resources") == []

    @asynccontextmanager
    async def two_with_one_target(self):
        """Two meshes, and what the channels of both have recorded."""
        its = Metered(XDS)
        async with (
            Mesh.run(1) as mesh,
            Mesh.run(1) as other,
            mesh.channel(telemetry=its.telemetry) as first,
            other.channel(telemetry=its.telemetry) as second,
        ):
            await ask(first)
            await ask(second)
            yield mesh, other, its

    async def test_resources_of_channels_with_one_target_are_added(self, autojump_clock):
        async with self.two_with_one_target() as (mesh, other, its):
            for each in (mesh, other):
                each.plane.put({**xds.cluster("cart"), "lb_policy": "MAGLEV"})
            await trio.sleep(1)
            other.plane.put(xds.cluster("cart"))
            await trio.sleep(1)
            states = its.read(f"{XDS}.resources", "grpc.xds.cache_state", "grpc.xds.resource_type")
            assert {state: number for (state, type), number in states.items() if type == CLUSTER and number} == {
                "nacked_but_cached": 1,
                "acked": 1,
            }

    @pytest.mark.parametrize("lost", [0, 1])
    async def test_a_server_that_one_of_the_channels_with_one_target_has_lost_is_not_connected(
        self, lost, autojump_clock
    ):
        async with self.two_with_one_target() as (*meshes, its):
            assert [*its.read(f"{XDS}.connected").values()] == [1]
            meshes[lost].network.refuse(PLANE)
            meshes[lost].network.cut(PLANE)
            await trio.sleep(10)
            assert [*its.read(f"{XDS}.connected").values()] == [0]

    async def test_a_shared_client_has_a_target_of_its_own(self, autojump_clock):
        its = Metered(XDS)
        async with Mesh.run(1) as mesh:
            how = {"network": mesh.network, "telemetry": its.telemetry}
            async with (
                trxds.open_xds_client(bootstrap=mesh.bootstrap, **how) as client,
                trxds.open_channel(TARGET, xds=client, **how) as channel,
            ):
                await ask(channel)
                assert its.read(f"{XDS}.connected", "grpc.target") == {("#shared",): 1}


class TestSubchannels:
    OPEN = "grpc.subchannel.open_connections"
    DISCONNECTIONS = "grpc.subchannel.disconnections"
    OPTIONAL = ("grpc.disconnect_error", "grpc.security_level", "grpc.lb.backend_service", "grpc.lb.locality")

    async def test_subchannel_connections_and_disconnections_are_counted(self, autojump_clock):
        async with metered("grpc.subchannel", hosts=2) as (mesh, channel, its):
            await ask(channel)
            await trio.sleep(1)
            key = (("grpc.target", TARGET),)
            assert its.read(self.OPEN) == {key: 2}
            assert its.read("grpc.subchannel.connection_attempts_succeeded") == {key: 2}
            mesh.endpoints("cart", [mesh.hosts[0]])
            await trio.sleep(1)
            assert its.read(self.OPEN) == {key: 1}
            assert its.read(self.DISCONNECTIONS) == {key: 1}
        assert its.read(self.OPEN) == {key: 0}
        assert its.read(self.DISCONNECTIONS) == {key: 2}

    async def test_a_disconnection_has_a_reason_a_cluster_and_a_locality(self, autojump_clock):
        how = {"optional_labels": self.OPTIONAL}
        async with metered("grpc.subchannel", **how) as (mesh, _, its):
            where = ("cart", '{region="", zone="z0", sub_zone=""}')
            assert set(its.read(self.OPEN, *self.OPTIONAL[1:])) == {("none", *where)}
            mesh.servers[mesh.hosts[0]].goaway()
            await trio.sleep(1)
            labels = ("grpc.disconnect_error", *self.OPTIONAL[2:])
            assert set(its.read(self.DISCONNECTIONS, *labels)) == {("GOAWAY NO_ERROR", *where)}

    async def test_a_connection_that_is_replaced_after_its_host_has_moved_ends_in_its_old_locality(
        self, autojump_clock
    ):
        how = {"optional_labels": self.OPTIONAL, "max_connection_age": 100}
        async with metered("grpc.subchannel", **how) as (mesh, channel, its):
            mesh.plane.put(xds.endpoints("cart", xds.locality(mesh.hosts[0], zone="moved")))
            await trio.sleep(112)
            await ask(channel)
            old, new = ((f'{{region="", zone="{zone}", sub_zone=""}}',) for zone in ("z0", "moved"))
            assert its.read(self.OPEN, "grpc.lb.locality") == {old: 0, new: 1}
            assert its.read(self.DISCONNECTIONS, "grpc.lb.locality") == {old: 1}

    async def test_failed_attempts_are_counted(self, autojump_clock):
        async with metered("grpc.subchannel", connected=False) as (mesh, channel, its):
            mesh.network.refuse(mesh.hosts[0])
            with pytest.raises(RpcError):
                await ask(channel)
            assert list(its.read("grpc.subchannel.connection_attempts_failed").values()) == [1]
            assert its.points(self.OPEN) == []


class TestPolicies:
    OPTIONAL = ("grpc.lb.locality", "grpc.lb.backend_service")

    async def test_endpoint_weights_are_recorded_with_their_locality(self, autojump_clock):
        kinds = "type.googleapis.com/envoy.extensions.load_balancing_policies."
        wrr = {"@type": f"{kinds}client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin"}
        leaf = {"policies": [{"typed_extension_config": {"name": "leaf", "typed_config": wrr}}]}
        by_locality = {"@type": f"{kinds}wrr_locality.v3.WrrLocality", "endpoint_picking_policy": leaf}
        policies = [{"typed_extension_config": {"name": "localities", "typed_config": by_locality}}]
        its = Metered("grpc.lb.wrr", optional_labels=self.OPTIONAL)
        async with Mesh.run(2, sessions=False) as mesh:
            mesh.plane.put({**xds.cluster("cart"), "load_balancing_policy": {"policies": policies}})
            async with mesh.channel(telemetry=its.telemetry) as channel:
                await ask(channel)
        where = ('{region="", zone="z0", sub_zone=""}', "cart")
        fallbacks = its.read("grpc.lb.wrr.rr_fallback", *self.OPTIONAL)
        assert set(fallbacks) == {where} and fallbacks[where] >= 1
        (point,) = its.points("grpc.lb.wrr.endpoint_weights")
        assert (
            point.sum == 0
            and point.count == its.read("grpc.lb.wrr.endpoint_weight_not_yet_usable", *self.OPTIONAL)[where]
        )
        assert its.points("grpc.lb.wrr.endpoint_weight_stale") == []

    async def test_outlier_ejections_are_counted_by_method_and_reason(self, autojump_clock):
        its = Metered("grpc.lb.outlier_detection", optional_labels=["grpc.lb.backend_service"])
        await eject_one_of_two(its.telemetry)
        prefix = "grpc.lb.outlier_detection"
        its_labels = (f"{prefix}.detection_method", "grpc.lb.backend_service")
        assert its.read(f"{prefix}.ejections_enforced", *its_labels) == {("failure_percentage", "cart"): 1}
        assert its.read(f"{prefix}.ejections_unenforced", f"{prefix}.unenforced_reason") == {
            ("max_ejection_overflow",): 1
        }


class TestSessions:
    async def test_sessions_are_active_created_and_moved(self, autojump_clock):
        async with metered("trxds.session", hosts=2, sessions=True) as (mesh, channel, its):
            async with channel.session() as session:
                first = await ask(session)
                await ask(session)
                key = (("grpc.target", TARGET),)
                assert its.read("trxds.session.active") == {key: 1}
                mesh.endpoints("cart", [host for host in mesh.hosts if host != first])
                await trio.sleep(1)
                await ask(session)
            assert its.read("trxds.session.active") == {key: 0}
            # The call that connected the channel had no session, and was offered a cookie all the same.
            assert its.read("trxds.session.created") == {key: 1}
            assert its.read("trxds.session.repinned", "reason") == {("unknown_host",): 1}
            assert its.read("trxds.session.pick", "result", "reason") == {
                ("fallback", "no_cookie"): 2,
                ("hit", ""): 1,
                ("fallback", "unknown_host"): 1,
            }
            assert its.points("trxds.session.lost") == []

    async def test_a_session_whose_host_is_gone_and_whose_call_fails_is_lost(self, autojump_clock):
        async with metered("trxds.session", sessions=True) as (mesh, channel, its):
            async with channel.session() as session:
                await ask(session)
                mesh.network.refuse(mesh.hosts[0])
                mesh.network.cut(mesh.hosts[0])
                await trio.sleep(1)
                with pytest.raises(RpcError):
                    await ask(session)
            assert its.read("trxds.session.lost", "reason") == {("not_ready",): 1}
            assert its.points("trxds.session.repinned") == []

    async def test_a_session_that_was_released_and_whose_call_fails_has_lost_no_host(self, autojump_clock):
        async with metered("trxds.session", sessions=True) as (mesh, channel, its):
            async with channel.session() as session:
                await ask(session)
                session.release()
                mesh.endpoints("cart")
                await trio.sleep(1)
                with pytest.raises(RpcError):
                    await ask(session)
            assert its.points("trxds.session.lost") == []

    async def test_a_move_in_whose_block_the_session_was_released_is_counted(self, autojump_clock):
        async with metered("trxds.session", hosts=2, sessions=True) as (_, channel, its):
            async with channel.session() as session:
                await ask(session)
                events = session.events()
                async with session.moving():
                    session.release()
                assert (await anext(events)).reason == "requested"
            assert its.read("trxds.session.repinned", "reason") == {("requested",): 1}

    async def test_session_metrics_are_off_by_default(self, autojump_clock):
        async with metered(sessions=True) as (_, channel, its):
            async with channel.session() as session:
                await method(session)(b"")
            assert [name for name in its.metrics() if name.startswith("trxds")] == []


class TestCopiesOfCalls:
    async def test_copies_are_counted_by_their_result_and_are_no_calls(self, autojump_clock):
        options = {"optional_labels": ["grpc.lb.backend_service"], "mirroring": trxds.Mirroring(max_bytes=10)}
        async with metered("trxds.mirror", connected=False, **options) as (mesh, channel, its):
            mesh.route(mirrored({"cluster": "cart"}))
            await ask(channel)
            await method(channel)(b"x" * 11)
            await trio.sleep(1)
            labels = ("grpc.target", "result", "grpc.status", "grpc.lb.backend_service")
            assert its.read("trxds.mirror.calls", *labels) == {
                (TARGET, "completed", "OK", "cart"): 1,
                (TARGET, "too_large", "", "cart"): 1,
            }
            assert sum(its.read("grpc.client.attempt.started").values()) == 2
