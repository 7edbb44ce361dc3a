"""An explanation names the host of the next RPC and the reason; it connects and leases nothing."""

from contextlib import suppress

import pytest
import trio
from support.mesh import METHOD, Mesh, ask, bidi
from support.outliers import EJECTION, broken
from support.sessions import answer, b64
from trio.testing import wait_all_tasks_blocked

from trxds import RpcError
from trxds.lb.pick import Complete, PickArgs
from trxds.policies import QUEUE_PICKER, Connectivity, Decision, PolicyType
from trxds.resolver.pick_outcomes import PickDropped, PickedSubchannel, PickFailed, PickQueued
from trxds.testing import resources as xds

PER_ROUTE = "type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute"
REFUSED = "10.9.9.9:1"  # nobody listens there


def cookie(says):
    return [("cookie", f"session={b64(says)}")]


def line(told, policy):
    """Return a policy's observations and the reason of its choice."""
    step = next(step for step in told.steps if step.policy.startswith(policy))
    return f"{step.saw}; {step.why}"


async def explained(channel, metadata=()):
    """Explain a call twice, because an explanation must change nothing."""
    first = await channel.explain(METHOD, metadata)
    told = await channel.explain(METHOD, metadata)
    assert first.steps == told.steps
    return told


async def settled(channel):
    """Wait until all hosts have had time to connect."""
    await ask(channel)
    await wait_all_tasks_blocked()


async def status_of(channel):
    with pytest.raises(RpcError) as caught:
        await ask(channel)
    return caught.value.status


async def test_the_explanation_of_a_session_names_its_host(autojump_clock):
    async with Mesh.run(3) as mesh, mesh.channel() as channel:
        await settled(channel)
        host = mesh.hosts[1]
        told = await explained(channel, cookie(f"{host};cart"))
        assert told.sessions[0].verdict == f"names {host} and cluster cart"
        assert line(told, "xds_override_host") == f"{host} is HEALTHY, READY; the session's first host that is READY"
        assert isinstance(told.outcome, PickedSubchannel)
        assert told.host == host == (await answer(channel, f"{host};cart")).host


async def test_the_explanation_of_a_cluster_listed_twice_has_the_filters_of_the_chosen_entry(autojump_clock):
    def entry(weight, cookie):
        state = {"session_state": xds.stateful_session(cookie)["typed_config"]["session_state"]}
        override = {"@type": PER_ROUTE, "stateful_session": state}
        return {"name": "cart", "weight": weight, "typed_per_filter_config": {"stateful_session": override}}

    async with Mesh.run(1) as mesh:
        clusters = [entry(1, "never-drawn"), entry(10**9, "drawn")]
        mesh.route({"match": {"prefix": ""}, "route": {"weighted_clusters": {"clusters": clusters}}})
        async with mesh.channel() as channel:
            told = await explained(channel)
            assert [step.carrier for step in told.sessions] == ["cookie 'drawn'"]


class NeverReady:
    def __init__(self, channel_control):
        pass

    def decide(self, inputs, now):
        return Decision(Connectivity.CONNECTING, QUEUE_PICKER)


