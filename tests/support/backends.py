"""Servers of grpc-go or grpc-java as our hosts, and what holds for both: how they go, and how many calls they take.

A peer's program takes the flags of tests/peers/go/backend, and names itself in each reply.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest
import trio

import trxds
from trxds.interop import protos
from trxds.testing import ManagementServer
from trxds.testing import resources as xds

from .peer_programs import Peer, running_together

PATIENCE = 180  # seconds for a whole test, which takes one or two; on a busy machine Java alone needs ten to begin
SERVICE = "/grpc.testing.TestService"
UNARY = f"{SERVICE}/UnaryCall"
DUPLEX = f"{SERVICE}/FullDuplexCall"
NOTHING_MORE: Mapping[str, Any] = MappingProxyType({})

Command = Callable[..., list[str]]
"""Makes of flags what runs the program."""
Talk = trxds.Call[protos.StreamingOutputCallRequest, protos.StreamingOutputCallResponse]


@dataclass
class Hosts:
    """Servers by name, and a channel to them with sessions."""

    servers: dict[str, Peer]
    channel: trxds.Channel

    async def ask(self, caller: trxds.Channel | trxds.Session, **options: Any) -> str:
        """Who answers a call."""
        return str((await unary(caller)(protos.SimpleRequest(), **options)).hostname)

    async def all_answer(self) -> None:
        """Wait until the channel is connected to each."""
        names: set[str] = set()
        while names != self.servers.keys():
            names.add(await self.ask(self.channel))

    @asynccontextmanager
    async def talk(self, caller: trxds.Channel | trxds.Session) -> AsyncIterator[Talk]:
        """A stream that is under way."""
        async with duplex(caller).open() as call:
            await say(call)
            yield call

    async def end(self, name: str) -> dict[str, int]:
        """Have a server shut down gracefully; return what it says at its end."""
        self.servers[name].process.send_signal(signal.SIGTERM)
        return await ended(self.servers[name])


def unary(caller: trxds.Channel | trxds.Session) -> trxds.Method[Any, Any]:
    return caller.method(UNARY, protos.SimpleRequest, protos.SimpleResponse)


def duplex(caller: trxds.Channel | trxds.Session) -> trxds.Method[Any, Any]:
    types = protos.StreamingOutputCallRequest, protos.StreamingOutputCallResponse
    return caller.method(DUPLEX, *types, client_streaming=True, server_streaming=True)


async def say(call: Talk) -> None:
    """Have one message answered."""
    await call.send(protos.StreamingOutputCallRequest(response_parameters=[protos.ResponseParameters(size=9)]))
    assert await call.receive() is not None


@asynccontextmanager
async def hosts(
    command: Command,
    *names: str,
    flags: tuple[str, ...] = (),
    more: Mapping[str, Any] = NOTHING_MORE,
    **options: Any,
) -> AsyncIterator[Hosts]:
    """Servers of one cluster, which has `more` in its resource, and a channel with these options."""
    control = ManagementServer()
    with trio.fail_after(PATIENCE):
        async with AsyncExitStack() as stack:
            commands = [command("-name", name, *flags) for name in names]
            servers = await stack.enter_async_context(running_together(*commands))
            address = await stack.enter_async_context(control.serve())
            control.put(
                xds.listener("shop", routes="routes", filters=[xds.stateful_session()]),
                xds.routes("routes", xds.route("cart")),
                xds.cluster("cart") | more,
                xds.endpoints("cart", xds.locality(*(server.address for server in servers))),
            )
            channel = trxds.open_channel("xds:///shop", bootstrap=xds.bootstrap(address), **options)
            made = Hosts(dict(zip(names, servers, strict=True)), await stack.enter_async_context(channel))
            await made.all_answer()
            yield made


async def ended(server: Peer) -> dict[str, int]:
    """What it says at its end, of its own accord or by SIGTERM."""
    event = await server.wait_for(lambda event: "most_at_once" in event)
    await server.process.wait()
    return event


# -- it goes


async def stops_gracefully(command: Command) -> None:
    async with hosts(command, "one", "other") as shop, shop.channel.session() as session:
        name = await shop.ask(session)
        (other,) = shop.servers.keys() - {name}
        slow = unary(session).open(protos.SimpleRequest(), metadata=[("delay", "200ms")])
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


async def ends_abruptly_in_a_stream(command: Command, how: signal.Signals) -> trxds.Status:
    """Return what the stream ends with."""
    async with hosts(command, "one", "other") as shop, shop.channel.session() as session:
        name = await shop.ask(session)
        async with shop.talk(session) as call:
            shop.servers[name].process.send_signal(how)
            with pytest.raises(trxds.RpcError) as error:
                await call.receive()
    return error.value.status


async def ends_abruptly_in_a_session(command: Command, how: signal.Signals) -> None:
    async with hosts(command, "one", "two", "three") as shop, shop.channel.session() as session:
        name = await shop.ask(session)
        shop.servers[name].process.send_signal(how)
        await shop.servers[name].process.wait()
        answers = [await shop.ask(session, wait_for_ready=True) for _ in range(10)]
        assert len(set(answers)) == 1 and answers[0] != name


# -- it stays, and keeps to its limits


class Connections(trxds.Observer):
    """Counts those that were made."""

    made = 0

    def connection_opened(self, address: str, security: str) -> None:
        self.made += 1


async def ends_old_connections(command: Command, age: str, count: int) -> None:
    """The server ends so many connections, while none of several calls fails."""
    connections = Connections()
    async with hosts(command, "one", flags=("-max_age", age)) as shop:
        with shop.channel.observed_by(connections):
            async with trio.open_nursery() as nursery:

                async def ask() -> None:
                    while connections.made < count:
                        assert await shop.ask(shop.channel, metadata=[("delay", "20ms")]) == "one"

                for _ in range(8):
                    nursery.start_soon(ask)
        assert (await shop.end("one"))["connections"] > count


async def allows_three_calls(command: Command, calls: int, more: Mapping[str, Any] = NOTHING_MORE) -> tuple[int, int]:
    """Return how many calls were under way at once, and how many connections there were."""
    async with hosts(command, "one", flags=("-max_streams", "3"), more=more) as shop:
        async with trio.open_nursery() as nursery:
            for _ in range(calls):
                nursery.start_soon(lambda: shop.ask(shop.channel, metadata=[("delay", "50ms")]))
        said = await shop.end("one")
        return said["most_at_once"], said["connections"]


TWO_CONNECTIONS = {"circuit_breakers": {"per_host_thresholds": [{"max_connections": 2}]}}


async def has_connections_replaced(command: Command) -> None:
    """It makes five more, while none of its calls fails."""
    connections = Connections()
    async with hosts(command, "one", max_connection_age=0.1) as shop:
        with shop.channel.observed_by(connections):
            while connections.made < 5:
                await shop.ask(shop.channel)
        assert (await shop.end("one"))["connections"] >= 6
