"""The actions that a step of a rehearsal may be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from msgspec import Struct

from trxds.cli.control_plane import ServedResources
from trxds.resources.resource_file import ResourceFile
from trxds.testing.simulation.echo_host import EchoHost
from trxds.testing.simulation.simulation import LATENCY, Simulation

from .mesh_of_files import addresses_of
from .plan import Resource, Step


@dataclass(slots=True, eq=False)
class RehearsalMesh:
    """The mesh that steps change, and the resources that its control plane has."""

    mesh: Simulation
    served: ServedResources
    resources: tuple[Resource, ...] = ()

    def replace(self, resources: Iterable[Resource]) -> None:
        """Serve these resources in place of all others."""
        self.resources = tuple(resources)
        by_name = {(str(each["@type"]), _name(each)): dict(each) for each in self.resources}
        self.served.replace_with(ResourceFile(by_name))

    def hosts(self, step: Step) -> list[EchoHost]:
        """Return the hosts of a step."""
        return [self.mesh.hosts[address] for address in step.hosts]


class Action(Struct, frozen=True):
    """An action; `undo` is for a step that lasts for some time. `needs` says what a step has to give."""

    do: Callable[[RehearsalMesh, Step], object]
    undo: Callable[[RehearsalMesh, Step], Awaitable[object]] | None = None
    needs: str = "hosts"


def _name(resource: Resource) -> str:
    return str(next(resource[key] for key in ("name", "cluster_name", "clusterName") if resource.get(key)))


# -- resources


def _replace(target: RehearsalMesh, step: Step) -> None:
    target.replace(step.resources)


def _drain(target: RehearsalMesh, step: Step) -> None:
    _set_health(target, step.hosts, "DRAINING")


async def _undrain(target: RehearsalMesh, step: Step) -> None:
    _set_health(target, step.hosts, "HEALTHY")


def _set_health(target: RehearsalMesh, hosts: tuple[str, ...], status: str) -> None:
    resources = deepcopy(target.resources)
    for resource in resources:
        for endpoint in _lb_endpoints(resource):
            if addresses_of(endpoint.get("endpoint")).intersection(hosts):
                endpoint.pop("healthStatus", None)
                endpoint["health_status"] = status
    target.replace(resources)


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


async def _start_again(target: RehearsalMesh, step: Step) -> None:
    _start(target, step)


def _goaway(target: RehearsalMesh, step: Step) -> None:
    for host in target.hosts(step):
        host.goaway()


def _reset(target: RehearsalMesh, step: Step) -> None:
    for host in target.hosts(step):
        target.mesh.network.reset(host.address)


def _fail(target: RehearsalMesh, step: Step) -> None:
    for host in target.hosts(step):
        host.behaviour = replace(host.behaviour, error_rate=step.value)


async def _fail_no_more(target: RehearsalMesh, step: Step) -> None:
    for host in target.hosts(step):
        host.behaviour = replace(host.behaviour, error_rate=0.0)


def _slow(target: RehearsalMesh, step: Step) -> None:
    for address in step.hosts:
        target.mesh.network.slow(address, latency=step.value)


async def _slow_no_more(target: RehearsalMesh, step: Step) -> None:
    for address in step.hosts:
        target.mesh.network.slow(address, latency=LATENCY)


def _partition(target: RehearsalMesh, step: Step) -> None:
    for address in step.hosts:
        target.mesh.network.partition(address)


async def _heal(target: RehearsalMesh, step: Step) -> None:
    for address in step.hosts:
        target.mesh.network.heal(address)


# -- the control plane


def _stop_control_plane(target: RehearsalMesh, step: Step) -> None:
    target.mesh.plane_server.stop()


async def _start_control_plane(target: RehearsalMesh, step: Step) -> None:
    await target.mesh.plane_server.restart()


ACTIONS = {
    "replace": Action(_replace, needs="file"),
    "drain": Action(_drain, _undrain),
    "kill": Action(_kill, _start_again),
    "vanish": Action(_vanish, _start_again),
    "start": Action(_start),
    "goaway": Action(_goaway),
    "reset": Action(_reset),
    "fail": Action(_fail, _fail_no_more, needs="hosts and rate"),
    "slow": Action(_slow, _slow_no_more, needs="hosts and latency"),
    "partition": Action(_partition, _heal),
    "restart": Action(_stop_control_plane, _start_control_plane, needs="control-plane"),
    "stop": Action(_stop_control_plane, _start_control_plane, needs="control-plane"),
}
"""The actions by their names in a script. `restart` comes back at once unless it says when."""
