"""What a subchannel does at the edges of its life: a long backoff, a connection with tasks of its own, a health check
that comes and goes."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
from support.subchannel_states import ADDRESS, CONNECTING, FAILURE, IDLE, READY, Middle
from support.tasks import task_names
from support.watching import Watcher
from trio.testing import wait_all_tasks_blocked

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.connection_limit import ConnectionLimit
from trxds.core.connectivity import Connectivity
from trxds.core.observers import Observers
from trxds.core.status import OK, StatusCode
from trxds.testing import Call, MemoryNetwork, Server, serve, server_streaming
from trxds.transport.connection_age import ConnectionAge
from trxds.transport.frames import settings
from trxds.transport.health_watch import HealthCheck
from trxds.transport.options import WireOptions
from trxds.transport.pool import SubchannelPool
from trxds.transport.request import Request
from trxds.transport.subchannel import Subchannel


class Leased:
    """A running pool with one host of it, which may have two connections, or as many as the pool allows."""

    def __init__(
        self,
        network: MemoryNetwork,
        nursery: trio.Nursery,
        limit: int | None = 2,
        **options: Any,
    ) -> None:
        self.pool = SubchannelPool(network, WireOptions(), Middle(), **options)
        nursery.start_soon(self.pool.run)
        self.queue: ConflatingQueue[Subchannel] = ConflatingQueue()
        hosts = self.pool.for_policies.with_limit(ConnectionLimit(limit)) if limit else self.pool.for_policies
        self.lease = hosts.lease(ADDRESS, self.queue)
        self.host = self.lease.subchannel

    async def connect(self, until: Connectivity = READY) -> None:
        self.host.request_connection()
        await self.until(until)

    async def until(self, state: Connectivity) -> None:
        while self.host.state is not state:
            await self.queue.next()


async def test_a_second_request_for_a_connection_makes_no_second_attempt(network, nursery, autojump_clock) -> None:
    network.black_hole(ADDRESS)
    leased = Leased(network, nursery)
    leased.host.request_connection()
    leased.host.request_connection()
    await wait_all_tasks_blocked()
    leased.host.request_connection()
    await wait_all_tasks_blocked()
    assert network.attempts[ADDRESS] == 1


async def test_an_attempt_has_as_long_as_its_backoff(network, nursery, autojump_clock) -> None:
    # connection-backoff.md: at least 20 s, and longer if the next attempt would begin later.
    leased = Leased(network, nursery)
    for _ in range(8):
        await leased.connect(FAILURE)
        await leased.until(IDLE)
    network.black_hole(ADDRESS)
    began = trio.current_time()
    await leased.connect(FAILURE)
    assert trio.current_time() - began == pytest.approx(1.6**8)


async def test_the_task_of_a_connection_with_an_age_ends_with_the_connection(network, nursery, autojump_clock) -> None:
    leased = Leased(network, nursery, age=ConnectionAge(3600, 10, Middle()))
    async with serve({}, network=network, address=ADDRESS):
        await leased.connect()
        network.cut(ADDRESS)
        await wait_all_tasks_blocked()
        assert not leased.pool.connections
        assert [name for name in task_names() if name.startswith("subchannel/")] == []


async def test_a_connection_that_drains_at_its_age_is_not_replaced(network, nursery, autojump_clock) -> None:
    # Another connection is made when a call needs it.
    leased = Leased(network, nursery, age=ConnectionAge(60, math.inf, Middle()))
    async with serve(HANDLERS, network=network, address=ADDRESS) as server:
        await leased.connect()
        leased.host.open_stream(Request("/s/Hang", "s"))
        server.goaway()
        await trio.sleep(100)
        assert leased.host.state is IDLE and network.attempts[ADDRESS] == 1


async def test_a_second_connection_is_no_change_of_state(network, nursery, autojump_clock) -> None:
    leased = Leased(network, nursery)
    async with serve(HANDLERS, network=network, address=ADDRESS, max_concurrent_streams=2) as server:
        await leased.connect()
        await second_connection(leased, server)
        assert await leased.queue.next(deadline=trio.current_time()) == {}


async def test_of_a_connection_that_has_ended_only_the_counts_are_kept(network, nursery, autojump_clock) -> None:
    leased = Leased(network, nursery)
    async with serve(HANDLERS, network=network, address=ADDRESS):
        await leased.connect()
        leased.host.open_stream(Request("/s/Hang", "s"))
        network.cut(ADDRESS)
        await wait_all_tasks_blocked()
        assert (leased.pool.connections, leased.host.traffic.connections) == ((), ())
        assert (leased.host.traffic.calls.started, leased.host.traffic.calls.failed) == (1, 1)


@pytest.mark.parametrize("is_connecting", [True, False])
async def test_names_are_resolved_again_if_the_last_connection_is_lost_during_an_attempt(
    is_connecting, network, nursery, autojump_clock
) -> None:
    # A105: the host goes to CONNECTING, so no policy sees the loss; of one that is IDLE the policy does see it.
    resolved = []
    leased = Leased(network, nursery)
    leased.pool.on_stale = lambda: resolved.append(trio.current_time())
    async with serve(HANDLERS, network=network, address=ADDRESS, max_concurrent_streams=1) as server:
        await leased.connect()
        network.black_hole(ADDRESS)
        for _ in range(1 + is_connecting):
            leased.host.open_stream(Request("/s/Hang", "s"))
        await wait_all_tasks_blocked()
        server.connections[0].drop()
        await wait_all_tasks_blocked()
        assert leased.host.state is (CONNECTING if is_connecting else IDLE)
        assert len(resolved) == is_connecting


async def test_a_higher_number_of_connections_serves_calls_that_wait(network, nursery, autojump_clock) -> None:
    leased = Leased(network, nursery, limit=None)
    async with serve(HANDLERS, network=network, address=ADDRESS, max_concurrent_streams=1) as server:
        await leased.connect()
        for _ in range(2):
            leased.host.open_stream(Request("/s/Hang", "s"))
        await wait_all_tasks_blocked()
        assert len(server.connections) == 1
        leased.pool.set_max_connections(2)
        await wait_all_tasks_blocked()
        assert [len(each.streams) for each in server.connections] == [1, 1]


# -- a health check that comes and goes (A17, A105)


async def not_serving(request: bytes, call: Call) -> AsyncIterator[bytes]:
    yield bytes([8, 2])
    await trio.sleep_forever()


async def hang(call: Call) -> None:
    await trio.sleep_forever()


async def no_metadata(host: object) -> list[tuple[bytes, bytes]]:
    return []


CHECK = HealthCheck("", "s", no_metadata, Middle())
HANDLERS = {"/grpc.health.v1.Health/Watch": server_streaming(not_serving), "/s/Hang": hang}


async def second_connection(leased: Leased, server: Server) -> None:
    """Open as many streams as need a second connection."""
    for _ in range(3):
        leased.host.open_stream(Request("/s/Hang", "s"))
    await wait_all_tasks_blocked()
    assert len(server.connections) == 2


async def test_what_a_watched_connection_said_ends_with_it_if_the_next_one_is_not_asked(
    network, nursery, autojump_clock
) -> None:
    leased = Leased(network, nursery, health_check=CHECK)
    async with serve(HANDLERS, network=network, address=ADDRESS, max_concurrent_streams=2) as server:
        await leased.connect()
        await wait_all_tasks_blocked()
        assert leased.host.health not in (OK, None)
        leased.pool.use_health_check(None)
        await second_connection(leased, server)
        server.connections[0].goaway()
        await wait_all_tasks_blocked()
        assert leased.host.state is READY and leased.host.health == OK


async def test_a_health_that_is_said_again_is_no_change(network, nursery, autojump_clock) -> None:
    async def repeats(request: bytes, call: Call) -> AsyncIterator[bytes]:
        for _ in range(2):
            yield bytes([8, 2])
            await trio.sleep(1)
        await trio.sleep_forever()

    leased = Leased(network, nursery, health_check=CHECK)
    handlers = {"/grpc.health.v1.Health/Watch": server_streaming(repeats)}
    async with serve(handlers, network=network, address=ADDRESS):
        await leased.connect()
        await trio.sleep(0.5)
        assert list(await leased.queue.next()) == [("host", ADDRESS)]
        assert await leased.queue.next(deadline=trio.current_time() + 5) == {}


async def test_a_second_connection_leaves_the_health_as_it_is_known(network, nursery, autojump_clock) -> None:
    leased = Leased(network, nursery, health_check=CHECK)
    async with serve(HANDLERS, network=network, address=ADDRESS, max_concurrent_streams=2) as server:
        await leased.connect()
        await wait_all_tasks_blocked()
        known = leased.host.health
        await second_connection(leased, server)
        assert leased.host.health is known not in (OK, None)


async def test_a_connection_that_began_before_the_health_check_is_asked(network, nursery, autojump_clock) -> None:
    leased = Leased(network, nursery)
    async with serve(HANDLERS, network=network, address=ADDRESS, max_concurrent_streams=2) as server:
        await leased.connect()
        await second_connection(leased, server)
        leased.pool.use_health_check(CHECK)
        server.connections[0].goaway()
        await wait_all_tasks_blocked()
        assert leased.host.state is READY and leased.host.health not in (OK, None)


async def test_a_health_is_watched_on_while_another_connection_than_the_watched_one_drains(
    network, nursery, autojump_clock
) -> None:
    # A17: the client keeps its Watch open for as long as the connection takes calls.
    watches: list[Call] = []

    async def count(request: bytes, call: Call) -> AsyncIterator[bytes]:
        watches.append(call)
        yield bytes([8, 2])
        await trio.sleep_forever()

    leased = Leased(network, nursery, health_check=CHECK)
    handlers = {**HANDLERS, "/grpc.health.v1.Health/Watch": server_streaming(count)}
    async with serve(handlers, network=network, address=ADDRESS, max_concurrent_streams=2) as server:
        await leased.connect()
        await second_connection(leased, server)
        server.connections[1].goaway()
        await wait_all_tasks_blocked()
        assert len(watches) == 1


async def test_a_watched_host_that_nobody_leases_any_more_is_disconnected(network, nursery, autojump_clock) -> None:
    leased = Leased(network, nursery, health_check=CHECK)
    async with serve(HANDLERS, network=network, address=ADDRESS) as server:
        await leased.connect()
        await wait_all_tasks_blocked()
        leased.lease.release()
        await wait_all_tasks_blocked()
        assert server.connections == []


async def test_a_connection_after_a_watched_attempt_that_failed_is_asked_for_its_health(
    network, nursery, autojump_clock
) -> None:
    leased, server = Leased(network, nursery), Server(HANDLERS, max_concurrent_streams=1)
    accepted: list[trio.abc.Stream] = []

    async def accept(stream: trio.abc.Stream) -> None:
        accepted.append(stream)
        if len(accepted) == 2:
            await trio.sleep_forever()  # it sends no SETTINGS
        await server.serve_stream(stream)

    nursery.start_soon(trio.serve_listeners, accept, [network.listen(ADDRESS)])
    await leased.connect()
    leased.pool.use_health_check(CHECK)
    for _ in range(2):
        leased.host.open_stream(Request("/s/Hang", "s"))
    await wait_all_tasks_blocked()
    leased.pool.use_health_check(None)
    await trio.sleep(30)  # the watched attempt has failed, and the next has not
    assert len(accepted) == 3 and len(leased.host.working) == 2
    leased.pool.use_health_check(CHECK)
    server.connections[0].goaway()
    await wait_all_tasks_blocked()
    assert leased.host.state is READY and leased.host.health not in (OK, None)


async def test_a_watch_that_finds_no_stream_identifier_left_ends(network, nursery, autojump_clock) -> None:
    async def fail(request: bytes, call: Call) -> AsyncIterator[bytes]:
        call.abort(StatusCode.INTERNAL, "on request")
        yield b""

    leased = Leased(network, nursery, health_check=CHECK)
    handlers = {**HANDLERS, "/grpc.health.v1.Health/Watch": server_streaming(fail)}
    async with serve(handlers, network=network, address=ADDRESS):
        await leased.connect()
        await wait_all_tasks_blocked()
        [connection] = leased.host.working.connections
        connection.http2.engine._streams.next_id = 2**31 - 1
        leased.host.open_stream(Request("/s/Hang", "s"))
        await trio.sleep(10)  # the backoff of the Watch
        assert leased.host.state is IDLE
        await leased.connect()


# -- the pool


async def test_the_pool_keeps_nothing_of_a_host_that_nobody_leases_any_more(network, nursery, autojump_clock) -> None:
    leased = Leased(network, nursery)
    leased.lease.release()
    assert (leased.pool.subchannels, leased.pool._leases) == ({}, {})


async def test_settings_that_come_in_the_step_in_which_a_host_is_left_are_no_connection(
    network, nursery, autojump_clock
) -> None:
    watcher = Watcher()
    leased = Leased(network, nursery, observers=Observers(watcher))
    network.listen(ADDRESS)
    leased.host.request_connection()
    await wait_all_tasks_blocked()
    network.inject(ADDRESS, settings({}))  # the reader is woken, and goes on in the next step
    leased.lease.release()
    await wait_all_tasks_blocked()
    assert watcher.notes == []


async def test_a_pool_whose_task_was_cancelled_connects_no_more(network, autojump_clock) -> None:
    async with trio.open_nursery() as nursery:
        leased = Leased(network, nursery)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    late = leased.pool.for_policies.lease(ADDRESS, leased.queue).subchannel
    late.request_connection()
    assert late.is_retired and late.state is IDLE


async def test_clusters_share_a_host_whatever_their_security_in_a_pool_without_any(network) -> None:
    pool = SubchannelPool(network, WireOptions(), Middle())
    plain = pool.for_policies.lease(ADDRESS, ConflatingQueue())
    limited = pool.for_policies.with_security(lambda address: "tls").with_limit(ConnectionLimit())
    secured = limited.with_security(lambda address: "tls").lease(ADDRESS, ConflatingQueue())
    assert plain.subchannel is secured.subchannel


async def test_a_limit_that_comes_after_the_security_of_a_cluster_may_change_too(network) -> None:
    pool = SubchannelPool(network, WireOptions(), Middle(), secured=lambda security: network)
    limit = ConnectionLimit()
    limited = pool.for_policies.with_security(lambda address: "tls").with_limit(limit)
    host = limited.lease(ADDRESS, ConflatingQueue()).subchannel
    limit.set(3)
    assert host.working.max == 3
