"""Sessions of targets without a control plane: a cookie of the program's own names one of the target's hosts (A55)."""

import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass

import click
import pytest
import trio
from support.mesh import METHOD, ask, bidi, settled, spread
from support.plain import BY_NAME, hosts_in_memory
from support.sessions import answer

import trxds
from trxds import CookieAffinity, RpcError, StatusCode
from trxds.admin.channel_source import channel_sources
from trxds.admin.state_stream.state_snapshot import Sampler
from trxds.cli.running.pages import RUOK, SESSIONS
from trxds.policies import Complete, EndpointList, PolicyType
from trxds.testing import MemoryNetwork, serve

AFFINITY = CookieAffinity("cart")
IN_JSON = {"statefulSession": {"cookie": {"name": "cart", "path": "/", "ttl": "60s"}}}
POLICIES = ("pick_first", "round_robin", "ring_hash_experimental", "least_request_experimental", "weighted_round_robin")
OUTLIER_DETECTION = {
    "interval": "10s",
    "baseEjectionTime": "60s",
    "failurePercentageEjection": {"threshold": 50, "minimumHosts": 1, "requestVolume": 5},
    "childPolicy": [{"round_robin": {}}],
}


def by(policy, **settings):
    return {"loadBalancingConfig": [{policy: settings}]}


ROUND_ROBIN = by("round_robin")


@asynccontextmanager
async def sticky_channel(mesh, target=BY_NAME, **more):
    """A channel with the affinity, by round_robin, all hosts of which are connected."""
    async with mesh.channel(target, **{"affinity": AFFINITY, "service_config": ROUND_ROBIN} | more) as channel:
        await settled()
        yield channel


def pinned(channel, host, **more):
    """One RPC whose cookie names that host."""
    return answer(channel, host, name="cart", **more)


async def page(channel, page):
    state = await Sampler(channel_sources([channel])).sample()
    return [click.unstyle(line) for line in page.lines(state, 0.0)]


@dataclass(frozen=True)
class HighestPicker:
    hosts: list

    def pick(self, call):
        return Complete(max(self.hosts, key=lambda host: host.address))


def highest(channel_control):
    """A policy that sends all calls to the host with the highest address."""
    return EndpointList(lambda ready: HighestPicker([each.host for each in ready.values()]))


