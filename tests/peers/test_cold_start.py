"""Sessions that are opened together on a new channel spread over real grpcio hosts, over real sockets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

import trio
from support.grpcio import grpcio_server
from support.ports import reserved_address

import trxds
from trxds.testing import ManagementServer, resources

SESSIONS = 400
HOSTS = 4
LIMIT = 60  # seconds on the real clock
SPREAD_WITHIN = 5  # seconds; on a busy machine a host may take longer than the default to accept its connection


async def with_hosts(
    run: Callable[[trxds.Channel, Sequence[str]], Awaitable[None]], others: Sequence[str] = (), **options: float
) -> None:
    """Call `run` with a new channel to grpcio hosts, and to these other addresses."""
    plane = ManagementServer()
    async with AsyncExitStack() as stack:
        hosts = [await stack.enter_async_context(grpcio_server()) for _ in range(HOSTS)]
        address = await stack.enter_async_context(plane.serve())
        plane.put(
            resources.listener("echo", routes="r", filters=[resources.stateful_session()]),
            resources.routes("r", resources.route("echo")),
            resources.cluster("echo"),
            resources.endpoints("echo", resources.locality(*hosts, *others)),
        )
        bootstrap = resources.bootstrap(address)
        async with trxds.open_channel("xds:///echo", bootstrap=bootstrap, **options) as channel:
            with trio.fail_after(LIMIT):
                await run(channel, hosts)


async def first_hosts(channel: trxds.Channel) -> Counter[str]:
    """Open all sessions at once, make two calls in each, and return the numbers of their hosts."""
    hosts: Counter[str] = Counter()

    async def use_session() -> None:
        async with channel.session() as session:
            echo = session.method("/peer.Echo/unary")
            _, first = await echo.with_call(b"apples")
            _, second = await echo.with_call(b"bread")
            assert first.peer == second.peer == session.host
            hosts[first.peer] += 1

    async with trio.open_nursery() as nursery:
        for _ in range(SESSIONS):
            nursery.start_soon(use_session)
    return hosts


async def test_sessions_spread_over_grpcio_hosts() -> None:
    async def run(channel: trxds.Channel, hosts: Sequence[str]) -> None:
        met = await first_hosts(channel)
        assert met.total() == SESSIONS and set(met) == set(hosts)
        assert max(met.values()) <= 1.5 * SESSIONS / HOSTS

    await with_hosts(run, spread_within=SPREAD_WITHIN)


async def test_a_host_that_accepts_and_says_nothing_delays_them_by_spread_within() -> None:
    async def run(channel: trxds.Channel, hosts: Sequence[str]) -> None:
        began = trio.current_time()
        met = await first_hosts(channel)
        assert trio.current_time() - began >= SPREAD_WITHIN
        assert set(met) == set(hosts)
        assert max(met.values()) <= 1.5 * SESSIONS / HOSTS

    (silent,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with silent:
        await with_hosts(run, [f"127.0.0.1:{silent.socket.getsockname()[1]}"], spread_within=SPREAD_WITHIN)


async def test_hosts_that_refuse_do_not_delay_them() -> None:
    async def run(channel: trxds.Channel, hosts: Sequence[str]) -> None:
        began = trio.current_time()
        async with channel.session() as session:
            await session.method("/peer.Echo/unary")(b"apples")
        assert trio.current_time() - began < 20  # and not the 30 s of the wait

    with reserved_address() as refused:
        await with_hosts(run, [refused], spread_within=30)
