"""Every public coroutine is a checkpoint where docs/concurrency.md says so (Trio's rule), and nowhere else."""

from __future__ import annotations

import inspect
import re
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import trio
import trio.testing
from support.mesh import METHOD, PLANE, Mesh, ask
from support.plain import hosts_in_memory

import trxds
from trxds import admin, otel, policies, testing
from trxds.admin import state_stream
from trxds.testing import ManagementServer, MemoryNetwork, Server
from trxds.testing import resources as xds

MODULES = {
    "": trxds,
    "testing.": testing,
    "admin.": admin,
    "state_stream.": state_stream,
    "policies.": policies,
    "otel.": otel,
}
SPECIAL = ("__call__", "__anext__", "__aenter__", "__aexit__")
HOST = "10.0.1.1:50051"
ROW = re.compile(r"^\| (`.*) \| (.*) \|$", re.MULTILINE)


def table():
    """Return the document's rule for each coroutine."""
    text = (Path(__file__).parents[2] / "docs/concurrency.md").read_text("utf-8")
    section = text.partition("\n## Checkpoints\n")[2].partition("\n## ")[0]
    return {name: word for names, word in ROW.findall(section) for name in re.findall(r"`([^`]+)`", names)}


TABLE = table()


# -- what there is


def is_async(function):
    function = inspect.unwrap(function)
    gives = str(inspect.signature(function).return_annotation)
    return (
        inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function) or "AsyncContextManager" in gives
    )


def coroutines():
    for prefix, module in MODULES.items():
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isfunction(found) and is_async(found):
                yield prefix + name
            # Protocols say what others are like.
            if inspect.isclass(found) and not getattr(found, "_is_protocol", False):
                for member in dir(found):
                    function = inspect.getattr_static(found, member)
                    public = member in SPECIAL or not member.startswith("_")
                    if public and inspect.isfunction(function) and is_async(function):
                        yield f"{prefix}{name}.{member}"


def test_the_table_of_checkpoints_lists_every_public_coroutine_and_nothing_else():
    assert sorted(TABLE) == sorted([*coroutines(), "Channel.states", "Channel.hosts"])


# -- what they are


@contextmanager
def checkpoints(whether):
    with trio.testing.assert_checkpoints() if whether else trio.testing.assert_no_checkpoints():
        yield


class Probes:
    """The coroutines that were tried, compared with the table."""

    def __init__(self):
        self.tried = set()

    async def always(self, name, awaitable):
        assert TABLE[name].startswith("always"), name
        self.tried.add(name)
        with checkpoints(True):
            return await awaitable

    @asynccontextmanager
    async def block(self, name, block):
        ends = re.match(r"on (?:(entering)(?: and |;|$))?(leaving)?", TABLE[name])
        self.tried.add(name)
        with checkpoints(ends[1]):
            value = await block.__aenter__()
        yield value
        with checkpoints(ends[2]):
            await block.__aexit__(None, None, None)


@asynccontextmanager
async def answering(call, next):
    yield trxds.FixedResponseCall(b"one", b"two")


async def twice(call):
    async for message in call:
        await call.send(message)
        await call.send(message)


async def connected(channel):
    async for state in channel.states():
        if state is trxds.Connectivity.READY:
            break


@asynccontextmanager
async def served(handler=twice, **options):
    async with hosts_in_memory(1) as mesh, mesh.channel(f"ipv4:{HOST}", **options) as channel:
        mesh.servers[HOST].fallback = handler
        await connected(channel)
        yield mesh, channel


def test_every_row_of_the_table_of_checkpoints_has_a_probe():
    """The tests below cover the table, except for rows without a promise of their own."""
    tried = set().union(*TRIED.values())
    others = {name for name, word in TABLE.items() if word.startswith("run by")}
    assert tried | others == set(TABLE)


