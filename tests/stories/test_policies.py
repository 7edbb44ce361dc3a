"""Each policy works in the whole tree, from EDS bytes to RPCs."""

import math
from collections import Counter

import pytest
import trio
from support.mesh import METHOD, Mesh, ask, bidi, spread
from xds.data.orca.v3.orca_load_report_pb2 import OrcaLoadReport
from xds.service.orca.v3.orca_pb2 import OrcaLoadReportRequest

from trxds import StatusCode
from trxds.lb.ring_hash import policy as ring_hash
from trxds.lb.ring_hash.ring import build_ring
from trxds.testing import resources as xds

pytestmark = pytest.mark.slow

POLICIES = "type.googleapis.com/envoy.extensions.load_balancing_policies."


def by_type(name, **fields):
    """What `load_balancing_policy` says to have the policy of that type, "pick_first.v3.PickFirst" say."""
    config = {"name": "policy", "typed_config": {"@type": POLICIES + name, **fields}}
    return {"load_balancing_policy": {"policies": [{"typed_extension_config": config}]}}


def balance(mesh, **policy):
    mesh.plane.put({**xds.cluster("cart"), **policy})


def several(*addresses):
    """A locality of one endpoint with these addresses (A61)."""
    first, *others = (each["endpoint"] for each in xds.locality(*addresses)["lb_endpoints"])
    locality = xds.locality(addresses[0])
    locality["lb_endpoints"] = [{"endpoint": {**first, "additional_addresses": others}}]
    return locality


def connected(mesh):
    """Return the hosts with connections."""
    return {address for address, server in mesh.servers.items() if server.connections}


class TestPickFirst:
    async def test_pick_first_sends_all_rpcs_to_the_first_host_and_connects_no_other(self, autojump_clock):
        async with Mesh.run(3) as mesh:
            balance(mesh, **by_type("pick_first.v3.PickFirst"))
            async with mesh.channel() as channel:
                assert await spread(channel, 10) == {mesh.hosts[0]: 10}
                assert connected(mesh) == {mesh.hosts[0]}

    async def test_pick_first_passes_an_unresponsive_host_after_250_ms(self, autojump_clock):
        async with Mesh.run(2) as mesh:
            balance(mesh, **by_type("pick_first.v3.PickFirst"))
            mesh.network.black_hole(mesh.hosts[0])
            async with mesh.channel() as channel:
                began = trio.current_time()
                assert await ask(channel) == mesh.hosts[1]
                assert 0.25 <= trio.current_time() - began < 0.3

    async def test_pick_first_connects_again_at_the_next_rpc_after_a_lost_connection(self, autojump_clock):
        async with Mesh.run(2) as mesh:
            balance(mesh, **by_type("pick_first.v3.PickFirst"))
            async with mesh.channel() as channel:
                assert await ask(channel) == mesh.hosts[0]
                mesh.network.cut(mesh.hosts[0])
                await trio.sleep(60)
                assert not connected(mesh)
                assert await ask(channel) == mesh.hosts[0]


async def test_pick_first_reaches_an_endpoint_by_whichever_address_connects(autojump_clock):
    async with Mesh.run(3) as mesh:
        mesh.endpoints("cart", several(*mesh.hosts[:2]), xds.locality(mesh.hosts[2], zone="other"))
        mesh.network.black_hole(mesh.hosts[0])
        async with mesh.channel() as channel:
            await ask(channel)
            await trio.sleep(1)
            assert set(await spread(channel, 50)) == set(mesh.hosts[1:])