async def test_the_explanation_during_a_graceful_switch_is_the_current_policys(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel(policies={"test.NeverReady": PolicyType(NeverReady)}) as channel:
        await settled(channel)
        mesh.plane.put(xds.cluster("cart") | xds.custom_policy("test.NeverReady"))
        await trio.sleep(1)
        told = await explained(channel)
        assert told.steps[-1].policy == "round_robin"
        assert told.host == mesh.hosts[0] == (await answer(channel)).host


async def test_the_explanation_of_a_session_names_a_host_that_the_cluster_does_not_have(autojump_clock):
    async with Mesh.run(3) as mesh, mesh.channel() as channel:
        await settled(channel)
        told = await explained(channel, cookie("10.7.7.7:1;cart"))
        assert line(told, "xds_override_host") == (
            "10.7.7.7:1 is no endpoint of cluster cart; none of the session's hosts can be used"
        )
        assert told.steps[-1].policy == "round_robin"
        assert told.host == (await answer(channel, "10.7.7.7:1;cart")).host


async def test_the_explanation_of_a_session_on_a_draining_host_that_override_host_status_allows(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel:
        mesh.cluster("cart", override_statuses=["HEALTHY", "DRAINING"])
        mesh.endpoints("cart", xds.locality(*mesh.hosts, health={mesh.hosts[0]: "DRAINING"}))
        await settled(channel)
        says = f"{mesh.hosts[0]};cart"
        told = await explained(channel, cookie(says))
        assert line(told, "xds_override_host").startswith(f"{mesh.hosts[0]} is DRAINING, not connected; it is not")
        assert told.outcome == PickQueued(f"{mesh.hosts[0]} to connect", mesh.hosts[0])
        assert not mesh.servers[mesh.hosts[0]].connections
        assert (await answer(channel, says)).host == told.outcome.address
        assert (await explained(channel, cookie(says))).host == mesh.hosts[0]


async def test_the_explanation_of_a_session_on_a_draining_host_that_override_host_status_excludes(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel:
        mesh.endpoints("cart", xds.locality(*mesh.hosts, health={mesh.hosts[0]: "DRAINING"}))
        await settled(channel)
        told = await explained(channel, cookie(f"{mesh.hosts[0]};cart"))
        assert "is DRAINING, which override_host_status does not have" in line(told, "xds_override_host")
        assert told.host == mesh.hosts[1] == (await answer(channel, f"{mesh.hosts[0]};cart")).host


async def test_the_explanation_of_a_failover_names_both_priorities(autojump_clock):
    async with Mesh.run(1) as mesh:
        mesh.endpoints("cart", xds.locality(REFUSED), xds.locality(*mesh.hosts, zone="b", priority=1))
        async with mesh.channel() as channel:
            await settled(channel)
            told = await explained(channel)
            assert "child_number=0} TRANSIENT_FAILURE" in line(told, "priority")
            assert line(told, "priority").endswith("child_number=1} READY; the first that is READY or IDLE")
            assert told.host == mesh.hosts[0] == await ask(channel)


async def test_the_explanation_of_a_cookie_for_another_weighted_cluster(autojump_clock):
    async with Mesh.run(2) as mesh:
        for name, host in zip(("a", "b"), mesh.hosts, strict=True):
            mesh.cluster(name)
            mesh.endpoints(name, [host])
        mesh.route({"a": 99, "b": 1})
        async with mesh.channel() as channel:
            await settled(channel)
            says = f"{mesh.hosts[1]};b"
            await answer(channel, says)
            told = await explained(channel, cookie(says))
            assert told.chosen.draw is not None
            assert line(told, "xds_cluster_manager") == "2 clusters; it is the RPC's; it is READY"
            assert told.steps[0].chose == "b"
            assert told.host == mesh.hosts[1] == (await answer(channel, says)).host
            elsewhere = await channel.explain(METHOD, cookie(f"{mesh.hosts[1]};gone"))
            assert elsewhere.sessions[0].verdict.endswith("and cluster gone, which the route does not have")


async def test_the_explanation_with_all_hosts_down_names_the_last_error(autojump_clock):
    async with Mesh.run(0) as mesh:
        mesh.endpoints("cart", [REFUSED])
        async with mesh.channel() as channel:
            status = await status_of(channel)
            told = await explained(channel)
            assert line(told, "round_robin") == "0 of 1 endpoints READY, 1 TRANSIENT_FAILURE; all have failed"
            assert isinstance(told.outcome, PickFailed) and told.host == ""
            assert status.message.endswith(told.outcome.status.message)


async def test_the_explanation_of_a_deleted_cluster_names_it(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await settled(channel)
        mesh.plane.remove("CDS", "cart")
        await wait_all_tasks_blocked()
        told = await explained(channel)
        assert line(told, "cds") == "cluster cart without a usable resource; its resource may still come"
        assert told.outcome == PickFailed(await status_of(channel))


async def test_the_explanation_of_a_full_circuit_breaker_is_a_drop(autojump_clock):
    limit = {"circuit_breakers": {"thresholds": [{"max_requests": 1}]}}
    async with Mesh.run(1) as mesh:
        mesh.plane.put(xds.cluster("cart") | limit)
        async with mesh.channel() as channel:
            await settled(channel)
            async with bidi(channel).open() as call:
                await call.send(b"")
                await call.receive()
                told = await explained(channel)
                assert line(told, "xds_cluster_impl") == "1 of 1 RPCs in flight, drops: none; max_requests is reached"
                assert told.outcome == PickDropped(await status_of(channel))


async def test_the_explanation_names_an_ejected_host(autojump_clock):
    async with Mesh.run(2) as mesh:
        bad, good = mesh.hosts
        mesh.servers[bad].handlers[METHOD] = broken
        mesh.plane.put(xds.cluster("cart") | {"outlier_detection": EJECTION})
        async with mesh.channel() as channel:
            for _ in range(20):
                with suppress(RpcError):
                    await ask(channel)
            await trio.sleep(2)
            told = await explained(channel)
            assert line(told, "outlier_detection").startswith(f"ejected: {bad};")
            assert told.host == good == await ask(channel)
            assert (await explained(channel, cookie(f"{bad};cart"))).host == bad


async def test_an_explanation_during_an_update_agrees_with_the_picker(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel:
        first, second = mesh.hosts
        mesh.endpoints("cart", [first])
        await settled(channel)
        for host in (second, first, second):
            mesh.endpoints("cart", [host])
            told = None
            while told is None or told.host != host:
                await trio.lowlevel.checkpoint()
                told = await channel.explain(METHOD)
                picked = channel._state.data_plane.current.picker.pick(PickArgs(METHOD, cluster="cart"))
                assert told.host == (picked.host.address if isinstance(picked, Complete) else ""), str(told)


async def test_the_explanation_of_ring_hash_has_the_header_and_the_hash(autojump_clock):
    ring = {"lb_policy": "RING_HASH"}
    by_user = {"hash_policy": [{"header": {"header_name": "user"}}]}
    async with Mesh.run(3, sessions=False) as mesh:
        mesh.plane.put(xds.cluster("cart") | ring)
        entry = xds.route("cart")
        mesh.route({**entry, "route": entry["route"] | by_user})
        async with mesh.channel() as channel:
            told = await explained(channel, [("user", "7")])
            assert f"hash {told.chosen.hash:#018x}" in line(told, "ring_hash")
            assert isinstance(told.outcome, PickQueued)
            assert all(not server.connections for server in mesh.servers.values())
            met = await ask(channel, metadata=[("user", "7")])
            assert met == told.outcome.address
            assert (await explained(channel, [("user", "7")])).host == met


async def test_an_explanation_reads_line_by_line_from_the_route_to_the_host(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await settled(channel)
        told = await channel.explain(METHOD)
        text = str(told).splitlines()
        assert text[0] == f'{METHOD} in virtual host "routes"'
        assert "session by cookie 'session': none in the request" in text
        assert text[-2] == f"round_robin sees 1 of 1 endpoints READY; chooses {mesh.hosts[0]}: it is its turn"
        assert text[-1] == f"so the RPC goes to {mesh.hosts[0]} (READY)"
        assert repr(told).endswith(f"goes to {mesh.hosts[0]} (READY)>")