TRIED = {
    "calls": {
        "Method.__call__",
        "Method.with_call",
        "Method.open",
        "Call.send",
        "Call.wait_initial_metadata",
        "Call.receive",
        "Call.__anext__",
        "ForwardingCall.send",
        "ForwardingCall.wait_initial_metadata",
        "ForwardingCall.receive",
        "ForwardingCall.__anext__",
    },
    "answers": {
        "FixedResponseCall.send",
        "FixedResponseCall.wait_initial_metadata",
        "FixedResponseCall.receive",
        "FixedResponseCall.__anext__",
    },
    "channels": {
        "open_channel",
        "open_xds_client",
        "Channel.session",
        "Channel.sessions",
        "SessionPool.session",
        "Channel.explain",
        "Channel.wait_for_state_change",
        "Channel.states",
        "Channel.hosts",
    },
    "sessions": {
        "Channel.rebalance_sessions",
        "Session.explain",
        "Session.moving",
        "Session.wait_draining",
        "SessionEvents.__anext__",
    },
    "state_streams": {
        "state_stream.open",
        "state_stream.StateStream.subscribe",
        "state_stream.StateStream.snapshot",
        "state_stream.Subscription.__anext__",
    },
    "served": {"admin.serve"},
    "servers": {
        "testing.Call.send",
        "testing.Call.receive",
        "testing.Call.__anext__",
        "testing.Call.send_initial_metadata",
        "testing.serve",
        "testing.Server.restart",
        "testing.MemoryNetwork.connect",
        "testing.MemoryNetwork.resolve",
    },
    "simulations": {"testing.Simulation.serve", "testing.Simulation.open_channel"},
    "planes": {
        "testing.ManagementServer.serve",
        "testing.ManagementServer.wait_for",
        "testing.ManagementServer.wait_for_ack",
        "testing.ManagementServer.wait_for_nack",
        "testing.ManagementServer.wait_for_streams",
    },
}


@pytest.fixture
def probes(request):
    """Check that the test named after a row of `TRIED` tries exactly the coroutines of that row."""
    made = Probes()
    yield made
    assert made.tried == TRIED[request.node.name.removeprefix("test_checkpoints_of_")]


async def test_checkpoints_of_calls(probes, autojump_clock):
    async def once(call):
        await call.send(await call.receive())

    async with served(once) as (_, channel):
        unary = channel.method("/shop.Cart/Once")
        await probes.always("Method.__call__", unary(b"x"))
        await probes.always("Method.with_call", unary.with_call(b"x"))
        async with unary.open(b"x") as call:
            await trio.sleep(1)
            for _ in range(2):
                await probes.always("Call.receive", call.receive())
    async with served() as (_, channel):
        bidi = channel.method("/shop.Cart/Twice", client_streaming=True, server_streaming=True)
        for request in (None, b"x"):
            async with probes.block("Method.open", bidi.open(request)):
                pass
        for wrap in (None, trxds.ForwardingCall):
            name = wrap.__name__ if wrap is not None else "Call"
            async with bidi.open() as opened:
                call = wrap(opened) if wrap is not None else opened
                with checkpoints(True):
                    await call.send(b"x")
                probes.tried.add(f"{name}.send")
                await trio.sleep(1)
                with checkpoints(True):
                    await call.wait_initial_metadata()
                probes.tried.add(f"{name}.wait_initial_metadata")
                with checkpoints(True):  # the scheduler's last step was long ago
                    await call.receive()
                call.done_sending()
                await trio.sleep(1)
                await call.__anext__()
                for _ in range(2):
                    with checkpoints(True):
                        assert await call.receive() is None
                    with checkpoints(True), pytest.raises(StopAsyncIteration):
                        await call.__anext__()
                probes.tried |= {f"{name}.receive", f"{name}.__anext__"}


async def test_checkpoints_of_answers(probes, autojump_clock):
    async with (
        served(interceptors=[answering]) as (_, channel),
        channel.method("/shop.Cart/Twice", server_streaming=True).open() as call,
    ):
        await probes.always("FixedResponseCall.send", call.send(b""))
        await probes.always("FixedResponseCall.wait_initial_metadata", call.wait_initial_metadata())
        await probes.always("FixedResponseCall.receive", call.receive())
        await probes.always("FixedResponseCall.__anext__", call.__anext__())