class TestRingHash:
    @staticmethod
    def hashed(mesh):
        route = xds.route("cart")
        route["route"]["hash_policy"] = [{"header": {"header_name": "user"}}]
        mesh.route(route)
        balance(mesh, lb_policy="RING_HASH")

    async def test_ring_hash_sends_a_key_to_one_host_and_connects_only_that(self, autojump_clock):
        async with Mesh.run(5) as mesh:
            self.hashed(mesh)
            async with mesh.channel() as channel:
                met = await spread(channel, 10, metadata=[("user", "7")])
                assert len(met) == 1
                assert connected(mesh) == set(met)

    @pytest.mark.parametrize(("variable", "size"), [("", 4096), ("6000", 6000)])
    async def test_a_ring_is_no_larger_than_the_clients_size_cap(self, autojump_clock, monkeypatch, variable, size):
        monkeypatch.setenv("GRPC_RING_HASH_CAP", variable)
        built = []
        monkeypatch.setattr(ring_hash, "build_ring", lambda *args: built.append(build_ring(*args)) or built[-1])
        async with Mesh.run(4) as mesh:
            balance(mesh, lb_policy="RING_HASH", ring_hash_lb_config={"minimum_ring_size": 8000})
            async with mesh.channel() as channel:
                await ask(channel)
        assert {len(ring.hashes) for ring in built} == {size}

    async def test_a_bad_ring_size_cap_is_an_error_before_anything_runs(self, monkeypatch):
        monkeypatch.setenv("GRPC_RING_HASH_CAP", "many")
        async with Mesh.run(0) as mesh:
            with pytest.raises(ValueError, match="GRPC_RING_HASH_CAP is 'many'; write a whole number"):
                await mesh.channel().__aenter__()

    async def test_no_rpc_fails_while_a_ring_fails_over_to_the_next_priority(self, autojump_clock):
        async with Mesh.run(2) as mesh:
            self.hashed(mesh)
            first, second = mesh.hosts
            mesh.endpoints("cart", xds.locality(first, zone="a"), xds.locality(second, zone="b", priority=1))
            async with mesh.channel() as channel:
                assert await ask(channel) == first
                mesh.network.refuse(first)
                mesh.network.cut(first)
                # One RPC after the other begins in each of the steps in which the failure goes up the tree.
                async with trio.open_nursery() as traffic:
                    for _ in range(50):
                        traffic.start_soon(ask, channel)
                        await trio.lowlevel.checkpoint()
                assert await ask(channel) == second

    async def test_ring_hash_sends_a_key_elsewhere_while_its_host_is_down(self, autojump_clock):
        async with Mesh.run(5) as mesh:
            self.hashed(mesh)
            async with mesh.channel() as channel:
                own = await ask(channel, metadata=[("user", "7")])
                mesh.network.refuse(own)
                mesh.network.cut(own)
                await trio.sleep(1)
                other = await ask(channel, metadata=[("user", "7")])
                assert other != own
                mesh.network.restore(own)
                await trio.sleep(200)
                assert await ask(channel, metadata=[("user", "7")]) == own

    async def test_ring_hash_keeps_the_keys_of_remaining_hosts(self, autojump_clock):
        async with Mesh.run(5) as mesh:
            self.hashed(mesh)
            async with mesh.channel() as channel:
                keys = [[("user", str(n))] for n in range(100)]
                before = [await ask(channel, metadata=key) for key in keys]
                mesh.endpoints("cart", mesh.hosts[:4])
                await trio.sleep(1)
                after = [await ask(channel, metadata=key) for key in keys]
                moved = [old for old, new in zip(before, after, strict=True) if old != new]
                assert Counter(moved).most_common(1)[0][0] == mesh.hosts[4]
                assert len(moved) < 40


async def test_random_subsetting_connects_only_its_subset(autojump_clock):
    async with Mesh.run(6) as mesh:
        inner = by_type("round_robin.v3.RoundRobin")["load_balancing_policy"]
        balance(mesh, **by_type("random_subsetting.v3.RandomSubsetting", subset_size=2, child_policy=inner))
        async with mesh.channel() as channel:
            await ask(channel)
            await trio.sleep(1)
            met = await spread(channel, 20)
            assert set(met.values()) == {10}
            assert connected(mesh) == set(met)


