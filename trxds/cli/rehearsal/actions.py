"""The actions that a step of a rehearsal may be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from msgspec import Struct

from trxds.cli.control_plane import ServedResources
from trxds.resources.resource_file import ResourceFile
from trxds.testing.simulation.echo_host import Behaviour, EchoHost
from trxds.testing.simulation.simulation import LATENCY, Simulation

from .mesh_of_files import addresses_of
from .plan import Resource, Step


@dataclass(slots=True, eq=False)
class RehearsalMesh:
    """The mesh that steps change. `resources` are as their file has them; `in_force` are the steps not yet undone."""

    mesh: Simulation
    served: ServedResources
    behaviours: Mapping[str, Behaviour]
    resources: tuple[Resource, ...] = ()
    in_force: list[Step] = field(default_factory=list)

    def replace(self, resources: Iterable[Resource]) -> None:
        """Serve these resources in place of all others; their endpoints have the health that they state."""
        self.resources = tuple(resources)
        self.in_force = [step for step in self.in_force if step.action != "drain"]
        self.serve()

    def serve(self) -> None:
        """Serve the resources, with the hosts DRAINING that a step in force drains."""
        draining = {host for step in self.in_force if step.action == "drain" for host in step.hosts}
        resources = deepcopy(self.resources)
        for endpoint in chain.from_iterable(map(_lb_endpoints, resources)):
            if addresses_of(endpoint.get("endpoint")).intersection(draining):
                endpoint.pop("healthStatus", None)
                endpoint["health_status"] = "DRAINING"
        by_name = {(str(each["@type"]), _name(each)): dict(each) for each in resources}
        self.served.replace_with(ResourceFile(by_name))

    def value(self, action: str, host: str, otherwise: float) -> float:
        """Return the value of the last step in force that does this to the host."""
        values = [step.value for step in self.in_force if step.action == action and host in step.hosts]
        return values[-1] if values else otherwise

    def hosts(self, step: Step) -> list[EchoHost]:
        """Return the hosts of a step."""
        return [self.mesh.hosts[address] for address in step.hosts]


class Action(Struct, frozen=True):
    """An action; `undo` is for a step that lasts for some time. `needs` says what a step has to give."""

    do: Callable[[RehearsalMesh, Step], object]
    undo: Callable[[RehearsalMesh, Step], Awaitable[None] | None] | None = None
    needs: str = "hosts"


def _name(resource: Resource) -> str:
    return str(next(resource[key] for key in ("name", "cluster_name", "clusterName") if resource.get(key)))


# -- resources


def _replace(target: RehearsalMesh, step: Step) -> None:
    target.replace(step.resources)


def _serve(target: RehearsalMesh, step: Step) -> None:
    target.serve()


def _lb_endpoints(data: Any) -> Iterable[dict[str, Any]]:
    if isinstance(data, dict):
        for key, value in data.items():
            if key in ("lb_endpoints", "lbEndpoints"):
                yield from (each for each in value if isinstance(each, dict))
            else:
                yield from _lb_endpoints(value)
    elif isinstance(data, list | tuple):
        for each in data:
            yield from _lb_endpoints(each)


# -- hosts


def _kill(target: RehearsalMesh, step: Step) -> None:
    for host in target.hosts(step):
        host.kill()


def _vanish(target: RehearsalMesh, step: Step) -> None:
    for host in target.hosts(step):
        host.vanish()


def _start(target: RehearsalMesh, step: Step) -> None:
    for host in target.hosts(step):
        host.start()


def _goaway(target: RehearsalMesh, step: Step) -> None:
    for host in target.hosts(step):
        host.goaway()


def _reset(target: RehearsalMesh, step: Step) -> None:
    for host in target.hosts(step):
        target.mesh.network.reset(host.address)


def _fail(target: RehearsalMesh, step: Step) -> None:
    for host in target.hosts(step):
        usual = target.behaviours[host.address].error_rate
        host.behaviour = replace(host.behaviour, error_rate=target.value("fail", host.address, usual))


def _slow(target: RehearsalMesh, step: Step) -> None:
    for address in step.hosts:
        target.mesh.network.slow(address, latency=target.value("slow", address, LATENCY))


def _partition(target: RehearsalMesh, step: Step) -> None:
    for address in step.hosts:
        target.mesh.network.partition(address)


def _heal(target: RehearsalMesh, step: Step) -> None:
    for address in step.hosts:
        target.mesh.network.heal(address)


# -- the control plane


def _stop_control_plane(target: RehearsalMesh, step: Step) -> None:
    target.mesh.plane_server.stop()


async def _start_control_plane(target: RehearsalMesh, step: Step) -> None:
    await target.mesh.plane_server.restart()


ACTIONS = {
    "replace": Action(_replace, needs="file"),
    "drain": Action(_serve, _serve),
    "kill": Action(_kill, _start),
    "vanish": Action(_vanish, _start),
    "start": Action(_start),
    "goaway": Action(_goaway),
    "reset": Action(_reset),
    "fail": Action(_fail, _fail, needs="hosts and rate"),
    "slow": Action(_slow, _slow, needs="hosts and latency"),
    "partition": Action(_partition, _heal),
    "restart": Action(_stop_control_plane, _start_control_plane, needs="control-plane"),
    "stop": Action(_stop_control_plane, _start_control_plane, needs="control-plane"),
}
"""The actions by their names in a script. `restart` comes back at once unless it says when."""
