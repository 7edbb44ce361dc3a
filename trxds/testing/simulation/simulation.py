"""A `Simulation` runs programs, hosts and a control plane in one process, on a clock that jumps, by one seed.

    async def scenario(mesh: Simulation) -> list[str]:
        mesh.plane.put(*resources)
        mesh.add_host("10.0.0.2:50051")
        async with mesh.open_channel("xds:///shop") as channel:
            ...

    result = Simulation(seed=7).run(scenario)

The same seed gives the same order of all steps: of tasks, random numbers, bytes and times. `traffic.digest` tells.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any, TypeVar

import trio

from trxds.client.channel import Channel
from trxds.client.open_channel import open_channel
from trxds.core.background_nursery import open_background_nursery
from trxds.core.determinism import SOURCES, Sources
from trxds.server.server import Server
from trxds.server.server_call import Handler
from trxds.testing.management import ManagementServer
from trxds.testing.resources import bootstrap

from .echo_host import Behaviour, EchoHost
from .network import SimulatedNetwork, Traffic
from .scheduling import deterministic_scheduling
from .timeline import Timeline

T = TypeVar("T")

PLANE_ADDRESS = "192.0.2.1:18000"
"""The address of `Simulation.plane`; 192.0.2.0/24 is kept for documentation (RFC 5737)."""

LATENCY = 0.0005
"""Seconds that a byte takes from one end of a link to the other, unless a simulation says otherwise."""

MAX_TIME = 86_400.0
"""Seconds on its clock after which a simulation is given up, unless it says otherwise: a day."""

START = 1_767_225_600.0
"""The time of day at the start of every simulation: 2026-01-01, 00:00 UTC."""


class Simulation:
    """A mesh in one process. Its methods, except `run`, are for the scenario that `run` runs.

    `seed` decides everything that is random. `latency`, in seconds, is that of each link, one way. After `max_time`
    seconds on its clock `run` raises `trio.TooSlowError`, because a scenario that waits in vain would never end.
    """

    plane: ManagementServer
    """The control plane at `PLANE_ADDRESS`; it has no resources at first."""

    plane_server: Server
    """The server of `plane`: `stop` is its death, and `await restart()` brings it back with its resources."""

    network: SimulatedNetwork
    """The network, with its faults."""

    def __init__(self, seed: int | str = 0, *, latency: float = LATENCY, max_time: float = MAX_TIME) -> None:
        self.seed = seed
        self.hosts: dict[str, EchoHost] = {}
        """The hosts of `add_host` by their addresses."""
        self._latency = latency
        self._max_time = max_time
        self._epoch = START
        self._timeline: Timeline
        self._nursery: trio.Nursery

    def __repr__(self) -> str:
        return f"<Simulation seed {self.seed!r}, {len(self.hosts)} hosts>"

    def random(self, name: str) -> Random:
        """Return a generator that the seed and this name decide, for the scenario's own random numbers."""
        return Random(f"{self.seed}/{name}")

    @property
    def traffic(self) -> Traffic:
        """What the network has carried; its `digest` is equal if everything was."""
        return self.network.traffic

    def set_time_of_day_ahead(self, seconds: float) -> None:
        """Set the time of day ahead, or back by a negative number, as NTP may; deadlines do not depend on it."""
        self._epoch += seconds

    # -- its run

    def run(self, scenario: Callable[[Simulation], Awaitable[T]]) -> T:
        """Run the scenario to its end, and return its result. `RuntimeError` in Trio: it has a run of its own."""
        if trio.lowlevel.in_trio_run():
            raise RuntimeError("Simulation.run has a run of Trio of its own; call it in a test that is not async")
        # Here, because Trio's test tools import pytest, which programs with a test server do not need.
        from trio.testing import MockClock

        runtime = self.random("runtime")
        sources = Sources(
            new_random=lambda: Random(runtime.getrandbits(64)),
            epoch=lambda: self._epoch + trio.current_time(),
            step_clock=lambda: 0.0,  # no step is long, whatever the machine does meanwhile
        )
        token = SOURCES.set(sources)
        try:
            with deterministic_scheduling(f"{self.seed}/scheduler"):
                return trio.run(self._run, scenario, clock=MockClock(autojump_threshold=0))
        finally:
            SOURCES.reset(token)

    async def _run(self, scenario: Callable[[Simulation], Awaitable[T]]) -> T:
        self.hosts.clear()
        self._epoch = START
        self._timeline = Timeline()
        self.network = SimulatedNetwork(self._timeline, self.random("network"), self._latency)
        async with open_background_nursery("the scenario has ended") as self._nursery:
            self._nursery.start_soon(self._timeline.run, name="simulation/timeline")
            self.plane = ManagementServer()
            self.plane_server = await self.serve(PLANE_ADDRESS, self.plane.handlers, remember_calls=False)
            with trio.move_on_after(self._max_time):
                return await scenario(self)
            text = f"the scenario has not ended within {self._max_time:g} s on its clock, which is max_time"
            raise trio.TooSlowError(text)

    # -- the mesh

    def add_host(self, address: str, behaviour: Behaviour | None = None) -> EchoHost:
        """Start a host that answers every call of any method with its request. `OSError` if the address is in use."""
        host = EchoHost(
            address, self.network, self._timeline, trio.lowlevel.current_clock().current_time, self.random(address)
        )
        if behaviour is not None:
            host.behaviour = behaviour
        host.listen()
        # A host that has vanished from the address left half-open connections, of which this one knows nothing.
        self.network.reset(address)
        self.hosts[address] = host
        return host

    async def serve(self, address: str, handlers: Mapping[str, Handler] | None = None, **options: Any) -> Server:
        """Start a gRPC server whose handlers are coroutines; `options` are those of `trxds.testing.serve`.

        It serves until the simulation ends. `server.stop()`, `restart()` and `goaway()` are its faults, beside those of
        the network. The handlers of a `ManagementServer` make it another control plane. `OSError` if the address is in
        use.
        """
        server = Server(handlers, address=address, network=self.network, **options)
        await self._nursery.start(server.run)
        return server

    def bootstrap(self, *planes: str, node: str = "client", features: Iterable[str] = ("xds_v3",)) -> dict[str, Any]:
        """Return the bootstrap of a client of the control planes at these addresses; without any, of `plane`."""
        return bootstrap(*(planes or (PLANE_ADDRESS,)), node=node, features=tuple(features))

    @asynccontextmanager
    async def open_channel(self, target: str, *, client: str = "client", **options: Any) -> AsyncIterator[Channel]:
        """Open a channel of that client, for as long as the block lasts; `options` are those of `trxds.open_channel`.

        `client` is the client's name in the network's faults, and the node's id at the control plane.
        """
        given = {"network": self.network.of(client), **options}
        if target.startswith("xds:") and "xds" not in given:
            given.setdefault("bootstrap", self.bootstrap(node=client))
        async with open_channel(target, **given) as channel:
            yield channel