class TestSticky:
    async def test_a_session_of_a_dns_target_stays_on_one_host(self, autojump_clock):
        async with hosts_in_memory(3) as mesh, sticky_channel(mesh) as channel:
            async with channel.session(require=True) as session:
                assert len(await spread(session, 9)) == 1
            assert await spread(channel, 9) == dict.fromkeys(mesh.hosts, 3)

    async def test_a_session_of_a_list_of_addresses_stays_on_one_host(self, autojump_clock):
        async with (
            hosts_in_memory(3) as mesh,
            sticky_channel(mesh, "ipv4:" + ",".join(mesh.hosts)) as channel,
            channel.session(require=True) as session,
        ):
            assert len(await spread(session, 9)) == 1

    async def test_a_service_config_makes_a_session_sticky_too(self, autojump_clock):
        async with (
            hosts_in_memory(3) as mesh,
            sticky_channel(mesh, affinity=None, service_config=ROUND_ROBIN | IN_JSON) as channel,
            channel.session(require=True) as session,
        ):
            assert len(await spread(session, 9)) == 1

    @pytest.mark.parametrize("policy", POLICIES)
    async def test_a_session_stays_under_every_policy(self, policy, autojump_clock):
        async with (
            hosts_in_memory(3) as mesh,
            sticky_channel(mesh, service_config=by(policy)) as channel,
            channel.session() as session,
        ):
            assert len(await spread(session, 9)) == 1

    @pytest.mark.parametrize("policy", POLICIES)
    async def test_the_host_of_a_cookie_is_used_under_every_policy(self, policy, autojump_clock):
        async with hosts_in_memory(3) as mesh, sticky_channel(mesh, service_config=by(policy)) as channel:
            for host in mesh.hosts:
                reply = await pinned(channel, host)
                assert (reply.host, reply.cookies) == (host, [])

    async def test_pick_first_connects_the_host_of_a_session_and_keeps_its_own(self, autojump_clock):
        async with hosts_in_memory(3) as mesh, sticky_channel(mesh, service_config=None) as channel:
            assert (await pinned(channel, mesh.hosts[2])).host == mesh.hosts[2]
            assert await ask(channel) == mesh.hosts[0]
            assert [mesh.network.attempts[host] for host in mesh.hosts] == [1, 0, 1]

    async def test_a_session_stays_under_a_policy_of_the_programs_own(self, autojump_clock):
        policies = {"my.pkg.Highest": PolicyType(highest)}
        async with (
            hosts_in_memory(3) as mesh,
            sticky_channel(mesh, service_config=by("my.pkg.Highest"), policies=policies) as channel,
        ):
            assert (await pinned(channel, mesh.hosts[0])).host == mesh.hosts[0]
            assert await ask(channel) == mesh.hosts[2]

    async def test_a_cookie_reaches_hosts_outside_of_a_subset(self, autojump_clock):
        config = by("random_subsetting_experimental", subsetSize=1, childPolicy=[{"round_robin": {}}])
        async with hosts_in_memory(3) as mesh, sticky_channel(mesh, service_config=config) as channel:
            assert [(await pinned(channel, host)).host for host in mesh.hosts] == mesh.hosts

    async def test_calls_of_sessions_count_for_outlier_detection(self, autojump_clock):
        config = by("outlier_detection_experimental", **OUTLIER_DETECTION)
        async with hosts_in_memory(2) as mesh, sticky_channel(mesh, service_config=config) as channel:

            async def fails(call):
                call.abort(StatusCode.INTERNAL, "broken")

            mesh.servers[mesh.hosts[0]].fallback = fails
            for _ in range(5):
                with pytest.raises(RpcError, match="broken"):
                    await pinned(channel, mesh.hosts[0])
            await trio.sleep(10)
            assert await spread(channel, 4) == {mesh.hosts[1]: 4}

    async def test_an_ejected_host_keeps_its_sessions(self, autojump_clock):
        config = by("outlier_detection_experimental", **OUTLIER_DETECTION)
        async with hosts_in_memory(2) as mesh, sticky_channel(mesh, service_config=config) as channel:
            broken = mesh.servers[mesh.hosts[0]]
            echo = broken.fallback

            async def fails(call):
                call.abort(StatusCode.INTERNAL, "broken")

            broken.fallback = fails
            for _ in range(5):
                with pytest.raises(RpcError, match="broken"):
                    await pinned(channel, mesh.hosts[0])
            await trio.sleep(10)
            broken.fallback = echo
            assert set(await spread(channel, 4)) == {mesh.hosts[1]}
            assert (await pinned(channel, mesh.hosts[0])).host == mesh.hosts[0]

    async def test_a_strict_session_whose_host_is_gone_fails(self, autojump_clock):
        strict = CookieAffinity("cart", strict=True)
        async with hosts_in_memory(2) as mesh, sticky_channel(mesh, affinity=strict) as channel:
            mesh.fail(mesh.hosts[0])
            await settled()
            with pytest.raises(RpcError, match="none of the session's hosts can be used") as failed:
                await pinned(channel, mesh.hosts[0])
            assert failed.value.status.code is StatusCode.UNAVAILABLE


class TestCookie:
    async def test_the_cookie_has_the_programs_name_path_and_ttl_and_the_host_alone(self, autojump_clock):
        affinity = CookieAffinity("cart", path="/shop.Cart", ttl=90)
        async with hosts_in_memory(1) as mesh, sticky_channel(mesh, affinity=affinity) as channel:
            reply = await answer(channel)
            (cookie,) = reply.cookies
            assert cookie.startswith("cart=") and cookie.endswith("; HttpOnly; Path=/shop.Cart; Max-Age=90")
            assert reply.said == mesh.hosts[0]

    async def test_a_cookie_with_a_cluster_is_honoured_and_replaced(self, autojump_clock):
        async with hosts_in_memory(2) as mesh, sticky_channel(mesh) as channel:
            reply = await pinned(channel, f"{mesh.hosts[1]};cart")
            assert (reply.host, reply.said) == (mesh.hosts[1], mesh.hosts[1])

    async def test_a_cookie_reaches_no_host_that_the_target_does_not_have(self, autojump_clock):
        async with hosts_in_memory(3) as mesh:
            mesh.points_to(*mesh.hosts[:2])
            async with sticky_channel(mesh) as channel:
                assert (await pinned(channel, mesh.hosts[2])).host in mesh.hosts[:2]
            assert mesh.network.attempts[mesh.hosts[2]] == 0

    async def test_a_cookie_lasts_for_its_ttl(self, autojump_clock):
        affinity = CookieAffinity("cart", ttl=60)
        async with (
            hosts_in_memory(2) as mesh,
            sticky_channel(mesh, affinity=affinity) as channel,
            channel.session() as session,
        ):
            await ask(session)
            await trio.sleep(59)
            assert session.host is not None
            await trio.sleep(2)
            assert session.host is None

    async def test_a_session_has_the_target_as_its_cluster(self, autojump_clock):
        async with hosts_in_memory(2) as mesh, sticky_channel(mesh) as channel, channel.session() as session:
            host = await ask(session)
            assert session.hosts == {trxds.CookieKey("cart", "/"): trxds.SessionHost(host, channel.target)}
            assert (session.host, session.cluster) == (host, channel.target)

    async def test_an_imported_session_has_it_before_its_first_call(self, autojump_clock):
        async with hosts_in_memory(2) as mesh, sticky_channel(mesh) as channel, channel.session() as session:
            await ask(session)
            async with channel.session(session.export()) as continued:
                assert continued.cluster == channel.target


