"""The real client in simulations: the same questions as `model.py` answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias

import numpy as np
import trio
from numpy.typing import NDArray

from trxds.client.channel import Channel
from trxds.client.method import Method
from trxds.testing import resources
from trxds.testing.management import ManagementServer
from trxds.testing.simulation.network import Traffic
from trxds.testing.simulation.simulation import Simulation
from trxds.xds.bootstrap import DELTA

from . import meshes
from .sizes import CALLS_A_SECOND, WARM_UP, WINDOW, AdsMesh, AfterUpdate, Mesh, Policy, RollingUpdate

Numbers: TypeAlias = NDArray[Any]

_CALM = 20.0  # seconds in which a change settles
_ADS_ADDRESS = "192.0.2.2:18000"
_OVERRIDE = ("UNKNOWN", "HEALTHY", "DRAINING")


@asynccontextmanager
async def _clients(mesh: Simulation, number: int, **options: Any) -> AsyncIterator[list[Channel]]:
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                mesh.open_channel(f"xds:///{meshes.NAME}", client=f"client-{each}", **options)
            )
            for each in range(number)
        ]


async def _call_steadily(method: Method[bytes, bytes], first: float, interval: float) -> None:
    """Call at a steady rate, from a time of its own, until it is cancelled."""
    began = trio.current_time() + first
    for call in count():
        await trio.sleep_until(began + call * interval)
        await method(b"scale", timeout=10.0)


# -- load and connections


@dataclass(frozen=True, slots=True)
class Loaded:
    """The calls of each host within the window, and the connections to all of them at its end."""

    calls: Numbers
    connections: int


def load_by_host(of: Mesh, policy: Policy, seed: int) -> Loaded:
    """Let the clients call, each in one session if the policy is "session", and count."""
    addresses = [meshes.address(number) for number in range(of.hosts)]

    async def scenario(mesh: Simulation) -> Loaded:
        is_session = policy.name == "session"
        filters = [resources.stateful_session()] if is_session else []
        cluster = meshes.cluster(policy)
        if is_session:
            cluster["common_lb_config"] = {"override_host_status": {"statuses": list(_OVERRIDE)}}
        mesh.plane.put(*meshes.front(*filters), cluster, meshes.endpoints(addresses))
        hosts = [mesh.add_host(each) for each in addresses]
        random = mesh.random("scale")
        async with _clients(mesh, of.clients) as channels, AsyncExitStack() as stack, trio.open_nursery() as nursery:
            callers: list[Any] = list(channels)
            if is_session:
                callers = [await stack.enter_async_context(each.session()) for each in channels]
            interval = 1 / CALLS_A_SECOND
            for caller in callers:
                first = random.uniform(0, interval)
                nursery.start_soon(_call_steadily, caller.method(meshes.METHOD), first, interval)
            await trio.sleep(WARM_UP)
            before = np.array([host.calls for host in hosts])
            await trio.sleep(WINDOW)
            after = np.array([host.calls for host in hosts])
            connections = sum(len(mesh.network.connections(each)) for each in addresses)
            nursery.cancel_scope.cancel()
        return Loaded(after - before, connections)

    return Simulation(seed).run(scenario)


# -- sessions


def after_update(of: Mesh, sessions: int, update: RollingUpdate, seed: int) -> AfterUpdate:
    """Replace all hosts step by step while sessions call; `sessions` is their number in the whole mesh."""
    part = of.hosts // update.steps

    async def scenario(mesh: Simulation) -> AfterUpdate:
        cluster = resources.cluster(meshes.CLUSTER, override_statuses=_OVERRIDE)
        present = [meshes.address(number) for number in range(of.hosts)]
        mesh.plane.put(*meshes.front(resources.stateful_session()), cluster, meshes.endpoints(present))
        for each in present:
            mesh.add_host(each)
        random = mesh.random("scale")
        moves = 0
        async with _clients(mesh, of.clients) as channels, AsyncExitStack() as stack, trio.open_nursery() as nursery:
            found = [
                await stack.enter_async_context(channels[number % of.clients].session()) for number in range(sessions)
            ]
            for session in found:
                nursery.start_soon(_call_steadily, session.method(meshes.METHOD), random.uniform(0, 5), 5.0)
            await trio.sleep(_CALM)
            for step in range(update.steps):
                before = [session.host for session in found]
                came = [meshes.address(of.hosts + step * part + each) for each in range(part)]
                for each in came:
                    mesh.add_host(each)
                staying = present[part:]
                if update.surge:
                    mesh.plane.put(meshes.endpoints([*present, *came]))
                else:
                    mesh.plane.put(meshes.endpoints(staying))
                await trio.sleep(_CALM)
                mesh.plane.put(meshes.endpoints([*staying, *came]))
                present = [*staying, *came]
                await trio.sleep(_CALM)
                moves += sum(was != session.host for was, session in zip(before, found, strict=True))
            by_host = {each: 0 for each in present}
            for session in found:
                assert session.host is not None
                by_host[session.host] += 1
            nursery.cancel_scope.cancel()
        counts = np.array(list(by_host.values())).reshape(update.steps, part).sum(axis=1)
        return AfterUpdate(tuple(float(each) for each in counts / sessions), moves / sessions)

    return Simulation(seed).run(scenario)


# -- reconnecting to a control plane


def reconnects(clients: int, outage: float, seed: int) -> Numbers:
    """Return when each client's ADS stream is back, in seconds since the control plane has died."""

    async def scenario(mesh: Simulation) -> Numbers:
        mesh.plane.put(*meshes.front(), resources.cluster(meshes.CLUSTER), meshes.endpoints([meshes.address(0)]))
        mesh.add_host(meshes.address(0))
        async with _clients(mesh, clients) as channels:
            for channel in channels:
                await channel.method(meshes.METHOD)(b"scale", timeout=10.0)
            await trio.sleep(_CALM)
            seen = len(mesh.plane.requests)
            mesh.plane_server.stop()
            died = trio.current_time()
            await trio.sleep(outage)
            await mesh.plane_server.restart()
            await mesh.plane.wait_for_streams(clients)
            await trio.sleep(_CALM)
            # Of a stream only the first request names the client.
            return np.sort([each.at - died for each in mesh.plane.requests[seen:] if each.node is not None])

    return Simulation(seed).run(scenario)


