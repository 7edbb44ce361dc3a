"""Each load balancing policy at a cold start: the ones that connect all hosts spread the sessions of a new channel."""

from dataclasses import dataclass, replace

import pytest
import trio
from support.cold_start import delay_connections, stagger, start_sessions
from support.mesh import Mesh, ask, method
from support.method_config import configured, for_all
from trio.testing import wait_all_tasks_blocked

from trxds import Connectivity, StatusCode
from trxds.policies import QUEUE_PICKER, Complete, Decision, EndpointList, PolicyType, RoundRobinConfig
from trxds.testing import resources as xds

SESSIONS = 400
TYPES = "type.googleapis.com/envoy.extensions.load_balancing_policies."


def balance(mesh, name, **fields):
    mesh.plane.put(xds.cluster("cart") | policy(name, **fields))


def policy(name, **fields):
    config = {"name": "policy", "typed_config": {"@type": TYPES + name, **fields}}
    return {"load_balancing_policy": {"policies": [{"typed_extension_config": config}]}}


class TestPoliciesThatConnectAllHosts:
    @pytest.mark.parametrize(
        "name",
        ["least_request.v3.LeastRequest", "client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin"],
    )
    async def test_the_policies_that_count_or_weigh_hosts_spread_sessions(self, name, autojump_clock):
        async with Mesh.run(20) as mesh, mesh.channel() as channel:
            balance(mesh, name)
            stagger(mesh)
            start = await start_sessions(channel, SESSIONS)
            assert max(start.hosts.values()) <= 1.5 * SESSIONS / 20
            assert start.took == (100, 100)

    async def test_a_subset_spreads_sessions_over_itself(self, autojump_clock):
        async with Mesh.run(4) as mesh, mesh.channel() as channel:
            inner = policy("round_robin.v3.RoundRobin")["load_balancing_policy"]
            balance(mesh, "random_subsetting.v3.RandomSubsetting", subset_size=2, child_policy=inner)
            stagger(mesh)
            assert list((await start_sessions(channel, SESSIONS)).hosts.values()) == [200, 200]

    async def test_localities_are_drawn_by_weight_once_the_hosts_of_all_have_connected(self, autojump_clock):
        async with Mesh.run(4) as mesh, mesh.channel() as channel:
            mesh.endpoints("cart", mesh.hosts[:2], mesh.hosts[2:])
            stagger(mesh)
            start = await start_sessions(channel, SESSIONS)
            assert start.took == (20, 20)
            assert max(start.hosts.values()) <= 1.5 * SESSIONS / 4  # drawn: this is 4.5 standard deviations away

    async def test_the_hosts_of_the_priority_in_use_are_waited_for(self, autojump_clock):
        async with Mesh.run(4) as mesh, mesh.channel() as channel:
            down, spare = mesh.hosts[:1], mesh.hosts[1:]
            mesh.network.refuse(*down)
            mesh.endpoints("cart", xds.locality(*down), xds.locality(*spare, zone="b", priority=1))
            stagger(mesh)
            start = await start_sessions(channel, 300)
            assert start.hosts == dict.fromkeys(spare, 100)
            assert start.took == (25, 25)  # the failure after 5 ms, then 20

    async def test_the_leaf_of_an_aggregate_in_use_is_waited_for(self, autojump_clock):
        async with Mesh.run(5) as mesh, mesh.channel() as channel:
            for cluster, hosts in (("x", mesh.hosts[:1]), ("y", mesh.hosts[1:])):
                mesh.cluster(cluster)
                mesh.endpoints(cluster, hosts)
            mesh.plane.put(xds.aggregate("both", "x", "y"))
            mesh.route("both")
            mesh.network.refuse(mesh.hosts[0])
            stagger(mesh)
            assert (await start_sessions(channel, SESSIONS)).hosts == dict.fromkeys(mesh.hosts[1:], 100)

    async def test_a_call_waits_only_for_the_cluster_that_it_goes_to(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            slow = await mesh.add_host()
            mesh.network.black_hole(slow)
            mesh.cluster("slow")
            mesh.endpoints("slow", [mesh.hosts[0], slow])
            mesh.route(xds.route("slow", prefix="/shop.Slow"), xds.route("cart"))
            await ask(channel)
            began = trio.current_time()
            await ask(session)
            assert trio.current_time() == began


class TestPoliciesThatConnectLazily:
    async def test_pick_first_does_not_wait(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel:
            balance(mesh, "pick_first.v3.PickFirst")
            for address in mesh.hosts[1:]:
                mesh.network.black_hole(address)
            start = await start_sessions(channel, 10)
            assert start.hosts == {mesh.hosts[0]: 10}
            assert start.took == (0, 0)

    async def test_ring_hash_waits_only_for_the_host_of_the_hash(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            balance(mesh, "ring_hash.v3.RingHash")
            delay_connections(mesh, {mesh.hosts[0]: 0.01, mesh.hosts[1]: 0.15})
            start = await start_sessions(channel, 50)
            assert {round(each, 3) for each in start.times} == {0.01, 0.15}


@dataclass(frozen=True)
class InTurn:
    """A picker over the READY endpoints, by the session's number among the picks."""

    hosts: tuple
    picks: list

    def pick(self, call):
        self.picks.append(call)
        return Complete(self.hosts[len(self.picks) % len(self.hosts)])


class ByEndpointList:
    """A policy on `EndpointList`, as most policies of users are."""

    def __init__(self, channel_control):
        picks = []
        self.endpoints = EndpointList(lambda ready: InTurn(tuple(each.host for each in ready.values()), picks))

    def decide(self, inputs, now):
        return self.endpoints.decide(inputs, now)


class ByHand:
    """A policy that leases hosts itself, and says nothing of their first pass."""

    def __init__(self, channel_control):
        self.picks = []

    def decide(self, inputs, now):
        addresses = tuple(endpoint.addresses[0] for endpoint in inputs.endpoints)
        ready = tuple(host for host in inputs.hosts.values() if host.state is Connectivity.READY)
        if not ready:
            return Decision(Connectivity.CONNECTING, QUEUE_PICKER, hosts=addresses, connect=addresses)
        return Decision(Connectivity.READY, InTurn(ready, self.picks), hosts=addresses, connect=addresses)


class ByHandWithFirstPass(ByHand):
    def decide(self, inputs, now):
        connecting = any(host.state is Connectivity.CONNECTING for host in inputs.hosts.values())
        return replace(super().decide(inputs, now), in_first_pass=connecting)


class Above:
    """A policy that hands on its child's picker, and its first pass."""

    def __init__(self, channel_control):
        pass

    def decide(self, inputs, now):
        children = {"child": RoundRobinConfig()}
        below = inputs.children.get("child")
        if below is None:
            return Decision(Connectivity.CONNECTING, QUEUE_PICKER, children=children)
        return Decision(below.state, below.picker, children=children, in_first_pass=below.in_first_pass)


class TestPoliciesOfUsers:
    async def start(self, kind):
        async with Mesh.run(4) as mesh, mesh.channel(policies={"my.pkg.Policy": PolicyType(kind)}) as channel:
            mesh.plane.put(xds.cluster("cart") | xds.custom_policy("my.pkg.Policy"))
            stagger(mesh)
            return await start_sessions(channel, SESSIONS)

    @pytest.mark.parametrize("kind", [ByEndpointList, ByHandWithFirstPass, Above])
    async def test_a_policy_that_reports_its_first_pass_spreads_sessions(self, kind, autojump_clock):
        start = await self.start(kind)
        assert list(start.hosts.values()) == [100] * 4
        assert start.took == (20, 20)

    async def test_a_policy_that_does_not_report_it_makes_no_session_wait(self, autojump_clock):
        start = await self.start(ByHand)
        assert len(start.hosts) == 1
        assert start.took == (5, 5)

    async def test_a_report_that_is_no_bool_fails_the_rpcs_of_the_policy(self, autojump_clock, caplog):
        class Wrong(ByHand):
            def decide(self, inputs, now):
                return replace(super().decide(inputs, now), in_first_pass="yes")

        async with Mesh.run(1) as mesh, mesh.channel(policies={"my.pkg.Policy": PolicyType(Wrong)}) as channel:
            mesh.plane.put(xds.cluster("cart") | xds.custom_policy("my.pkg.Policy"))
            await channel.explain("/shop.Cart/Add")
            await wait_all_tasks_blocked()
        assert "Decision.in_first_pass is 'yes'; it must be a bool" in caplog.text


class TestSeveralAttempts:
    async def times(self, monkeypatch, method_config, fail_first):
        """Return after how many seconds each attempt of a session's first call came to a host."""
        async with Mesh.run(2) as mesh, configured(monkeypatch, mesh, for_all(**method_config)) as channel:
            mesh.network.black_hole(mesh.hosts[1])
            began, came = trio.current_time(), []

            async def handler(call):
                came.append(trio.current_time() - began)
                if len(came) == 1:
                    await fail_first(call)
                await call.send(b"")

            mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/Fail"] = handler
            async with channel.session() as session:
                await method(session, "/shop.Cart/Fail")(b"")
            return came

    async def test_only_the_first_attempt_of_a_retried_call_waits(self, monkeypatch, autojump_clock):
        async def fail(call):
            call.abort(StatusCode.UNAVAILABLE, "first")

        retries = {
            "maxAttempts": 2,
            "initialBackoff": "0.01s",
            "maxBackoff": "0.01s",
            "backoffMultiplier": 1,
            "retryableStatusCodes": ["UNAVAILABLE"],
        }
        first, second = await self.times(monkeypatch, {"retryPolicy": retries}, fail)
        assert first == pytest.approx(0.2)
        assert second - first == pytest.approx(0.01, rel=0.25)

    async def test_only_the_first_attempt_of_a_hedged_call_waits(self, monkeypatch, autojump_clock):
        async def linger(call):
            await trio.sleep(10)

        hedges = {"maxAttempts": 2, "hedgingDelay": "0.3s"}
        first, second = await self.times(monkeypatch, {"hedgingPolicy": hedges}, linger)
        assert (first, second) == pytest.approx((0.2, 0.3))