class TestHostsComeAndGo:
    async def test_a_session_moves_when_its_host_leaves_the_dns_answer(self, autojump_clock):
        async with hosts_in_memory(3) as mesh, sticky_channel(mesh) as channel, channel.session() as session:
            leaving = await ask(session)
            staying = [host for host in mesh.hosts if host != leaving]
            await trio.sleep(60)
            mesh.points_to(*staying)
            mesh.network.cut(leaving)
            await settled()
            (host,) = await spread(session, 5)
            assert host in staying and session.host == host
            assert (await pinned(channel, staying[0])).host == staying[0]

    async def test_a_session_stays_when_the_dns_answer_has_another_order_and_more_hosts(self, autojump_clock):
        async with hosts_in_memory(4) as mesh:
            mesh.points_to(*mesh.hosts[:3])
            async with sticky_channel(mesh) as channel, channel.session() as session:
                host = await ask(session)
                other = next(each for each in mesh.hosts[:3] if each != host)
                await trio.sleep(60)
                mesh.points_to(*reversed(mesh.hosts))
                mesh.network.cut(other)
                await settled()
                assert set(await spread(channel, 8)) == set(mesh.hosts)
                assert await spread(session, 8) == {host: 8}

    async def test_a_session_waits_for_its_host_to_connect_again(self, autojump_clock):
        async with hosts_in_memory(2) as mesh, sticky_channel(mesh) as channel, channel.session() as session:
            host = await ask(session)
            mesh.network.cut(host)
            assert await ask(session) == host

    async def test_a_session_moves_when_its_host_cannot_be_reached(self, autojump_clock):
        async with hosts_in_memory(2) as mesh, sticky_channel(mesh) as channel, channel.session() as session:
            host = await ask(session)
            mesh.fail(host)
            await settled()
            moved = await ask(session)
            assert moved != host
            mesh.network.restore(host)
            await trio.sleep(300)
            assert await spread(session, 4) == {moved: 4}

    @pytest.mark.parametrize("policy", ["pick_first", "round_robin"])
    async def test_a_session_survives_an_idle_channel(self, policy, autojump_clock):
        async with (
            hosts_in_memory(3) as mesh,
            sticky_channel(mesh, service_config=by(policy), idle_timeout=60) as channel,
        ):
            host = mesh.hosts[2]
            await pinned(channel, host)
            await trio.sleep(100)
            assert channel.state is trxds.Connectivity.IDLE
            mesh.points_to(*reversed(mesh.hosts))
            assert (await pinned(channel, host)).host == host

    async def test_the_connection_of_a_host_that_only_sessions_use_ends_an_hour_after_the_last_call(
        self, autojump_clock
    ):
        async with (
            hosts_in_memory(2) as mesh,
            sticky_channel(mesh, service_config=None, idle_timeout=None) as channel,
        ):
            for _ in range(2):
                await pinned(channel, mesh.hosts[1])
                await trio.sleep(3500)
            assert mesh.network.attempts[mesh.hosts[1]] == 1
            await trio.sleep(200)
            await pinned(channel, mesh.hosts[1])
            assert mesh.network.attempts[mesh.hosts[1]] == 2


