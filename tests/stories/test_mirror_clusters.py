"""Clusters that get copies of calls: watched like those of routes, and nothing waits for them."""

from __future__ import annotations

import pytest
import trio
from support.mesh import Mesh, ask
from support.mirroring import SHADOW, mirrored, settled, shadowed, share
from support.outliers import EJECTION
from support.sessions import answer

import trxds
from trxds import CallCredentials, Connectivity, Mirroring, StatusCode
from trxds.testing import resources as xds


async def test_a_mirror_cluster_that_does_not_come_delays_no_call(autojump_clock):
    async with Mesh.run(1) as mesh:
        mesh.route(mirrored())
        async with mesh.channel(mirroring=Mirroring()) as channel:
            before = trio.current_time()
            await ask(channel)
            assert trio.current_time() - before < 0.1


async def test_copies_begin_when_the_mirror_cluster_comes(autojump_clock):
    async with shadowed() as made:
        made.mesh.plane.remove("CDS", "shadow")
        await ask(made.channel)
        await settled()
        assert made.notes.results == ["not_sent"]
        made.mesh.cluster("shadow")
        await settled()
        await ask(made.channel)
        await settled()
        assert made.notes.results == ["not_sent", "completed"]


async def test_a_mirror_cluster_without_endpoints_delays_no_update_of_routes(autojump_clock):
    async with shadowed() as made:
        await ask(made.channel)
        made.mesh.plane.put(
            xds.cluster("shadow") | {"eds_cluster_config": {"eds_config": {"self": {}}, "service_name": "no"}}
        )
        await settled()
        other = await made.mesh.add_host()
        made.mesh.cluster("other")
        made.mesh.endpoints("other", [other])
        made.mesh.route(mirrored(to="other"))
        await settled()
        assert await ask(made.channel) == other
        await settled()
        assert made.notes.results[-1] == "completed"  # by the endpoints that it had


async def test_a_mirror_cluster_is_watched_only_while_a_route_names_it(autojump_clock):
    async with shadowed() as made:
        await ask(made.channel)
        made.mesh.route("cart")
        await settled()
        last = [each for each in made.mesh.plane.requests if each.kind == "CDS"][-1]
        assert set(last.names) == {"cart"}
        await ask(made.channel)
        await settled()
        assert len(made.shadow.calls) == 1


async def test_a_copy_under_way_keeps_its_cluster(autojump_clock):
    async with shadowed() as made:
        made.shadow.seconds = 2
        await ask(made.channel)
        await settled()
        made.mesh.route("cart")
        await trio.sleep(3)
        assert made.notes.results == ["completed"]
        last = [each for each in made.mesh.plane.requests if each.kind == "CDS"][-1]
        assert set(last.names) == {"cart"}


async def test_a_cookie_cannot_name_a_mirror_cluster(autojump_clock):
    async with shadowed(sessions=True) as made:
        found = await answer(made.channel, f"{SHADOW};shadow")
        assert found.host == made.mesh.hosts[0]


async def test_a_header_names_the_mirror_cluster(autojump_clock):
    by_header = {"cluster_header": "X-Mirror"}
    async with shadowed(by_header, {"cluster": "shadow", **share(0)}) as made:
        await ask(made.channel)
        await ask(made.channel, metadata=[("x-mirror", "shadow")])
        await settled()
        assert made.notes.results == ["completed"]


async def test_a_header_cannot_name_a_cluster_that_no_route_has(autojump_clock):
    async with shadowed({"cluster_header": "x-mirror"}) as made:
        await ask(made.channel, metadata=[("x-mirror", "shadow")])
        await settled()
        [note] = made.notes.all
        assert (note.cluster, note.result) == ("", "no_cluster")
        assert not made.shadow.calls


async def test_a_policy_that_changes_headers_copies_nothing(autojump_clock):
    policy = {"cluster": "shadow", "request_headers_mutations": [{"remove": "secret"}]}
    async with shadowed(policy) as made:
        await ask(made.channel)
        await settled()
        assert not made.shadow.calls
        explanation = await made.channel.explain("/shop.Cart/Add")
        assert "copies: none to cluster shadow: trxds does not know request_headers_mutations" in str(explanation)


