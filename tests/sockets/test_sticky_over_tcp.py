"""The whole path over real sockets: a control plane, three backends, sessions, a drain, a restart, a removal."""

from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio
from support.mesh import bidi
from support.ports import reserved_ports

import trxds
from trxds.testing import ManagementServer, serve
from trxds.testing import resources as xds

PATIENCE = 20  # seconds on the real clock; a step takes milliseconds


class Town:
    """A control plane and backends that listen on loopback."""

    def __init__(self, servers, address, nursery):
        self.servers = {server.address: server for server in servers}
        self.plane = ManagementServer()
        self.address = address  # the control plane's
        self._nursery = nursery
        self._serving = None

    @classmethod
    @asynccontextmanager
    async def run(cls):
        async with AsyncExitStack() as stack:
            plane, *hosts = [f"127.0.0.1:{port}" for port in stack.enter_context(reserved_ports(4))]
            servers = [await stack.enter_async_context(serve(fallback=echo, address=each)) for each in hosts]
            async with trio.open_nursery() as nursery:
                town = cls(servers, plane, nursery)
                town.plane.put(
                    xds.listener("shop", routes="routes", filters=[xds.stateful_session()]),
                    xds.routes("routes", xds.route("cart")),
                    xds.cluster("cart", override_statuses=["UNKNOWN", "HEALTHY", "DRAINING"]),
                    xds.endpoints("cart", xds.locality(*town.servers)),
                )
                await town.start_plane()
                yield town
                nursery.cancel_scope.cancel()

    def channel(self):
        return trxds.open_channel("xds:///shop", bootstrap=xds.bootstrap(self.address))

    async def start_plane(self):
        """Start the control plane at the address that it had before."""
        await self._nursery.start(self._serve_plane)

    async def stop_plane(self):
        self._serving.cancel()
        await self.plane.wait_for_streams(0)

    async def _serve_plane(self, task_status):
        with trio.CancelScope() as self._serving:
            async with self.plane.serve(self.address):
                task_status.started()
                await trio.sleep_forever()

    async def become(self, *hosts, draining=()):
        """Set the endpoints; return when the client has acknowledged them."""
        self.plane.put(xds.endpoints("cart", xds.locality(*hosts, health=dict.fromkeys(draining, "DRAINING"))))
        await self.plane.wait_for_ack("EDS")


async def echo(call):
    async for message in call:
        await call.send(message)


async def met(caller, times=20):
    """Return the hosts of that many calls."""
    hosts = set()
    for _ in range(times):
        async with bidi(caller).open(timeout=PATIENCE, wait_for_ready=True) as call:
            await call.send(b"")
            await call.receive()
            hosts.add(call.peer)
    return hosts


async def meets(caller, hosts):
    """Wait until that many calls meet exactly these hosts: over real sockets nothing shows when all is settled."""
    with trio.fail_after(PATIENCE):
        while await met(caller) != hosts:  # noqa: ASYNC110
            await trio.sleep(0.01)


async def test_a_session_survives_a_drain_and_a_restart_and_moves_at_a_removal():
    async with Town.run() as town, town.channel() as channel, channel.session() as session:
        everybody = set(town.servers)
        (host,) = await met(session, 1)
        others = everybody - {host}
        await meets(channel, everybody)
        assert await met(session) == {host}

        await town.become(*everybody, draining=[host])
        await meets(channel, others)
        assert await met(session) == {host}, "it may stay while its host drains"

        await town.stop_plane()
        assert await met(session) == {host}, "no control plane, no matter"
        await town.start_plane()

        await town.become(*others)
        await meets(channel, others)
        (new_host,) = await met(session)
        assert new_host in others, "its host is gone"


async def test_a_closed_channel_has_no_connections():
    async with Town.run() as town:
        async with town.channel() as channel:
            await meets(channel, set(town.servers))
            assert town.plane.streams == 1
        with trio.fail_after(PATIENCE):
            await town.plane.wait_for_streams(0)
            while any(server.connections for server in town.servers.values()):  # noqa: ASYNC110
                await trio.sleep(0.01)


async def test_a_host_that_dies_takes_no_session_with_it():
    async with Town.run() as town, town.channel() as channel, channel.session() as session:
        await meets(channel, set(town.servers))
        (host,) = await met(session)
        town.servers[host].stop()
        others = set(town.servers) - {host}
        await meets(channel, others)
        (new_host,) = await met(session)
        assert new_host in others


async def test_an_unreachable_control_plane_is_reported_with_cause_and_remedy():
    with trio.socket.socket() as unused:  # bound and not listening, so that nobody is there
        await unused.bind(("127.0.0.1", 0))
        bootstrap = xds.bootstrap(f"127.0.0.1:{unused.getsockname()[1]}")
        async with trxds.open_channel("xds:///shop", bootstrap=bootstrap) as channel:
            with pytest.raises(trxds.RpcError, match="Connection refused; check that it runs, and server_uri"):
                await channel.method("/shop.Cart/Add")(b"", timeout=PATIENCE)