class TestSockets:
    @pytest.mark.parametrize("target", ["unix:///run/shop/cart sock", "unix-abstract:cart"])
    async def test_a_session_of_a_socket_has_a_host(self, target, autojump_clock):
        network, address = MemoryNetwork(), target.replace("unix:///", "unix:/")

        async def echo(call):
            async for message in call:
                await call.send(message)

        async with (
            serve(fallback=echo, address=address, network=network) as server,
            trxds.open_channel(target, affinity=AFFINITY, network=network) as channel,
            channel.session(require=True) as session,
        ):
            for _ in range(3):
                async with bidi(session).open(b"") as call:
                    await call.receive()
            assert session.host == address
            sent = [call.metadata.first("cookie") for call in server.calls]
            assert (sent[0], sent[1]) == (None, sent[2])
            explanation = await channel.explain(METHOD, [("cookie", sent[1])])
            assert f"names {address} and no cluster" in str(explanation)
            assert explanation.host == address

    @pytest.mark.parametrize("path", ["/run/a,b", "/run/a;b", "/run/a%0Ab", "/run/" + "a" * 120])
    async def test_a_path_that_no_cookie_can_have_is_refused(self, path):
        with pytest.raises(ValueError, match=r"a session's cookie cannot have this path; use one of at most 108"):
            async with trxds.open_channel(f"unix://{path}", affinity=AFFINITY):
                pass


class TestSeen:
    async def test_an_explanation_shows_the_filter_the_cookie_and_override_host(self, autojump_clock):
        async with hosts_in_memory(2) as mesh, sticky_channel(mesh) as channel:
            cookie = (await answer(channel)).cookies[0].partition(";")[0]
            explanation = await channel.explain(METHOD, [("cookie", cookie)])
            host = explanation.host
            lines = str(explanation).splitlines()
            assert (
                "filter stateful_session (from the channel's affinity): cookie 'cart' for path /, as long as its jar"
                in lines
            )
            assert f"session by cookie 'cart': names {host} and no cluster" in lines
            (step,) = explanation.steps
            assert (step.policy, step.saw) == ("xds_override_host_experimental", f"{host} is UNKNOWN, READY")

    async def test_an_explanation_names_the_service_config_as_the_source(self, autojump_clock):
        async with hosts_in_memory(1) as mesh, sticky_channel(mesh, affinity=None, service_config=IN_JSON) as channel:
            explanation = await channel.explain(METHOD)
            assert "filter stateful_session (from the service config): cookie 'cart'" in str(explanation)

    async def test_the_commands_show_sessions_and_warn_of_nothing(self, autojump_clock):
        async with hosts_in_memory(2) as mesh, sticky_channel(mesh) as channel, channel.session() as session:
            host = await ask(session)
            _, row = await page(channel, SESSIONS)
            assert row.split()[:3] == ["cart.example:50051/1", host, BY_NAME]
            assert await page(channel, RUOK) == [f"cart.example:50051 ({BY_NAME}): ok, READY"]

    async def test_a_failing_target_is_reported_as_no_cluster(self, autojump_clock):
        async with hosts_in_memory(1) as mesh, sticky_channel(mesh) as channel:
            mesh.fail(mesh.hosts[0])
            await settled()
            _, problem, warning = await page(channel, RUOK)
            assert warning.startswith("  warning: no connection to host ")
            assert problem.startswith("  all calls: ")


class TestMistakes:
    async def test_a_session_without_an_affinity_names_the_remedy(self, caplog, autojump_clock):
        async with hosts_in_memory(1) as mesh, mesh.channel() as channel, channel.session(require=True) as session:
            with pytest.raises(RpcError, match="has no control plane") as failed:
                await ask(session)
            assert 'affinity=trxds.CookieAffinity("session")' in failed.value.status.message
        assert [record.levelno for record in caplog.records] == [logging.WARNING]

    async def test_a_path_that_does_not_cover_the_method_is_named(self, autojump_clock):
        affinity = CookieAffinity("cart", path="/shop.Orders")
        async with (
            hosts_in_memory(1) as mesh,
            sticky_channel(mesh, affinity=affinity) as channel,
            channel.session(require=True) as session,
        ):
            with pytest.raises(RpcError, match="which does not cover the method; set it to /"):
                await ask(session)

    async def refused(self, error, match, target=BY_NAME, **options):
        with pytest.raises(error, match=match):
            async with trxds.open_channel(target, **options):
                pass

    async def test_an_affinity_of_an_xds_target_is_refused(self):
        await self.refused(ValueError, "affinity cannot be used with the target", "xds:///shop", affinity=AFFINITY)

    async def test_an_affinity_beside_that_of_the_service_config_is_refused(self):
        match = "affinity cannot be used with a service config that has statefulSession; leave one of them out"
        await self.refused(ValueError, match, affinity=AFFINITY, service_config=IN_JSON)

    async def test_an_affinity_that_is_a_name_is_refused(self):
        await self.refused(TypeError, "affinity is a trxds.CookieAffinity, or None, not 'cart'", affinity="cart")
