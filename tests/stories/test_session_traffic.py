"""The policy that balances other RPCs counts those of sessions too (A48, A58, A61)."""

from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

import pytest
import trio
from support.mesh import METHOD, Mesh, ask, bidi, spread
from xds.data.orca.v3.orca_load_report_pb2 import OrcaLoadReport

from trxds.policies import Complete, EndpointList, PolicyType, SubchannelInterface
from trxds.session_affinity.cookie import encode
from trxds.testing import resources as xds

WRR = "envoy.extensions.load_balancing_policies.client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin"
LOCALITIES = "envoy.extensions.load_balancing_policies.wrr_locality.v3.WrrLocality"
LEAST = "envoy.extensions.load_balancing_policies.least_request.v3.LeastRequest"


def by_type(name, **fields):
    config = {"@type": f"type.googleapis.com/{name}", **fields}
    return {"load_balancing_policy": {"policies": [{"typed_extension_config": {"name": "it", "typed_config": config}}]}}


def cookie(host):
    return [("cookie", f"session={encode(host, 'cart')}")]


@asynccontextmanager
async def session_streams(channel, host, count):
    """Open this number of session streams on the host."""

    async def stream(*, task_status):
        async with bidi(channel).open(metadata=cookie(host)) as call:
            await call.send(b"")
            await call.receive()
            task_status.started()
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            await nursery.start(stream)
        yield
        nursery.cancel_scope.cancel()


class TestLeastRequest:
    async def test_least_request_counts_the_streams_of_sessions(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            busy, free = mesh.hosts
            mesh.plane.put(xds.cluster("cart") | by_type(LEAST, choice_count=10))
            await ask(channel)
            await trio.sleep(1)
            async with session_streams(channel, busy, 20):
                # Ten draws with replacement (A48) find only the busy host once in a thousand picks.
                assert (await spread(channel, 40))[busy] <= 2
            await trio.sleep(1)
            assert set(await spread(channel, 40)) == {busy, free}, "they are over"

    async def test_least_request_counts_sessions_below_localities_and_priorities(self, autojump_clock):
        nested = by_type(LOCALITIES, endpoint_picking_policy=by_type(LEAST, choice_count=10)["load_balancing_policy"])
        async with Mesh.run(4) as mesh, mesh.channel() as channel:
            busy, free, second, third = mesh.hosts
            mesh.plane.put(xds.cluster("cart") | nested)
            mesh.endpoints(
                "cart",
                xds.locality(busy, free, zone="x"),
                xds.locality(second, zone="y"),
                xds.locality(third, zone="z", priority=1),
            )
            await ask(channel)
            await trio.sleep(1)
            async with session_streams(channel, busy, 20):
                met = await spread(channel, 40)
                assert met[busy] <= 2 and met.keys() - {busy} == {free, second}

    async def test_least_request_keeps_its_counts_over_an_update(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel:
            busy, free, more = mesh.hosts
            mesh.plane.put(xds.cluster("cart") | by_type(LEAST, choice_count=10))
            mesh.endpoints("cart", [busy, free])
            await ask(channel)
            await trio.sleep(1)
            async with session_streams(channel, busy, 20):
                mesh.endpoints("cart", [more, busy, free])
                await trio.sleep(1)
                met = await spread(channel, 40)
                assert met[busy] <= 2 and met.keys() - {busy} == {free, more}


class TestWeightedRoundRobin:
    @staticmethod
    def report(mesh, **utilization):
        for name, load in utilization.items():
            host = mesh.hosts[int(name[-1])]

            async def answer(call, host=host, load=load):
                report = OrcaLoadReport(application_utilization=load, rps_fractional=100).SerializeToString()
                async for _ in call:
                    call.set_trailing_metadata([("endpoint-load-metrics-bin", report)])
                    await call.send(host.encode())

            mesh.servers[host].handlers[METHOD] = answer

    async def test_load_reports_of_sessions_keep_the_weights_fresh(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel(idle_timeout=None) as channel:
            _, free = mesh.hosts
            self.report(mesh, h0=0.9, h1=0.1)
            mesh.plane.put(xds.cluster("cart") | by_type(WRR, blackout_period="0s", weight_expiration_period="60s"))
            await trio.sleep(1)
            await spread(channel, 10)
            await trio.sleep(2)
            assert (await spread(channel, 100))[free] == pytest.approx(90, abs=1)
            for _ in range(40):  # 80 s
                for host in mesh.hosts:
                    assert await ask(channel, metadata=cookie(host)) == host
                await trio.sleep(2)
            assert (await spread(channel, 10))[free] >= 9

    async def test_load_reports_of_sessions_set_the_weights(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel(idle_timeout=None) as channel:
            _, free = mesh.hosts
            self.report(mesh, h0=0.9, h1=0.1)
            mesh.plane.put(xds.cluster("cart") | by_type(WRR))
            for _ in range(30):
                for host in mesh.hosts:
                    await ask(channel, metadata=cookie(host))
                await trio.sleep(0.5)
            assert (await spread(channel, 100))[free] == pytest.approx(90, abs=2)


class Heard:
    """A custom policy's tracker."""

    def __init__(self):
        self.told = Counter()

    def began(self):
        self.told["began"] += 1

    def ended(self, status, trailing, now):
        self.told[status.code.name] += 1


@dataclass(frozen=True)
class First:
    host: SubchannelInterface
    heard: Heard

    def pick(self, call):
        return Complete(self.host, (self.heard,))


class FirstHeard:
    """A custom policy that picks the first READY host, and tracks each RPC to any of its hosts."""

    def __init__(self, heard, channel_control):
        self._heard = heard
        self._endpoints = EndpointList(self._first)

    def _first(self, ready):
        return First(ready[min(ready)].host, self._heard[min(ready)])

    def decide(self, inputs, now):
        for endpoint in inputs.endpoints:
            self._heard.setdefault(endpoint.addresses[0], Heard())
        return replace(self._endpoints.decide(inputs, now), trackers=self._heard)


async def test_a_custom_policy_with_pick_events_gets_the_picks_of_sessions(autojump_clock):
    heard = {}
    policies = {"my.First": PolicyType(partial(FirstHeard, heard))}
    async with Mesh.run(2) as mesh, mesh.channel(policies=policies) as channel:
        first, second = mesh.hosts
        mesh.plane.put(xds.cluster("cart") | xds.custom_policy("my.First"))
        await trio.sleep(1)
        await ask(channel)
        await ask(channel, metadata=cookie(second))
        assert heard[first].told == heard[second].told == {"began": 1, "OK": 1}


async def test_pick_first_uses_a_host_that_a_session_has_connected(autojump_clock):
    async with Mesh.run(3) as mesh, mesh.channel() as channel:
        a, b, c = mesh.hosts
        mesh.plane.put(
            xds.cluster("cart") | by_type("envoy.extensions.load_balancing_policies.pick_first.v3.PickFirst")
        )
        mesh.endpoints("cart", [a], xds.locality(b, c, zone="spare", priority=1))
        await trio.sleep(1)
        assert await ask(channel, metadata=cookie(c)) == c
        mesh.endpoints("cart", [b, c])
        await trio.sleep(1)
        assert await spread(channel, 5) == {c: 5}
        assert mesh.network.attempts[b] == 0
