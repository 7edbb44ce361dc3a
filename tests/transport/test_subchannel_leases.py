"""Leases of subchannels share them, get their states, and retire them with the last one."""

from __future__ import annotations

import contextvars

import trio
from support.subchannel_states import ADDRESS, CONNECTING, FAILURE, HANDLERS, IDLE, READY, Middle, States, ready
from support.tasks import task_names
from trio.testing import wait_all_tasks_blocked

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.status import Status, StatusCode
from trxds.testing import Call, serve
from trxds.transport.options import WireOptions
from trxds.transport.pool import SubchannelPool
from trxds.transport.request import Request


async def test_leases_of_one_address_share_a_subchannel(pool, states, autojump_clock) -> None:
    other = States(pool)
    assert other.host is states.host is pool.for_policies.lookup(ADDRESS)
    assert pool.for_policies.lookup("nobody:1") is None


async def test_every_leasing_mailbox_gets_each_state_once(network, pool, states, autojump_clock) -> None:
    other = States(pool)
    again = pool.for_policies.lease(ADDRESS, other.queue)
    async with serve(HANDLERS, network=network, address=ADDRESS):
        await ready(states)
        assert await other.queue.next() == {("host", ADDRESS): states.host}
        again.release()
        network.cut(ADDRESS)
        assert await other.queue.next() == {("host", ADDRESS): states.host}


async def test_a_released_lease_gets_no_more_states(network, pool, states, autojump_clock) -> None:
    other = States(pool)
    states.host.request_connection()
    other.lease.release()
    assert await other.queue.next(deadline=trio.current_time() + 5) == {}


async def test_the_last_release_retires_the_subchannel(network, pool, states, autojump_clock) -> None:
    async with serve(HANDLERS, network=network, address=ADDRESS) as server:
        await ready(states)
        stream = states.host.open_stream(Request("/s/Hang", "s"))
        await stream.send(b"1")
        states.lease.release()
        states.lease.release()
        assert pool.for_policies.lookup(ADDRESS) is None and states.host.open_stream(Request("/s/Hang", "s")) is None
        assert states.host.state is IDLE
        assert await stream.receive() == b"1"
        stream.end()
        assert await stream.receive() is None and stream.status.ok
        await wait_all_tasks_blocked()
        assert server.connections == []


async def test_retiring_an_idle_subchannel_lets_its_old_connection_finish(
    network, pool, states, autojump_clock
) -> None:
    async with serve(HANDLERS, network=network, address=ADDRESS) as server:
        await ready(states)
        stream = states.host.open_stream(Request("/s/Hang", "s"))
        await stream.send(b"1")
        assert await stream.receive() == b"1"
        server.goaway()
        await states.until(IDLE)
        states.lease.release()
        await stream.send(b"2", end=True)
        assert await stream.receive() == b"2"


async def test_retiring_ends_an_attempt_and_a_backoff(network, pool, states, autojump_clock) -> None:
    network.black_hole(ADDRESS)
    states.host.request_connection()
    await wait_all_tasks_blocked()
    states.lease.release()
    refused = States(pool, "10.0.0.2:443")
    refused.host.request_connection()
    await refused.until(FAILURE)
    refused.lease.release()
    await wait_all_tasks_blocked()
    assert [name for name in task_names() if name.startswith("subchannel/")] == []


async def test_a_subchannel_leased_anew_within_an_update_keeps_its_connection(
    network, pool, states, autojump_clock
) -> None:
    async with serve(HANDLERS, network=network, address=ADDRESS):
        await ready(states)
        pool.begin_update()
        states.lease.release()
        taken = States(pool)
        pool.end_update()
        assert taken.host is states.host and taken.host.state is READY
        pool.begin_update()
        pool.begin_update()
        taken.lease.release()
        pool.end_update()
        assert pool.for_policies.lookup(ADDRESS) is states.host
        pool.end_update()
        assert pool.for_policies.lookup(ADDRESS) is None


async def test_a_thousand_requested_connections_are_started_in_slices(network, pool, autojump_clock) -> None:
    hosts = [
        pool.for_policies.lease(f"10.0.{n // 250}.{n % 250}:443", ConflatingQueue()).subchannel for n in range(1000)
    ]
    await wait_all_tasks_blocked()
    for host in hosts:
        host.request_connection()
    most = before = 0
    for _ in range(100):
        await trio.lowlevel.checkpoint()
        started = sum(name.startswith("subchannel/") for name in task_names())
        most, before = max(most, started - before), started
    assert before == 1000
    assert most <= 128, "two slices in one pass of ours"


async def test_a_connection_may_be_requested_before_the_pool_runs(network, nursery, autojump_clock) -> None:
    pool = SubchannelPool(network, WireOptions(), Middle())
    early = States(pool)
    early.host.request_connection()
    assert early.host.state is CONNECTING
    async with serve(HANDLERS, network=network, address=ADDRESS):
        nursery.start_soon(pool.run)
        await early.until(READY)


async def test_closing_the_pool_fails_all_streams_and_ends_run(network, autojump_clock) -> None:
    pool = SubchannelPool(network, WireOptions(), Middle())
    async with serve(HANDLERS, network=network, address=ADDRESS):
        with trio.fail_after(1):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(pool.run)
                states, retired = States(pool), States(pool)
                await ready(states)
                streams = [states.host.open_stream(Request("/s/Hang", "s")) for _ in range(2)]
                pool.close()
                pool.close()
        closed = Status(StatusCode.CANCELLED, "channel closed")
        assert [stream.status for stream in streams] == [closed, closed]
        late = States(pool, "10.0.0.9:1")
        late.host.request_connection()
        assert late.host.state is IDLE and pool.subchannels.keys() <= {("10.0.0.9:1", None)}
        retired.lease.release()


async def test_a_connection_does_not_inherit_the_context_of_the_task_that_requested_it(
    network, states, autojump_clock
) -> None:
    span: contextvars.ContextVar[str] = contextvars.ContextVar("span", default="none")
    seen: list[str] = []
    connect = network.connect

    async def spy(address: str) -> trio.abc.Stream:
        seen.append(span.get())
        return await connect(address)

    network.connect = spy
    span.set("an RPC's")
    states.host.request_connection()
    await states.until(FAILURE)
    assert seen == ["none"]


async def test_a_policy_may_stream_from_a_host_and_gets_the_final_status(network, states, autojump_clock) -> None:
    async def count(call: Call) -> None:
        async for message in call:
            for number in range(3):
                await call.send(message + b" %d" % number)
        call.abort(StatusCode.UNIMPLEMENTED, "no more")

    heard: list[bytes] = []
    assert await states.host.listen("/s/Count", b"load", heard.append) is None
    async with serve({"/s/Count": count}, address=ADDRESS, network=network):
        states.host.request_connection()
        await states.until(READY)
        status = await states.host.listen("/s/Count", b"load", heard.append)
    assert heard == [b"load 0", b"load 1", b"load 2"]
    assert status is not None and status.code is StatusCode.UNIMPLEMENTED


async def test_the_repr_of_pool_and_lease_is_short(pool, states) -> None:
    assert repr(pool) == "<Pool 1 subchannels, 0 connections>"
    assert repr(states.lease) == "<Lease 10.0.0.1:443>"