async def test_weighted_round_robin_uses_the_weights_of_load_reports(autojump_clock):
    def reporting(address, utilization):
        report = OrcaLoadReport(cpu_utilization=utilization, rps_fractional=100).SerializeToString()

        async def reply(call):
            async for _ in call:
                await call.send(address.encode())
            call.set_trailing_metadata([("endpoint-load-metrics-bin", report)])

        return reply

    async with Mesh.run(2) as mesh:
        balance(mesh, **by_type("client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin"))
        for address, utilization in zip(mesh.hosts, (0.9, 0.3), strict=True):
            mesh.servers[address].handlers[METHOD] = reporting(address, utilization)
        async with mesh.channel() as channel:
            await ask(channel)
            await trio.sleep(1)
            assert (await spread(channel, 20))[mesh.hosts[0]] == 10
            await trio.sleep(15)
            assert 24 <= (await spread(channel, 100))[mesh.hosts[0]] <= 26


def below_localities(child):
    """What has the policy of that type choose among the endpoints of each locality."""
    return by_type("wrr_locality.v3.WrrLocality", endpoint_picking_policy=by_type(child)["load_balancing_policy"])


@pytest.mark.parametrize("child", ["pick_first.v3.PickFirst", "ring_hash.v3.RingHash"])
async def test_a_locality_that_is_idle_connects_though_another_one_is_ready(autojump_clock, child):
    async with Mesh.run(2) as mesh:
        near, far = mesh.hosts
        mesh.endpoints("cart", xds.locality(near, zone="near"), xds.locality(far, zone="far"))
        balance(mesh, **below_localities(child))
        async with mesh.channel() as channel:
            await ask(channel)
            await trio.sleep(1)
            mesh.network.cut(near)
            await trio.sleep(1)
            assert 30 <= (await spread(channel, 100))[near] <= 70


async def test_hosts_keep_their_connections_while_none_is_healthy_for_a_moment(autojump_clock):
    async with Mesh.run(2) as mesh:
        mesh.endpoints("cart", xds.locality(*mesh.hosts))
        async with mesh.channel() as channel:
            await spread(channel, 10)
            before = {address: list(server.connections) for address, server in mesh.servers.items()}
            mesh.endpoints("cart", xds.locality(*mesh.hosts, health=dict.fromkeys(mesh.hosts, "UNHEALTHY")))
            await trio.sleep(1)
            mesh.endpoints("cart", xds.locality(*mesh.hosts))
            await trio.sleep(1)
            assert {address: list(server.connections) for address, server in mesh.servers.items()} == before


async def test_an_rpc_goes_to_the_other_endpoint_of_its_hash_key_while_one_is_down(autojump_clock):
    async with Mesh.run(2) as mesh:
        twins = xds.locality(*mesh.hosts)
        for each in twins["lb_endpoints"]:
            each["metadata"] = {"filter_metadata": {"envoy.lb": {"hash_key": "pod-0"}}}
        mesh.endpoints("cart", twins)
        balance(mesh, lb_policy="RING_HASH")
        mesh.network.refuse(mesh.hosts[1])
        async with mesh.channel() as channel:
            assert await spread(channel, 10) == {mesh.hosts[0]: 10}


ORCA = "/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics"


