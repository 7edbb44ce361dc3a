"""Sessions over a program's own resolver: a cookie keeps them on one of its endpoints (A55)."""

from contextlib import asynccontextmanager

import pytest
import trio
from support.mesh import spread
from support.plain import hosts_in_memory
from support.resolvers import ROUND_ROBIN, TARGET, Feed, settled

import trxds
from trxds import CookieAffinity
from trxds.admin.channel_source import channel_sources
from trxds.admin.state_stream.state_snapshot import Sampler
from trxds.resolvers import Endpoint, HealthStatus

KEY = b"k" * 32


def draining(host):
    return Endpoint((host,), health=HealthStatus.DRAINING)


@asynccontextmanager
async def sticky(count=3, **options):
    feed = Feed()
    options = {
        "affinity": CookieAffinity("cart"),
        "service_config": ROUND_ROBIN,
        "resolvers": {"my": feed.resolve},
    } | options
    async with hosts_in_memory(count) as mesh, mesh.channel(TARGET, **options) as channel:
        feed.push(*mesh.hosts)
        await settled()
        yield mesh, channel, feed


async def test_a_session_stays_on_its_host(autojump_clock):
    async with sticky() as (_, channel, _), channel.session() as session:
        assert len(await spread(session, 6)) == 1


async def test_a_session_keeps_its_host_over_updates_that_have_it(autojump_clock):
    async with sticky() as (mesh, channel, feed), channel.session() as session:
        (host,) = await spread(session, 2)
        feed.push(*reversed(mesh.hosts))
        await settled()
        assert await spread(session, 3) == {host: 3}


async def test_a_session_leaves_a_host_that_has_left_the_list(autojump_clock):
    async with sticky() as (mesh, channel, feed), channel.session() as session:
        (host,) = await spread(session, 2)
        feed.push(*[other for other in mesh.hosts if other != host])
        await settled()
        assert host not in await spread(session, 3)


@pytest.mark.parametrize("policy", ["round_robin", "pick_first", "ring_hash_experimental"])
async def test_a_session_stays_on_a_draining_host_and_new_ones_do_not_come(autojump_clock, policy):
    config = {"loadBalancingConfig": [{policy: {}}]}
    async with sticky(service_config=config) as (mesh, channel, feed), channel.session() as session:
        (host,) = await spread(session, 2)
        feed.push(*[draining(each) if each == host else each for each in mesh.hosts])
        await settled()
        assert await spread(session, 3) == {host: 3}
        for _ in range(3):
            async with channel.session() as another:
                assert host not in await spread(another, 1)


async def test_a_session_stays_on_a_draining_host_below_outlier_detection(autojump_clock):
    config = {"loadBalancingConfig": [{"outlier_detection_experimental": {"childPolicy": [{"round_robin": {}}]}}]}
    async with sticky(service_config=config) as (mesh, channel, feed), channel.session() as session:
        (host,) = await spread(session, 2)
        feed.push(*[draining(each) if each == host else each for each in mesh.hosts])
        await settled()
        assert await spread(session, 3) == {host: 3}
        assert host not in await spread(channel, 6)


async def test_a_session_is_told_that_its_host_drains(autojump_clock):
    async with sticky() as (_, channel, feed), channel.session() as session:
        (host,) = await spread(session, 2)
        events = session.events()
        feed.push(draining(host))
        assert isinstance(await anext(events), trxds.SessionDraining)


async def test_a_session_is_told_that_its_host_has_left_the_list(autojump_clock):
    async with sticky() as (mesh, channel, feed), channel.session() as session:
        (host,) = await spread(session, 2)
        events = session.events()
        feed.push(*[other for other in mesh.hosts if other != host])
        with trio.fail_after(5):
            lost = await anext(events)
        assert (type(lost), lost.host.host, lost.reason) == (trxds.SessionHostLost, host, "unknown_host")


async def test_an_imported_session_is_told_nothing_of_its_host_by_a_resolver_that_fails(autojump_clock):
    async with sticky() as (mesh, channel, _):
        async with channel.session() as session:
            await spread(session, 2)
            token = session.export(key=KEY)
        failing = Feed(OSError("no answer"))
        options = {"affinity": CookieAffinity("cart"), "resolvers": {"my": failing.resolve}}
        async with mesh.channel(TARGET, **options) as other, other.session(token, key=KEY) as session:
            events = session.events()
            with trio.move_on_after(1) as waited:
                await anext(events)
            assert waited.cancelled_caught


async def test_a_token_of_a_session_continues_it_over_the_same_target(autojump_clock):
    async with sticky() as (_, channel, _):
        async with channel.session() as session:
            (host,) = await spread(session, 2)
            token = session.export(key=KEY)
        async with channel.session(token, key=KEY) as session:
            assert await spread(session, 3) == {host: 3}


async def test_explain_names_the_host_of_a_session(autojump_clock):
    async with sticky() as (_, channel, _), channel.session() as session:
        (host,) = await spread(session, 2)
        explanation = str(await session.explain("/shop.Cart/Get"))
        assert host in explanation
        assert "graceful_switch" in explanation


async def test_a_socket_that_no_cookie_can_name_is_refused(autojump_clock):
    async with sticky(0) as (_, channel, feed):
        feed.push("unix:/run/a,b")
        await settled()
        assert "has the endpoint unix:/run/a,b, which cannot be used: a session's cookie" in "".join(
            channel.admin_view().warnings
        )


async def test_the_admin_surface_shows_the_endpoints_and_what_the_resolver_says_of_them(autojump_clock):
    async with sticky(2) as (mesh, channel, feed):
        feed.push(mesh.hosts[0], draining(mesh.hosts[1]))
        await settled()
        feed.push(OSError("registry is down"))
        await settled()
        state = await Sampler(channel_sources([channel])).sample()
    rows = state["endpoints"].values()
    assert {(row["address"], row["cluster"], row["health"]) for row in rows} == {
        (mesh.hosts[0], TARGET, "UNKNOWN"),
        (mesh.hosts[1], TARGET, "DRAINING"),
    }
    (row,) = state["channels"].values()
    assert "OSError: registry is down" in "".join(row["warnings"])
