"""grpc-go's servers as our hosts: how they go away, and how many calls they take."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest
import trio
from support.go_peers import running
from support.peer_programs import Peer

import trxds
from trxds import StatusCode
from trxds.interop import protos
from trxds.testing import ManagementServer
from trxds.testing import resources as xds

pytestmark = pytest.mark.usefixtures("go_programs")

PATIENCE = 60  # seconds for a whole test, which takes one at most
UNARY = "/grpc.testing.TestService/UnaryCall"
DUPLEX = "/grpc.testing.TestService/FullDuplexCall"
ABRUPT = {"Stop": signal.SIGINT, "SIGKILL": signal.SIGKILL}
NOTHING_MORE: Mapping[str, Any] = MappingProxyType({})
abruptly = pytest.mark.parametrize("how", ABRUPT.values(), ids=ABRUPT)

Talk = trxds.Call[protos.StreamingOutputCallRequest, protos.StreamingOutputCallResponse]


@dataclass
class Hosts:
    """Servers by name, and a channel to them with sessions."""

    servers: dict[str, Peer]
    channel: trxds.Channel

    async def ask(self, caller: trxds.Channel | trxds.Session, **options: Any) -> str:
        """Who answers a call."""
        method = caller.method(UNARY, protos.SimpleRequest, protos.SimpleResponse)
        reply = await method(protos.SimpleRequest(), **options)
        return str(reply.hostname)

    async def all_answer(self) -> None:
        """Wait until the channel is connected to each."""
        names: set[str] = set()
        while names != self.servers.keys():
            names.add(await self.ask(self.channel))

    @asynccontextmanager
    async def talk(self, caller: trxds.Channel | trxds.Session) -> AsyncIterator[Talk]:
        """A stream that is under way."""
        types = protos.StreamingOutputCallRequest, protos.StreamingOutputCallResponse
        method = caller.method(DUPLEX, *types, client_streaming=True, server_streaming=True)
        async with method.open() as call:
            await say(call)
            yield call


async def say(call: Talk) -> None:
    """Have one message answered."""
    await call.send(protos.StreamingOutputCallRequest(response_parameters=[protos.ResponseParameters(size=9)]))
    assert await call.receive() is not None


@asynccontextmanager
async def hosts(
    *names: str, flags: tuple[str, ...] = (), more: Mapping[str, Any] = NOTHING_MORE, **options: Any
) -> AsyncIterator[Hosts]:
    """Servers of one cluster, which has `more` in its resource, and a channel with these options."""
    control = ManagementServer()
    with trio.fail_after(PATIENCE):
        async with AsyncExitStack() as stack:
            servers = {
                name: await stack.enter_async_context(running("backend", "-name", name, *flags)) for name in names
            }
            address = await stack.enter_async_context(control.serve())
            control.put(
                xds.listener("shop", routes="routes", filters=[xds.stateful_session()]),
                xds.routes("routes", xds.route("cart")),
                xds.cluster("cart") | more,
                xds.endpoints("cart", xds.locality(*(server.address for server in servers.values()))),
            )
            channel = trxds.open_channel("xds:///shop", bootstrap=xds.bootstrap(address), **options)
            made = Hosts(servers, await stack.enter_async_context(channel))
            await made.all_answer()
            yield made


async def ended(server: Peer) -> dict[str, int]:
    """What it says at its end, of its own accord or by SIGTERM."""
    event = await server.wait_for(lambda event: "most_at_once" in event)
    await server.process.wait()
    return event


# -- it goes


async def test_a_server_that_stops_gracefully_fails_no_call() -> None:
    async with hosts("one", "other") as shop, shop.channel.session() as session:
        name = await shop.ask(session)
        (other,) = shop.servers.keys() - {name}
        unary = session.method(UNARY, protos.SimpleRequest, protos.SimpleResponse)
        slow = unary.open(protos.SimpleRequest(), metadata=[("delay", "200ms")])
        async with shop.talk(session) as call, slow as late:
            await late.wait_initial_metadata()
            shop.servers[name].process.send_signal(signal.SIGTERM)
            while await shop.ask(session) != other:  # it was told to go, and its calls may end
                await say(call)
            assert {await shop.ask(shop.channel) for _ in range(4)} == {other}
            reply = await late.receive()
            assert reply is not None and reply.hostname == name
            await say(call)
            call.done_sending()
            assert await call.receive() is None
        await ended(shop.servers[name])


@abruptly
async def test_a_stream_to_a_server_that_ends_abruptly_is_unavailable(how: signal.Signals) -> None:
    async with hosts("one", "other") as shop, shop.channel.session() as session:
        name = await shop.ask(session)
        async with shop.talk(session) as call:
            shop.servers[name].process.send_signal(how)
            with pytest.raises(trxds.RpcError) as error:
                await call.receive()
        assert error.value.status.code is StatusCode.UNAVAILABLE


@abruptly
async def test_a_session_whose_server_ends_abruptly_moves_once_and_stays(how: signal.Signals) -> None:
    async with hosts("one", "two", "three") as shop, shop.channel.session() as session:
        name = await shop.ask(session)
        shop.servers[name].process.send_signal(how)
        await shop.servers[name].process.wait()
        answers = [await shop.ask(session, wait_for_ready=True) for _ in range(10)]
        assert len(set(answers)) == 1 and answers[0] != name


# -- it stays, and keeps to its limits


async def test_connections_that_grow_too_old_fail_no_call() -> None:
    """MaxConnectionAge: GOAWAY, and later the end; the next connection takes over."""
    async with hosts("one", flags=("-max_age", "200ms")) as shop:
        began = trio.current_time()
        answers: Counter[str] = Counter()
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                while trio.current_time() < began + 2:
                    answers[await shop.ask(shop.channel, metadata=[("delay", "20ms")])] += 1

            for _ in range(8):
                nursery.start_soon(ask)
        assert answers.keys() == {"one"}
        shop.servers["one"].process.send_signal(signal.SIGTERM)
        assert (await ended(shop.servers["one"]))["connections"] >= 5


async def test_no_more_calls_are_under_way_than_the_server_takes() -> None:
    """MaxConcurrentStreams: the calls beyond it wait for their turn, and none fails."""
    async with hosts("one", flags=("-max_streams", "3")) as shop:
        async with trio.open_nursery() as nursery:
            for _ in range(12):
                nursery.start_soon(lambda: shop.ask(shop.channel, metadata=[("delay", "50ms")]))
        shop.servers["one"].process.send_signal(signal.SIGTERM)
        said = await ended(shop.servers["one"])
        assert (said["most_at_once"], said["connections"]) == (3, 1)


async def test_a_host_that_may_have_two_connections_takes_twice_as_many_calls() -> None:
    """MaxConcurrentStreams is a limit for each connection (A105)."""
    two = {"circuit_breakers": {"per_host_thresholds": [{"max_connections": 2}]}}
    async with hosts("one", flags=("-max_streams", "3"), more=two) as shop:
        async with trio.open_nursery() as nursery:
            for _ in range(24):
                nursery.start_soon(lambda: shop.ask(shop.channel, metadata=[("delay", "50ms")]))
        shop.servers["one"].process.send_signal(signal.SIGTERM)
        said = await ended(shop.servers["one"])
        assert (said["most_at_once"], said["connections"]) == (6, 2)


async def test_no_call_fails_while_the_client_replaces_its_connections() -> None:
    async with hosts("one", max_connection_age=0.1) as shop:
        began, slowest = trio.current_time(), 0.0
        while trio.current_time() < began + 1:
            before = trio.current_time()
            await shop.ask(shop.channel)
            slowest = max(slowest, trio.current_time() - before)
        shop.servers["one"].process.send_signal(signal.SIGTERM)
        assert (await ended(shop.servers["one"]))["connections"] >= 6
        assert slowest < 0.5
