"""A session of a channel for threads is seen, moved, carried elsewhere and kept in a pool from any thread."""

import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest
import trio

import trxds
import trxds.sync
from trxds import RpcError, StatusCode
from trxds.session_affinity.cookie import encode
from trxds.testing import resources as xds


def test_a_session_of_a_thread_stays_on_one_host(world, channel):
    def peer(caller):
        with caller.method("/shop.Cart/Echo").open(b"") as call:
            call.receive()
            return call.peer

    with channel.session() as session:
        assert session.host is None
        assert {peer(session) for _ in range(6)} == {session.host}
        assert (session.calls, session.cluster) == (6, "cart")
    assert {peer(channel) for _ in range(6)} == world.hosts


def peer(caller):
    with caller.method("/shop.Cart/Echo").open(b"") as call:
        call.receive()
        return call.peer


def test_a_thread_reads_the_events_of_its_session(channel):
    with channel.session() as session:
        events = session.events()
        host = peer(session)
        session.release()
        peer(session)
    found = list(events)
    assert isinstance(found[0], trxds.SessionPinned) and found[0].host.host == host
    assert len(found) == 2


def test_a_thread_moves_its_session_to_another_host(world, channel):
    with channel.session() as session:
        before = peer(session)
        with session.moving() as (old, new):
            assert {peer(old), peer(new)} == {old.host, new.host} == world.hosts
            assert (old.host, old.cluster) == (before, "cart")
        assert peer(session) == session.host == new.host


def test_a_thread_waits_until_its_host_drains(world, channel):
    with channel.session() as session:
        host = peer(session)
        world.put(xds.endpoints("cart", xds.locality(*world.hosts, health={host: "DRAINING"})))
        assert session.wait_draining().host.host == host


def test_a_session_of_a_thread_is_sticky_without_a_control_plane(world):
    target, config = f"ipv4:{','.join(world.hosts)}", {"loadBalancingConfig": [{"round_robin": {}}]}
    affinity = trxds.CookieAffinity("cart")
    with (
        trxds.sync.open_channel(target, affinity=affinity, service_config=config) as channel,
        channel.session(require=True) as session,
    ):
        for _ in range(6):
            session.method("/shop.Cart/Echo")(b"")
        assert session.host in world.hosts


def test_a_session_of_a_thread_travels_as_a_token(world, channel):
    with channel.session() as session:
        host = peer(session)
        token = session.export(key=b"k" * 16)
    for _ in range(4):
        with world.channel() as another, another.session(token, key=b"k" * 16) as session:
            assert session.host == host == peer(session)
    with pytest.raises(trxds.SessionTokenError, match="the session token is signed") as refused, channel.session(token):
        raise AssertionError
    frames = [frame.f_locals for frame, _ in traceback.walk_tb(refused.tb) if "/tests/" not in frame.f_code.co_filename]
    assert frames and token not in repr(frames)


def test_threads_share_a_pool_of_sessions(channel):
    def visit(user):
        with pool.session(user) as session:
            echo(session)
            return user, session.host

    def echo(session):
        return session.method("/shop.Cart/Echo")(b"")

    with channel.sessions(max=4) as pool, ThreadPoolExecutor(8) as threads:
        seen = set(threads.map(visit, [number % 4 for number in range(80)]))
        assert len(seen) == 4  # each user was on one host
        assert len(set(threads.map(visit, range(40)))) == 40
        assert repr(pool) == "<trxds.sync <SessionPool of xds:///shop: 0 of 4 sessions in use, 4 not, 0 waiting>>"
        assert len(pool) == 4
    with pytest.raises(trio.ClosedResourceError, match="the block of the session pool"):
        visit(1)


def test_a_thread_may_fail_where_a_pool_is_full(channel):
    with channel.sessions(max=1, idle=60, when_full="fail") as pool, pool.session("anna"):
        with pytest.raises(RpcError) as raised, pool.session("ben"):
            raise AssertionError
        assert raised.value.status.code is StatusCode.RESOURCE_EXHAUSTED


def test_a_channel_for_threads_may_have_sticky_aggregates(world):
    hosts = dict(zip("xy", sorted(world.hosts), strict=True))
    for name, host in hosts.items():
        world.plane.put(xds.cluster(name), xds.endpoints(name, xds.locality(host)))
    world.plane.put(xds.aggregate("both", *hosts), xds.routes("r", xds.route("both")))
    cookie = [("cookie", f"session={encode(hosts['y'], 'both')}")]
    for sticky, expected in ((True, hosts["y"]), (False, hosts["x"])):
        with (
            world.channel(sticky_aggregates=sticky) as channel,
            channel.method("/shop.Cart/Echo").open(b"a", metadata=cookie) as call,
        ):
            assert call.receive() == b"a"
            assert call.peer == expected