class TestReportsOutOfBand:
    @staticmethod
    def balance(mesh):
        wrr = "client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin"
        balance(mesh, **by_type(wrr, enable_oob_load_report=True, oob_reporting_period="2s"))

    async def test_out_of_band_reports_set_the_weights(self, autojump_clock):
        asked = []

        def reporting(utilization):
            async def reply(call):
                async for request in call:
                    asked.append(OrcaLoadReportRequest.FromString(request).report_interval.seconds)
                while True:
                    await call.send(OrcaLoadReport(cpu_utilization=utilization, rps_fractional=9).SerializeToString())
                    await trio.sleep(2)

            return reply

        async with Mesh.run(2) as mesh:
            self.balance(mesh)
            for address, utilization in zip(mesh.hosts, (0.9, 0.3), strict=True):
                mesh.servers[address].handlers[ORCA] = reporting(utilization)
            async with mesh.channel() as channel:
                await ask(channel)
                await trio.sleep(15)
                assert asked == [2, 2]
                assert 24 <= (await spread(channel, 100))[mesh.hosts[0]] <= 26

    async def test_an_invalid_out_of_band_report_does_not_end_the_reports(self, autojump_clock, caplog):
        async def broken_then_well(call):
            async for _ in call:
                break
            for fields in ({"eps": -50}, {"eps": math.nan}, {"rps_fractional": 1.7e308}, {"cpu_utilization": math.inf}):
                report = {"cpu_utilization": 0.5, "rps_fractional": 100} | fields
                await call.send(OrcaLoadReport(**report).SerializeToString())
                await trio.sleep(2)
            while True:
                await call.send(OrcaLoadReport(cpu_utilization=0.3, rps_fractional=9).SerializeToString())
                await trio.sleep(2)

        async def well(call):
            while True:
                await call.send(OrcaLoadReport(cpu_utilization=0.9, rps_fractional=9).SerializeToString())
                await trio.sleep(2)

        async with Mesh.run(2) as mesh:
            self.balance(mesh)
            for address, handler in zip(mesh.hosts, (well, broken_then_well), strict=True):
                mesh.servers[address].handlers[ORCA] = handler
            async with mesh.channel() as channel:
                await ask(channel)
                await trio.sleep(30)
                assert 24 <= (await spread(channel, 100))[mesh.hosts[0]] <= 26
        assert "raised" not in caplog.text

    async def test_a_host_without_orca_is_asked_once_per_connection(self, autojump_clock, caplog):
        async def nothing(call):
            call.abort(StatusCode.UNIMPLEMENTED, "no such service")

        async with Mesh.run(1) as mesh:
            self.balance(mesh)
            server = mesh.servers[mesh.hosts[0]]
            server.handlers[ORCA] = nothing
            async with mesh.channel() as channel:
                await ask(channel)
                await trio.sleep(600)
                assert [call.path for call in server.calls].count(ORCA) == 1
        assert "sends no load reports" in caplog.text

    async def test_the_streams_end_with_an_update_that_turns_out_of_band_reports_off(self, autojump_clock):
        open_streams = set()

        async def endless(call):
            open_streams.add(call)
            try:
                await trio.sleep_forever()
            finally:
                open_streams.remove(call)

        async with Mesh.run(2) as mesh:
            self.balance(mesh)
            for server in mesh.servers.values():
                server.handlers[ORCA] = endless
            async with mesh.channel() as channel:
                await ask(channel)
                await trio.sleep(1)
                assert len(open_streams) == 2
                wrr = "client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin"
                balance(mesh, **by_type(wrr, enable_oob_load_report=False))
                await trio.sleep(1)
                assert not open_streams

    async def test_an_ended_out_of_band_stream_is_reopened(self, autojump_clock):
        async def once(call):
            await call.send(OrcaLoadReport().SerializeToString())

        async with Mesh.run(1) as mesh:
            self.balance(mesh)
            server = mesh.servers[mesh.hosts[0]]
            server.handlers[ORCA] = once
            async with mesh.channel() as channel:
                await ask(channel)
                await trio.sleep(10)
                assert [call.path for call in server.calls].count(ORCA) > 3


async def test_least_request_leaves_a_busy_host_alone(autojump_clock):
    async with Mesh.run(2) as mesh:
        balance(mesh, lb_policy="LEAST_REQUEST", least_request_lb_config={"choice_count": 10})
        async with mesh.channel() as channel, bidi(channel).open() as busy:
            await busy.send(b"")
            host = (await busy.receive()).decode()
            await trio.sleep(1)
            met = await spread(channel, 50)
            assert met[host] <= 2
