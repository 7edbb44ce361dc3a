"""RPCs survive the failures of a control plane, in both protocol variants."""

import pytest
import trio
from support.mesh import PLANE, Mesh, ask, method, spread

import trxds
from trxds import RpcError, StatusCode
from trxds.testing import resources as xds
from trxds.testing import serve
from trxds.xds import delta, sotw

pytestmark = pytest.mark.slow

LONGEST_BACKOFF = 150  # seconds: 120 and its jitter
CONNECT_TIMEOUT = 20  # seconds


@pytest.fixture(params=["xds_v3", "trxds.delta"], autouse=True)
def feature(request, monkeypatch):
    bootstrap = xds.bootstrap(PLANE, features=[request.param])
    monkeypatch.setattr(Mesh, "bootstrap", bootstrap)
    return request.param


def down(mesh):
    mesh.network.refuse(PLANE)
    mesh.network.cut(PLANE)


def up(mesh):
    mesh.network.restore(PLANE)


async def refusal(caller):
    with pytest.raises(RpcError) as caught:
        await ask(caller)
    assert caught.value.status.code is StatusCode.UNAVAILABLE
    return caught.value.status.message


class TestDown:
    async def test_rpcs_fail_at_once_if_the_control_plane_is_down_at_the_start(self, autojump_clock):
        async with Mesh.run() as mesh:
            down(mesh)
            async with mesh.channel() as channel:
                started = trio.current_time()
                message = await refusal(channel)
                assert f'LDS resource "shop" (server {PLANE}, node "trxds-test"): REQUESTED since' in message
                assert trio.current_time() - started < 1

    async def test_wait_for_ready_rpcs_are_served_when_the_control_plane_comes_up(self, autojump_clock):
        async with Mesh.run() as mesh:
            down(mesh)
            async with mesh.channel() as channel, trio.open_nursery() as nursery:
                answers = []

                async def one():
                    answers.append(await method(channel)(b"", wait_for_ready=True))

                nursery.start_soon(one)
                await trio.sleep(30)
                assert answers == []
                up(mesh)
            assert len(answers) == 1

    @pytest.mark.parametrize("kind", ["LDS", "RDS", "CDS", "EDS"])
    async def test_an_outage_during_the_start_names_missing_resources(self, autojump_clock, kind):
        async with Mesh.run() as mesh:
            mesh.plane.withhold(kind)
            async with mesh.channel() as channel:
                await mesh.plane.wait_for(lambda request: request.kind == kind)
                down(mesh)
                await trio.sleep(5)
                assert f"{kind} resource" in await refusal(channel)
                mesh.plane.release(kind)
                up(mesh)
                await trio.sleep(20)
                await ask(channel)

    async def test_rpcs_and_sessions_go_on_during_an_outage_of_an_hour(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
            host = await ask(session)
            down(mesh)
            mesh.endpoints("cart", [host])
            for _ in range(60):
                await trio.sleep(60)
                assert await ask(session) == host
            assert set(await spread(channel, 20)) == set(mesh.hosts)
            assert mesh.network.attempts[PLANE] < 50
            up(mesh)
            await trio.sleep(LONGEST_BACKOFF)
            assert set(await spread(channel, 20)) == {host}

    async def test_a_flapping_control_plane_fails_no_rpc(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel:
            await ask(channel)
            for number in range(20):
                down(mesh)
                mesh.endpoints("cart", mesh.hosts[: number % 3 + 1])
                for _ in range(3):
                    await ask(channel)
                    await trio.sleep(1)
                up(mesh)
                await ask(channel)
                await trio.sleep(4)
            await trio.sleep(LONGEST_BACKOFF)
            assert set(await spread(channel, 20)) == set(mesh.hosts[:2])


class TestSlow:
    async def test_a_control_plane_that_takes_ten_seconds_per_response_is_waited_for(self, autojump_clock):
        async with Mesh.run() as mesh:
            for kind in ("LDS", "RDS", "CDS", "EDS"):
                mesh.plane.withhold(kind)
            async with mesh.channel() as channel, trio.open_nursery() as nursery:
                nursery.start_soon(ask, channel)
                for kind in ("LDS", "RDS", "CDS", "EDS"):
                    await mesh.plane.wait_for(lambda request, kind=kind: request.kind == kind)
                    await trio.sleep(10)
                    mesh.plane.release(kind)

    async def test_a_silent_control_plane_changes_nothing(self, autojump_clock):
        async with Mesh.run() as mesh, mesh.channel() as channel:
            await ask(channel)
            for kind in ("LDS", "RDS", "CDS", "EDS"):
                mesh.plane.withhold(kind)
            mesh.endpoints("cart", mesh.hosts[:1])
            for _ in range(60):
                await trio.sleep(60)
                await ask(channel)
            mesh.plane.release("EDS")
            await trio.sleep(1)
            assert set(await spread(channel, 10)) == set(mesh.hosts[:1])

    async def test_a_control_plane_that_never_accepts_is_an_error_after_twenty_seconds(self, autojump_clock):
        async with Mesh.run() as mesh:
            mesh.network.black_hole(PLANE)
            async with mesh.channel() as channel:
                assert "no connection within 20 s" in await refusal(channel)


class TestHalfOpen:
    async def test_keepalive_notices_a_vanished_control_plane_which_is_found_again(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            await ask(channel)
            mesh.network.silence(PLANE)
            mesh.endpoints("cart", mesh.hosts[:1])
            for _ in range(5):
                await trio.sleep(60)
                await ask(channel)
            await trio.sleep(30)  # after five minutes a PING, and 20 s for its answer
            assert set(await spread(channel, 10)) == set(mesh.hosts[:1])

    async def test_rpcs_go_on_while_a_vanished_control_plane_cannot_be_reached(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            await ask(channel)
            mesh.network.silence(PLANE)
            mesh.network.black_hole(PLANE)
            for _ in range(60):
                await trio.sleep(60)
                await ask(channel)
            up(mesh)
            mesh.endpoints("cart", mesh.hosts[:1])
            await trio.sleep(CONNECT_TIMEOUT + LONGEST_BACKOFF)  # the attempt that is under way fails first
            assert set(await spread(channel, 10)) == set(mesh.hosts[:1])

    async def test_an_idle_control_plane_keeps_its_connection(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            await ask(channel)
            await trio.sleep(24 * 3600)
            assert mesh.network.attempts[PLANE] == 1
            assert {request.stream for request in mesh.plane.requests} == {1}


def unreadable(kind, mesh):
    """Return a new version of the mesh's resource of that kind, with one error."""
    listener = xds.listener("shop", routes="routes")
    listener["api_listener"]["api_listener"]["http_filters"] = []
    routes = xds.routes("routes", xds.route("cart"))
    routes["virtual_hosts"][0]["routes"][0]["match"] = {"safe_regex": {"regex": "("}}
    endpoints = xds.endpoints("cart", xds.locality(*mesh.hosts, priority=1))
    cluster = {**xds.cluster("cart"), "lb_policy": "MAGLEV"}
    return {"LDS": listener, "RDS": routes, "CDS": cluster, "EDS": endpoints}[kind]


def readable(kind, mesh):
    """Return a corrected version, which differs from the first one: only the first host."""
    return {
        "LDS": xds.listener("shop", routes="routes"),
        "RDS": xds.routes("routes", xds.route("cart", prefix="/shop")),
        "CDS": xds.cluster("cart", idle_timeout=5),
        "EDS": xds.endpoints("cart", xds.locality(mesh.hosts[0])),
    }[kind]


@pytest.mark.parametrize("kind", ["LDS", "RDS", "CDS", "EDS"])
class TestRefused:
    async def test_the_last_good_resource_is_used_until_a_nacked_one_is_repaired(self, autojump_clock, kind):
        async with Mesh.run() as mesh, mesh.channel() as channel:
            await ask(channel)
            mesh.plane.put(unreadable(kind, mesh))
            nack = await mesh.plane.wait_for_nack(kind)
            assert nack.error_code == StatusCode.INVALID_ARGUMENT
            await trio.sleep(600)
            await ask(channel)
            mesh.plane.put(readable(kind, mesh))
            await mesh.plane.wait_for_ack(kind)
            await trio.sleep(1)
            hosts = set(await spread(channel, 10))
            assert hosts == set(mesh.hosts[:1] if kind == "EDS" else mesh.hosts)

    async def test_a_nacked_resource_without_a_good_version_fails_rpcs_and_is_named(self, autojump_clock, kind):
        async with Mesh.run() as mesh:
            mesh.plane.put(unreadable(kind, mesh))
            async with mesh.channel() as channel:
                assert f"{kind} resource" in await refusal(channel)
                await mesh.plane.wait_for_nack(kind)
                mesh.plane.put(readable(kind, mesh))
                await mesh.plane.wait_for_ack(kind)
                await trio.sleep(1)
                await ask(channel)

    async def test_a_nack_does_not_outlast_its_stream(self, autojump_clock, kind):
        async with Mesh.run() as mesh, mesh.channel() as channel:
            await ask(channel)
            mesh.plane.put(unreadable(kind, mesh))
            await mesh.plane.wait_for_nack(kind)
            mesh.plane.drop_streams()
            await mesh.plane.wait_for_streams(0)
            mesh.plane.put(readable(kind, mesh))
            await mesh.plane.wait_for_ack(kind)
            await trio.sleep(1)
            await ask(channel)


class TestGarbage:
    async def test_an_unparsable_discovery_response_is_ignored(self, autojump_clock, caplog, feature):
        async with Mesh.run() as mesh:

            async def handle(call):
                await call.send(b"\xff\xff no protobuf")
                await call.send(b"")
                await mesh.plane.handle(call)

            handlers = {sotw.PATH: handle, delta.PATH: handle}
            other = "10.0.0.9:18000"
            bootstrap = xds.bootstrap(other, features=[feature])
            async with (
                serve(handlers, address=other, network=mesh.network),
                trxds.open_channel("xds:///shop", bootstrap=bootstrap, network=mesh.network) as channel,
            ):
                await ask(channel)
        texts = [record.getMessage() for record in caplog.records]
        assert any("14 bytes that are no" in text for text in texts)
        assert any("unknown type ''" in text for text in texts)

    async def test_a_control_plane_that_breaks_http2_is_disconnected_and_retried(self, autojump_clock):
        async with Mesh.run() as mesh, mesh.channel() as channel:
            await ask(channel)
            mesh.network.inject(PLANE, b"\x00\x00\x01\x00\x00\x00\x00\x00\x00x")  # DATA on stream 0
            await mesh.plane.wait_for(lambda request: request.stream == 2)
            await ask(channel)


class TestMuch:
    async def test_rpcs_go_on_during_an_xds_update_of_20_megabytes(self, autojump_clock):
        async with Mesh.run() as mesh, mesh.channel() as channel:
            await ask(channel)
            mesh.plane.put({**xds.cluster("cart"), "alt_stat_name": "x" * 20_000_000})
            while mesh.plane.responses[-1].names != ("cart",):
                await ask(channel)
            await ask(channel)
            await mesh.plane.wait_for_ack("CDS")
            await ask(channel)

    async def test_the_newest_of_200_updates_is_in_force_and_no_rpc_fails(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            await ask(channel)
            for number in range(200):
                mesh.endpoints("cart", [mesh.hosts[number % 2]])
                if number % 50 == 0:
                    await ask(channel)
                await trio.sleep(0.001)
            await mesh.plane.wait_for_ack("EDS")
            await trio.sleep(1)
            assert set(await spread(channel, 10)) == {mesh.hosts[1]}