async def test_checkpoints_of_channels(probes, autojump_clock):
    async with served() as (mesh, channel):
        async with probes.block("open_channel", mesh.channel(f"ipv4:{HOST}")):
            pass
        shared = trxds.open_xds_client(bootstrap=xds.bootstrap(PLANE), network=mesh.network)
        async with probes.block("open_xds_client", shared):
            pass
        async with probes.block("Channel.session", channel.session()):
            pass
        async with (
            probes.block("Channel.sessions", channel.sessions(max=1, idle=5)) as pool,
            probes.block("SessionPool.session", pool.session("anna")),
        ):
            pass
        await probes.always("Channel.explain", channel.explain("/shop.Cart/Twice"))
        await probes.always("Channel.wait_for_state_change", channel.wait_for_state_change(None))
        await probes.always("Channel.states", channel.states().__anext__())
        await probes.always("Channel.hosts", channel.hosts().__anext__())


async def test_checkpoints_of_sessions(probes, autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
        events = session.events()
        host = await ask(session)
        await probes.always("SessionEvents.__anext__", events.__anext__())
        mesh.endpoints("cart", xds.locality(*mesh.hosts, health={host: "DRAINING"}))
        await trio.sleep(1)
        await probes.always("Session.wait_draining", session.wait_draining())
        await probes.always("Session.explain", session.explain(METHOD))
        await ask(session)
        mesh.endpoints("cart", mesh.hosts)
        await trio.sleep(1)
        async with probes.block("Session.moving", session.moving()):
            pass
        async with probes.block("Channel.rebalance_sessions", channel.rebalance_sessions(per_second=1, idle_for=1)):
            pass


async def test_checkpoints_of_state_streams(probes, autojump_clock):
    async with served() as (_, channel), probes.block("state_stream.open", state_stream.open(channel)) as opened:
        await probes.always("state_stream.StateStream.snapshot", opened.snapshot())
        async with probes.block("state_stream.StateStream.subscribe", opened.subscribe()) as subscription:
            await trio.sleep(1)
            await probes.always("state_stream.Subscription.__anext__", subscription.__anext__())


async def test_checkpoints_of_served(probes):
    async with trxds.open_channel("ipv4:127.0.0.1:1") as channel, probes.block("admin.serve", admin.serve(channel)):
        pass


async def test_checkpoints_of_servers(probes, autojump_clock):
    async def handler(call):
        await probes.always("testing.Call.send_initial_metadata", call.send_initial_metadata())
        await trio.sleep(1)
        await probes.always("testing.Call.receive", call.receive())
        await probes.always("testing.Call.__anext__", call.__anext__())
        await probes.always("testing.Call.send", call.send(b"x"))

    network = MemoryNetwork()
    network.names["cart"] = ["10.0.0.1"]
    await probes.always("testing.MemoryNetwork.resolve", network.resolve("cart", 1))
    async with probes.block("testing.serve", testing.serve(fallback=handler, network=network, address=HOST)) as server:
        assert isinstance(server, Server)
        await (await probes.always("testing.MemoryNetwork.connect", network.connect(HOST))).aclose()
        async with trxds.open_channel(f"ipv4:{HOST}", network=network) as channel:
            assert await channel.method("/shop.Cart/Sum", client_streaming=True)([b"a", b"b"]) == b"x"
        await probes.always("testing.Server.restart", server.restart())


async def test_checkpoints_of_planes(probes, autojump_clock):
    plane, network = ManagementServer(), MemoryNetwork()
    plane.put(xds.listener("shop", routes="routes"), xds.routes("routes", xds.route("cart")))
    plane.put(xds.cluster("cart", idle_timeout=-1))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(probes.block("testing.ManagementServer.serve", plane.serve(PLANE, network)))
        await stack.enter_async_context(
            trxds.open_channel("xds:///shop", bootstrap=xds.bootstrap(PLANE), network=network)
        )
        await trio.sleep(1)
        await probes.always("testing.ManagementServer.wait_for", plane.wait_for(lambda request: True))
        await probes.always("testing.ManagementServer.wait_for_ack", plane.wait_for_ack("LDS"))
        await probes.always("testing.ManagementServer.wait_for_nack", plane.wait_for_nack("CDS"))
        await probes.always("testing.ManagementServer.wait_for_streams", plane.wait_for_streams(1))


def test_checkpoints_of_simulations(probes):
    async def scenario(mesh):
        await probes.always("testing.Simulation.serve", mesh.serve("10.0.0.2:50051"))
        async with probes.block("testing.Simulation.open_channel", mesh.open_channel("ipv4:10.0.0.2:50051")):
            pass

    testing.Simulation(seed=1).run(scenario)
