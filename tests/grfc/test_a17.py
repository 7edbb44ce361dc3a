"""A17: hosts say on their connections whether they take calls, if the service config asks them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
import trio
from support.mesh import ask, spread
from support.pinned import listed
from support.plain import hosts_in_memory

import trxds
from trxds import CallCredentials, CookieAffinity, RpcError, StatusCode
from trxds.admin import state_stream
from trxds.testing import Call, Simulation, server_streaming

WATCH = "/grpc.health.v1.Health/Watch"
SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3


class Health:
    """The health service of one host; the test sets its status."""

    def __init__(self, status: int | None = SERVING) -> None:
        self.watches: list[tuple[float, str, Call]] = []  # when each began, for which service
        self.status = status  # None: it does not answer
        self._changed = trio.lowlevel.ParkingLot()
        self._failure: StatusCode | None = None
        self.ends = False

    async def watch(self, request: bytes, call: Call) -> AsyncIterator[bytes]:
        self.watches.append((trio.current_time(), request[2:].decode(), call))
        while True:
            if self._failure is not None:
                call.abort(self._failure, "on request")
            if self.status is not None:
                yield bytes([8, self.status])
            if self.ends:
                return
            await self._changed.park()

    def set(self, status: int | None) -> None:
        self.status, self._failure = status, None
        self._changed.unpark_all()

    def fail(self, code: StatusCode = StatusCode.INTERNAL) -> None:
        self._failure = code
        self._changed.unpark_all()


@asynccontextmanager
async def watched(*healths: Health, policy: str = "round_robin", service: str = "cart", affinity=None, **options):
    """A mesh of one host for each health, and a channel that asks them."""
    async with hosts_in_memory(0) as mesh:
        for health in healths:
            await mesh.add_host(handlers={WATCH: server_streaming(health.watch)})
        mesh.points_to(*mesh.hosts)
        config = {"loadBalancingConfig": [{policy: {}}], "healthCheckConfig": {"serviceName": service}}
        async with mesh.channel(service_config=config, affinity=affinity, **options) as channel:
            yield mesh, channel


async def settled() -> None:
    await trio.sleep(0.5)


async def test_a_host_that_says_not_serving_gets_no_calls(autojump_clock):
    async with watched(Health(), Health(NOT_SERVING)) as (mesh, channel):
        await ask(channel)
        await settled()
        assert await spread(channel, 4) == {mesh.hosts[0]: 4}


async def test_a_host_is_asked_with_xds_credentials_without_a_control_plane_too(autojump_clock):
    credentials = trxds.xds_credentials(trxds.insecure())
    async with watched(Health(), Health(NOT_SERVING), credentials=credentials) as (mesh, channel):
        await ask(channel)
        await settled()
        assert await spread(channel, 4) == {mesh.hosts[0]: 4}


async def test_a_host_that_begins_to_serve_gets_calls(autojump_clock):
    later = Health(NOT_SERVING)
    async with watched(Health(), later) as (mesh, channel):
        await ask(channel)
        await settled()
        later.set(SERVING)
        await settled()
        assert await spread(channel, 4) == dict.fromkeys(mesh.hosts, 2)


async def test_a_host_that_stops_serving_keeps_its_connection(autojump_clock):
    health = Health()
    async with watched(Health(), health) as (mesh, channel):
        await ask(channel)
        await settled()
        health.set(NOT_SERVING)
        await settled()
        assert await spread(channel, 4) == {mesh.hosts[0]: 4}
        assert mesh.network.attempts[mesh.hosts[1]] == 1
        assert len(mesh.servers[mesh.hosts[1]].connections) == 1


async def test_no_call_goes_to_a_host_before_its_first_answer(autojump_clock):
    health = Health(None)
    async with watched(health) as (_, channel), trio.open_nursery() as nursery:
        began = trio.current_time()
        nursery.start_soon(ask, channel)
        await trio.sleep(5)
        assert channel.state is trxds.Connectivity.CONNECTING
        health.set(SERVING)
    assert trio.current_time() - began == pytest.approx(5)


async def test_the_request_names_the_service(autojump_clock):
    health = Health()
    async with watched(health, service="shop.Cart") as (_, channel):
        await ask(channel)
    assert [service for _, service, _ in health.watches] == ["shop.Cart"]


async def test_an_empty_name_asks_for_the_whole_server(autojump_clock):
    health = Health()
    async with watched(health, service="") as (_, channel):
        await ask(channel)
    assert [service for _, service, _ in health.watches] == [""]


async def test_no_host_is_asked_without_a_service_name(autojump_clock):
    health = Health(NOT_SERVING)
    async with hosts_in_memory(0) as mesh:
        mesh.points_to(await mesh.add_host(handlers={WATCH: server_streaming(health.watch)}))
        config = {"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {}}
        async with mesh.channel(service_config=config) as channel:
            await ask(channel)
    assert health.watches == []


async def test_the_watch_has_the_authority_of_the_channel(autojump_clock):
    health = Health()
    async with watched(health, authority="shop.example") as (_, channel):
        await ask(channel)
    assert health.watches[0][2].authority == "shop.example"


async def test_the_watch_carries_the_call_credentials_of_the_channel(autojump_clock):
    health = Health()
    token = CallCredentials(lambda context: [("authorization", context.method)], allow_insecure=True)
    async with watched(health, call_credentials=token) as (_, channel):
        await ask(channel)
    assert dict(health.watches[0][2].metadata)["authorization"] == "Watch"


async def test_a_watch_with_credentials_is_not_sent_without_tls(autojump_clock):
    health = Health()
    token = CallCredentials(lambda context: [("authorization", "secret")])
    async with watched(health, call_credentials=token) as (_, channel):
        with pytest.raises(RpcError, match="its health check failed: UNAUTHENTICATED"):
            await ask(channel)
    assert health.watches == []


async def test_a_call_fails_with_what_the_host_said_if_no_host_serves(autojump_clock):
    async with watched(Health(NOT_SERVING), service="cart") as (mesh, channel):
        with pytest.raises(RpcError) as caught:
            await ask(channel)
    assert caught.value.status.code is StatusCode.UNAVAILABLE
    assert f"{mesh.hosts[0]}: says NOT_SERVING for service 'cart' in its health check" in caught.value.status.message


async def test_a_service_that_the_host_does_not_know_is_not_served(autojump_clock):
    async with watched(Health(SERVICE_UNKNOWN)) as (_, channel):
        with pytest.raises(RpcError, match="SERVICE_UNKNOWN"):
            await ask(channel)


async def test_an_answer_that_is_no_health_is_not_served(autojump_clock):
    async def watch(request: bytes, call: Call) -> AsyncIterator[bytes]:
        yield b"\xff"
        await trio.sleep_forever()

    health = Health()
    health.watch = watch
    async with watched(health) as (_, channel):
        with pytest.raises(RpcError, match="its health check sent no HealthCheckResponse"):
            await ask(channel)


async def test_a_host_without_the_health_service_counts_as_healthy_and_an_error_is_logged(autojump_clock, caplog):
    health = Health()
    health.fail(StatusCode.UNIMPLEMENTED)
    async with watched(health) as (mesh, channel):
        assert await spread(channel, 2) == {mesh.hosts[0]: 2}
        await trio.sleep(300)
    assert len(health.watches) == 1
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.getMessage().startswith(f"{mesh.hosts[0]}: has no grpc.health.v1 service")


async def test_the_error_of_a_watch_that_ends_with_ok_says_that_a_server_keeps_it_open(autojump_clock):
    health = Health()
    health.ends = True
    async with watched(health) as (_, channel):
        with pytest.raises(RpcError, match="its health check ended with OK; a server keeps it open"):
            await ask(channel)


async def test_a_watch_that_fails_before_an_answer_is_made_again_after_a_backoff(autojump_clock):
    health = Health()
    health.fail()
    async with watched(health) as (_, channel):
        with pytest.raises(RpcError, match="its health check failed: INTERNAL: on request"):
            await ask(channel)
        await trio.sleep(10)
    times = [began for began, _, _ in health.watches]
    delays = [later - earlier for earlier, later in pairwise(times)]
    assert delays[:3] == [pytest.approx(1, rel=0.2), pytest.approx(1.6, rel=0.2), pytest.approx(2.56, rel=0.2)]


async def test_a_watch_that_fails_after_an_answer_is_made_again_at_once(autojump_clock):
    health = Health()
    async with watched(health) as (_, channel):
        await ask(channel)
        health.fail()
        await trio.testing.wait_all_tasks_blocked()
        first, second = health.watches[:2]
        assert first[0] == second[0]


async def test_an_answer_begins_the_backoff_of_a_watch_anew(autojump_clock):
    health = Health()
    health.fail()
    async with watched(health) as (_, channel):
        channel.try_to_connect()
        await trio.sleep(20)  # five backoffs, of 1, 1.6, 2.6, 4.1 and 6.6 s, and a part of the next, of 10.5 s
        health.set(SERVING)
        await trio.sleep(20)  # the backoffs may be a fifth longer
        del health.watches[:]
        health.fail()
        await trio.sleep(1.5)
    assert len(health.watches) == 2, "at once, and after a second"


async def test_a_host_that_ends_each_watch_after_an_answer_is_not_asked_without_a_pause(autojump_clock):
    health = Health()
    health.ends = True
    async with watched(health) as (_, channel):
        channel.try_to_connect()
        await trio.sleep(10)
    assert len(health.watches) < 30  # two each second, not thousands


async def test_credentials_that_say_unimplemented_do_not_make_a_host_healthy(autojump_clock):
    def refuse(context):
        raise RpcError(trxds.Status(StatusCode.UNIMPLEMENTED, "no token"))

    token = CallCredentials(refuse, allow_insecure=True)
    async with watched(Health(NOT_SERVING), call_credentials=token) as (_, channel):
        channel.try_to_connect()
        await trio.sleep(10)
        assert channel.state is trxds.Connectivity.TRANSIENT_FAILURE


async def test_a_host_whose_watch_fails_gets_no_calls(autojump_clock):
    health = Health()
    async with watched(Health(), health) as (mesh, channel):
        await ask(channel)
        await settled()
        health.fail()
        await settled()
        assert await spread(channel, 4) == {mesh.hosts[0]: 4}


async def test_a_new_connection_is_asked_again(autojump_clock):
    health = Health()
    async with watched(health) as (mesh, channel):
        await ask(channel)
        health.set(NOT_SERVING)
        mesh.network.cut(mesh.hosts[0])
        await settled()
        with pytest.raises(RpcError, match="NOT_SERVING"):
            await ask(channel)
    assert len(health.watches) == 2


async def test_the_watch_ends_with_the_goaway_of_its_connection(autojump_clock):
    health = Health()
    async with watched(health) as (mesh, channel):
        await ask(channel)
        server = mesh.servers[mesh.hosts[0]]
        (old,) = server.connections
        server.goaway()
        await settled()
        # A connection closes with its last stream, which the watch would have been.
        assert old not in server.connections


async def test_pick_first_is_not_checked(autojump_clock):
    health = Health(NOT_SERVING)
    async with watched(health, policy="pick_first") as (mesh, channel):
        assert await ask(channel) == mesh.hosts[0]
    assert health.watches == []


@pytest.mark.parametrize(
    "policy", ["round_robin", "least_request_experimental", "weighted_round_robin", "ring_hash_experimental"]
)
async def test_each_policy_but_pick_first_leaves_out_a_host_that_does_not_serve(autojump_clock, policy):
    async with watched(Health(NOT_SERVING), Health(), policy=policy) as (mesh, channel):
        await ask(channel, wait_for_ready=True)
        await settled()
        assert await spread(channel, 6) == {mesh.hosts[1]: 6}


async def test_a_session_stays_on_its_host_while_that_does_not_serve(autojump_clock):
    healths = Health(), Health()
    async with watched(*healths, affinity=CookieAffinity("session")) as (mesh, channel), channel.session() as session:
        home = await ask(session)
        healths[mesh.hosts.index(home)].set(NOT_SERVING)
        await settled()
        assert await spread(session, 4) == {home: 4}


@pytest.mark.parametrize("policy", ["round_robin", "ring_hash_experimental"])
async def test_a_session_that_moves_does_not_go_to_a_host_that_does_not_serve(autojump_clock, policy):
    healths = Health(), Health(), Health(NOT_SERVING)
    sticky = watched(*healths, policy=policy, affinity=CookieAffinity("session"))
    async with sticky as (mesh, channel), channel.session() as session:
        await spread(channel, 20)  # ring_hash connects the hosts that calls need
        seen = {await ask(session)}
        for _ in range(6):
            async with session.moving():
                seen.add(await ask(session))
        assert mesh.hosts[2] not in seen


async def test_the_hosts_of_a_channel_show_one_that_does_not_serve_while_it_is_connected(autojump_clock):
    async with watched(Health(), Health(NOT_SERVING)) as (mesh, channel):
        await ask(channel)
        await settled()
        assert [host.health for host in await listed(channel)] == ["UNKNOWN", "NOT_SERVING"]
        mesh.fail(mesh.hosts[1])
        await settled()
        assert [host.health for host in await listed(channel)] == ["UNKNOWN", "UNKNOWN"]


async def test_the_admin_surface_shows_a_host_that_does_not_serve(autojump_clock):
    async with watched(Health(), Health(NOT_SERVING)) as (mesh, channel):
        await ask(channel)
        await settled()
        async with state_stream.open(channel) as opened:
            rows = (await opened.snapshot())["endpoints"].values()
        assert {row["address"]: row["health"] for row in rows} == {
            mesh.hosts[0]: "UNKNOWN",
            mesh.hosts[1]: "NOT_SERVING",
        }


@pytest.mark.parametrize("seed", range(4))
def test_ring_hash_goes_on_past_a_host_that_does_not_serve_and_that_a_session_has_connected(seed):
    hosts = ["10.0.1.1:50051", "10.0.1.2:50051"]
    config = {"loadBalancingConfig": [{"ring_hash_experimental": {}}], "healthCheckConfig": {"serviceName": "cart"}}

    async def scenario(mesh):
        for host in hosts:
            mesh.add_host(host)
        affinity = CookieAffinity("session")
        async with (
            mesh.open_channel(f"ipv4:{','.join(hosts)}", service_config=config, affinity=affinity) as channel,
            channel.session() as session,
        ):
            await session.method("/shop.Cart/Add")(b"", timeout=1)
            host = mesh.hosts[session.host]
            host.is_serving = False
            host.goaway()
            await trio.sleep(1)
            await session.method("/shop.Cart/Add")(b"", timeout=1)  # the session alone connects it again
            await channel.method("/shop.Cart/Add")(b"", timeout=1)
            return host.calls

    assert Simulation(seed).run(scenario) == 2
