"""How long a program's own resolver runs: its end, the next resolution, idle channels, and its cleanup."""

from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
import trio
from support.cancelling import wait_and_fail_when_cancelled
from support.mesh import ask
from support.plain import hosts_in_memory
from support.resolvers import ROUND_ROBIN, TARGET, Feed, failure, resolved, settled, warnings_of
from support.tasks import task_names

from trxds import Connectivity
from trxds.resolvers import Endpoint, HealthStatus, ResolverUpdate

# -- its end, and the next resolution


async def test_after_its_end_the_last_update_stays_in_force(autojump_clock):
    feed = Feed()
    async with resolved(feed) as (mesh, channel):
        feed.push(mesh.hosts[0])
        feed.end()
        await trio.sleep(300)
        assert await ask(channel) == mesh.hosts[0]
        assert feed.seen["begun"] == 1


async def test_after_the_end_of_an_iterator_in_a_context_manager_the_last_update_stays_in_force(autojump_clock, caplog):
    @asynccontextmanager
    async def finite(args):
        send, receive = trio.open_memory_channel(1)
        send.send_nowait(ResolverUpdate(hosts))
        send.close()
        yield receive

    hosts: list[str] = []
    async with resolved(finite) as (mesh, channel):
        hosts.extend(mesh.hosts)
        await trio.sleep(30)
        assert await ask(channel) in mesh.hosts
        assert caplog.messages == []


async def test_an_end_without_an_update_is_a_failure(autojump_clock):
    feed = Feed()
    feed.end()
    async with resolved(feed) as (_, channel):
        status = await failure(channel)
        assert "its resolver ended without an update" in status.message
        await trio.sleep(3)
        assert feed.seen["begun"] == 2


async def test_a_resolver_that_has_ended_is_started_again_when_a_host_is_lost(autojump_clock):
    feed = Feed()
    async with resolved(feed) as (mesh, channel):
        feed.push(mesh.hosts[0])
        feed.end()
        await ask(channel)
        await trio.sleep(100)
        feed.push(mesh.hosts[1])
        mesh.fail(mesh.hosts[0])
        await settled()
        assert await ask(channel, wait_for_ready=True) == mesh.hosts[1]


async def test_a_lost_host_requests_a_resolution_at_most_every_30_seconds(autojump_clock):
    polls: list[float] = []

    async def poll(args):
        while True:
            polls.append(trio.current_time())
            yield ResolverUpdate(mesh_hosts)
            await args.wait_for_resolve_now()

    mesh_hosts: list[str] = []
    async with hosts_in_memory(2) as mesh:
        mesh_hosts.extend(mesh.hosts)
        async with mesh.channel(TARGET, resolvers={"my": poll}, service_config=ROUND_ROBIN) as channel:
            began = trio.current_time()
            await ask(channel)
            for _ in range(20):
                mesh.network.cut(mesh.hosts[0])
                await trio.sleep(5)
    assert [round(at - began) for at in polls] == [0, 30, 60, 90]


async def test_a_resolver_that_waits_is_asked_nothing_while_no_host_is_lost(autojump_clock):
    polls: list[float] = []

    async def poll(args):
        while True:
            polls.append(trio.current_time())
            yield ResolverUpdate(hosts)
            await args.wait_for_resolve_now()

    hosts: list[str] = []
    async with hosts_in_memory(1) as mesh:
        hosts.extend(mesh.hosts)
        async with mesh.channel(TARGET, resolvers={"my": poll}) as channel:
            for _ in range(10):
                await ask(channel)
                await trio.sleep(60)
    assert len(polls) == 1


@pytest.mark.parametrize("health", [None, HealthStatus.DRAINING], ids=["no endpoint", "a DRAINING one"])
async def test_a_resolver_without_a_host_for_calls_is_asked_again_after_a_backoff(autojump_clock, health):
    polls: list[float] = []

    async def poll(args):
        while True:
            polls.append(trio.current_time())
            nothing = [Endpoint((mesh_hosts[1],), health=health)] if health else []
            yield ResolverUpdate(nothing if len(polls) < 5 else mesh_hosts[:1])
            await args.wait_for_resolve_now()

    async with hosts_in_memory(2) as mesh:
        mesh_hosts = mesh.hosts
        async with mesh.channel(TARGET, resolvers={"my": poll}, service_config=ROUND_ROBIN) as channel:
            assert await ask(channel, wait_for_ready=True, timeout=60) == mesh.hosts[0]
            await trio.sleep(600)
    gaps = [after - before for before, after in pairwise(polls)]
    # 1 s, 1.6 s, 2.6 s ..., each a fifth more or less; with a host it is not asked any more.
    assert gaps == [pytest.approx(1.6**number, rel=0.21) for number in range(4)]