async def test_explain_shows_the_copies_of_a_call(autojump_clock):
    async with shadowed({"cluster": "shadow", **share(25)}, {"cluster_header": "x-mirror"}) as made:
        explanation = await made.channel.explain("/shop.Cart/Add")
        assert explanation.chosen.mirrors == (
            "25% of calls to cluster shadow",
            "100% of calls to the cluster that the header 'x-mirror' names",
        )
        assert "copies: 25% of calls to cluster shadow" in str(explanation)


async def test_explain_shows_no_copies_that_the_channel_does_not_make(autojump_clock):
    async with shadowed(mirroring=None) as made:
        assert (await made.channel.explain("/shop.Cart/Add")).chosen.mirrors == ()


async def test_channels_of_a_shared_client_decide_each_for_itself(autojump_clock):
    async with Mesh.run(1) as mesh:
        mesh.route(mirrored({"cluster": "cart"}))
        server = mesh.servers[mesh.hosts[0]]
        async with trxds.open_xds_client(bootstrap=mesh.bootstrap, network=mesh.network, mirroring=True) as xds_client:
            options = {"bootstrap": None, "xds": xds_client}
            async with mesh.channel(**options) as plain, mesh.channel(mirroring=Mirroring(), **options) as mirrors:
                await ask(plain)
                await settled()
                one = len(server.calls)
                await ask(mirrors)
                await settled()
                assert (one, len(server.calls)) == (1, 3)


async def test_a_shared_client_that_ignores_mirror_policies_is_refused(autojump_clock):
    async with Mesh.run(1) as mesh, trxds.open_xds_client(bootstrap=mesh.bootstrap, network=mesh.network) as client:
        with pytest.raises(ValueError, match=r"open_xds_client\(mirroring=True\)"):
            async with mesh.channel(mirroring=Mirroring(), bootstrap=None, xds=client):
                pass


async def test_a_target_without_a_control_plane_has_no_mirroring(autojump_clock):
    with pytest.raises(ValueError, match="mirroring cannot be used"):
        async with trxds.open_channel("ipv4:10.0.0.1:80", mirroring=Mirroring()):
            pass


@pytest.mark.parametrize("limit", ["max_calls", "max_bytes", "timeout"])
def test_limits_are_numbers_above_zero(limit):
    with pytest.raises(ValueError, match=f"mirroring: {limit} is 0; it must be a number above 0"):
        Mirroring(**{limit: 0})


async def test_mirroring_is_a_mirroring(autojump_clock):
    async with Mesh.run(1) as mesh:
        with pytest.raises(TypeError, match=r"mirroring is trxds.Mirroring\(...\) or None, not True"):
            async with mesh.channel(mirroring=True):
                pass


async def test_outlier_detection_of_the_mirror_cluster_counts_copies(autojump_clock):
    async with shadowed() as made:
        good = await made.mesh.add_host()
        made.mesh.plane.put(xds.cluster("shadow") | {"outlier_detection": EJECTION})
        made.mesh.endpoints("shadow", [SHADOW, good])
        made.shadow.code = StatusCode.UNAVAILABLE
        await ask(made.channel)
        await settled()
        for _ in range(4):
            await ask(made.channel)
        await trio.sleep(2)
        before = len(made.shadow.calls)
        assert before
        for _ in range(4):
            await ask(made.channel)
        await settled()
        assert len(made.shadow.calls) == before
        assert made.notes.all[-1].status.code is StatusCode.OK


async def test_a_copy_that_waits_for_a_host_does_not_keep_the_channel_awake(autojump_clock):
    async with shadowed(idle_timeout=4) as made:
        made.mesh.network.black_hole("10.0.2.9:50051")
        made.mesh.endpoints("shadow", ["10.0.2.9:50051"])
        await ask(made.channel)
        await trio.sleep(6)
        assert made.channel.state is Connectivity.IDLE
        [note] = made.notes.all
        assert (note.result, note.status.code) == ("not_sent", StatusCode.UNAVAILABLE)


async def test_a_copy_whose_credentials_come_when_the_channel_is_idle_is_not_sent(autojump_clock, caplog):
    asked = []

    async def token(call):
        asked.append(call)
        await trio.sleep(10 if len(asked) > 1 else 0)
        return [("token", "1")]

    credentials = CallCredentials(token, allow_insecure=True)
    async with shadowed(mirroring=Mirroring(credentials=True), call_credentials=credentials, idle_timeout=4) as made:
        await ask(made.channel)
        await trio.sleep(15)
        assert made.channel.state is Connectivity.IDLE
        assert made.notes.results == ["not_sent"]
    assert "please report it" not in caplog.text