# -- ADS bytes


@dataclass(slots=True, eq=False)
class _Bytes(Traffic):
    """Counts what the control plane has sent."""

    sent: int = 0

    def record(self, way: str, data: bytes) -> None:
        if way.endswith(f"< {_ADS_ADDRESS}"):
            self.sent += len(data)

    def take(self) -> int:
        """Return the bytes since the last time."""
        sent, self.sent = self.sent, 0
        return sent


def ads_bytes(of: AdsMesh, clients: int, variant: str, seed: int) -> dict[str, float]:
    """Return the bytes that the control plane sends to one client, with HTTP/2's, by event."""
    content = meshes.ads_resources(of)
    changed_endpoints = meshes.changed_endpoints(of)
    changed_cluster = meshes.changed_cluster(of)

    async def scenario(mesh: Simulation) -> dict[str, float]:
        counted = mesh.network.traffic = _Bytes()
        plane = ManagementServer(snapshots=variant == "go-control-plane's snapshots")
        plane.put(*content)
        server = await mesh.serve(_ADS_ADDRESS, plane.handlers, remember_calls=False)
        for number in range(of.clusters * of.endpoints + 1):
            mesh.network.partition(meshes.address(number))  # attempts that wait cost less than ones that fail
        found: dict[str, float] = {}

        async def settle(event: str) -> None:
            await trio.sleep(_CALM)
            found[event] = counted.take() / clients

        features = ("xds_v3", DELTA) if variant == "delta" else ("xds_v3",)
        bootstrap = mesh.bootstrap(_ADS_ADDRESS, features=features)
        async with _clients(mesh, clients, bootstrap=bootstrap) as channels:
            for channel in channels:
                channel.try_to_connect()
            await settle("start")
            plane.put(changed_endpoints)
            await settle("one endpoint")
            plane.put(changed_cluster)
            await settle("one cluster")
            server.stop()
            await server.restart()
            await settle("restart")
        return found

    return Simulation(seed).run(scenario)