async def test_a_resolver_that_ends_with_an_empty_list_is_started_again_after_a_backoff(autojump_clock):
    feed = Feed(ResolverUpdate([]))
    feed.end()
    async with resolved(feed) as (mesh, channel):
        feed.push(mesh.hosts[0])
        assert await ask(channel, wait_for_ready=True, timeout=5) == mesh.hosts[0]
    assert len(feed.started_at) == 2


async def test_a_host_that_comes_by_itself_ends_the_backoff_of_an_empty_list(autojump_clock):
    waits: list[float] = []

    async def push(args):
        yield ResolverUpdate([])
        await trio.sleep(5)
        yield ResolverUpdate(mesh_hosts)
        began = trio.current_time()
        await args.wait_for_resolve_now()
        waits.append(trio.current_time() - began)

    async with hosts_in_memory(1) as mesh:
        mesh_hosts = mesh.hosts
        async with mesh.channel(TARGET, resolvers={"my": push}) as channel:
            assert await ask(channel, wait_for_ready=True, timeout=10) == mesh.hosts[0]
            await trio.sleep(600)
    assert waits == []


# -- its lifetime


async def test_a_resolver_ends_with_its_channel(autojump_clock):
    feed = Feed()
    async with resolved(feed) as (mesh, channel):
        feed.push(mesh.hosts[0])
        await ask(channel)
        assert feed.running == 1
        assert "resolver/my:///cart" in task_names()
    assert feed.running == 0


async def test_a_resolver_stops_while_the_channel_is_idle_and_starts_with_the_next_call(autojump_clock):
    feed = Feed()
    async with resolved(feed, idle_timeout=60) as (mesh, channel):
        feed.push(mesh.hosts[0])
        await ask(channel)
        await trio.sleep(70)
        assert channel.state is Connectivity.IDLE
        assert feed.running == 0
        await trio.sleep(600)
        assert feed.seen["begun"] == 1
        feed.push(mesh.hosts[1])
        assert await ask(channel) == mesh.hosts[1]
        assert feed.running == 1


async def test_a_context_manager_around_the_iterator_is_left_with_the_channel(autojump_clock):
    @asynccontextmanager
    async def watching(args):
        async with trio.open_nursery() as nursery:
            send, receive = trio.open_memory_channel(1)
            nursery.start_soon(send.send, ResolverUpdate(hosts))
            events.append("entered")
            try:
                yield receive
            finally:
                events.append("left")
                nursery.cancel_scope.cancel()

    hosts: list[str] = []
    events: list[str] = []
    async with hosts_in_memory(1) as mesh:
        hosts.extend(mesh.hosts)
        async with mesh.channel(TARGET, resolvers={"my": watching}) as channel:
            assert await ask(channel) == mesh.hosts[0]
    assert events == ["entered", "left"]


async def test_an_iterator_that_never_waits_lets_calls_through_and_the_channel_close(autojump_clock):
    async def busy(args):
        while True:
            yield ResolverUpdate(hosts)

    hosts: list[str] = []
    async with hosts_in_memory(1) as mesh:
        hosts.extend(mesh.hosts)
        async with mesh.channel(TARGET, resolvers={"my": busy}) as channel:
            assert await ask(channel) == mesh.hosts[0]


async def test_a_crash_in_a_nursery_of_the_generator_itself_is_a_failure_and_no_crash_of_the_channel(autojump_clock):
    async def generator(args):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(later)
            yield ResolverUpdate(hosts)
            await trio.sleep_forever()

    async def later():
        await trio.sleep(5)
        raise OSError("stream broke")

    hosts: list[str] = []
    async with hosts_in_memory(1) as mesh:
        hosts.extend(mesh.hosts)
        async with mesh.channel(TARGET, resolvers={"my": generator}) as channel:
            await ask(channel)
            await trio.sleep(5.1)
            assert "OSError: stream broke" in warnings_of(channel)[0]
            assert await ask(channel) == mesh.hosts[0]


async def test_a_resolver_whose_cleanup_fails_does_not_end_the_channel_that_becomes_idle(autojump_clock, caplog):
    async def resolver(args):
        yield ResolverUpdate(hosts)
        await wait_and_fail_when_cancelled()

    hosts: list[str] = []
    async with hosts_in_memory(1) as mesh:
        hosts.extend(mesh.hosts)
        async with mesh.channel(TARGET, resolvers={"my": resolver}, idle_timeout=60) as channel:
            await ask(channel)
            await trio.sleep(70)
            assert channel.state is Connectivity.IDLE
            assert [record.message for record in caplog.records if record.exc_info] == [
                "my:///cart: its resolver raised while it was cancelled"
            ]
            assert await ask(channel) == mesh.hosts[0]
