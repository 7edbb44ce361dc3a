"""The actions that a step of a rehearsal may be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from msgspec import Struct, structs

from trxds.cli.control_plane import ServedResources
from trxds.resources.resource_file import ResourceFile
from trxds.testing.simulation.echo_host import Behaviour, EchoHost
from trxds.testing.simulation.simulation import LATENCY, Simulation

from .mesh_of_files import addresses_of
from .plan import Resource, Step

CONTROL_PLANE = "control-plane"


@dataclass(slots=True, eq=False)
class StepInForce:
    """A step that is not yet undone, and the hosts for which nothing has ended it since."""

    step: Step
    hosts: tuple[str, ...]


@dataclass(slots=True, eq=False)
class RehearsalMesh:
    """The mesh that steps change. `resources` are as their file has them; `in_force` are the steps not yet undone."""

    mesh: Simulation
    served: ServedResources
    behaviours: Mapping[str, Behaviour]
    resources: tuple[Resource, ...] = ()
    in_force: list[StepInForce] = field(default_factory=list)

    def begin(self, step: Step) -> StepInForce:
        """Do what the step says; return what `end` undoes."""
        begun = StepInForce(step, step.hosts)
        self.in_force.append(begun)
        ACTIONS[step.action].do(self, step)
        return begun

    async def end(self, begun: StepInForce) -> None:
        """Undo a step for the hosts for which no other step has ended it."""
        undo = ACTIONS[begun.step.action].undo
        if undo is None or begun not in self.in_force:
            return
        self.in_force.remove(begun)
        undone = undo(self, structs.replace(begun.step, hosts=begun.hosts))
        if undone is not None:
            await undone

    def end_early(self, actions: tuple[str, ...], hosts: Iterable[str]) -> None:
        """Let no step of these actions be in force for these hosts any more; what it has done stays as it is."""
        ended = frozenset(hosts)
        for each in self.in_force:
            if each.step.action in actions:
                each.hosts = tuple(host for host in each.hosts if host not in ended)

    def replace(self, resources: Iterable[Resource]) -> None:
        """Serve these resources in place of all others; their endpoints have the health that they state."""
        self.resources = tuple(resources)
        # They know nothing of an earlier drain.
        self.in_force = [each for each in self.in_force if each.step.action != "drain"]
        self.serve()

    def serve(self) -> None:
        """Serve the resources, with the hosts DRAINING that a step in force drains."""
        draining = {host for each in self.in_force if each.step.action == "drain" for host in each.hosts}
        resources = deepcopy(self.resources)
        for endpoint in chain.from_iterable(map(_lb_endpoints, resources)):
            if addresses_of(endpoint.get("endpoint")).intersection(draining):
                endpoint.pop("healthStatus", None)
                endpoint["health_status"] = "DRAINING"
        by_name = {(str(each["@type"]), _name(each)): dict(each) for each in resources}
        self.served.replace_with(ResourceFile(by_name))

    def value(self, action: str, host: str, otherwise: float) -> float:
        """Return the value of the last step in force that does this to the host."""
        last = self.last((action,), host)
        return otherwise if last is None else last.value

    def last(self, actions: tuple[str, ...], host: str) -> Step | None:
        """Return the last step in force that does one of these actions to the host."""
        found = (each.step for each in reversed(self.in_force) if each.step.action in actions and host in each.hosts)
        return next(found, None)

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


_DOWN = "kill", "vanish"


def _set_down_or_up(target: RehearsalMesh, step: Step) -> None:
    """Leave hosts as the last step in force has them: a host is up when every step that took it down is over."""
    for host in target.hosts(step):
        down = target.last(_DOWN, host.address)
        # A host that has vanished refuses no connection until it has listened again.
        if down is None or down.action == "kill":
            host.start()
        if down is not None:
            host.kill() if down.action == "kill" else host.vanish()


def _start(target: RehearsalMesh, step: Step) -> None:
    down = tuple(host for host in step.hosts if target.last(_DOWN, host) is not None)
    target.end_early(_DOWN, down)
    for address in down:  # and not those that are up, whose connections it would reset
        target.mesh.hosts[address].start()


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
        if target.last(("partition",), address) is None:
            target.mesh.network.heal(address)


# -- the control plane


def _stop_control_plane(target: RehearsalMesh, step: Step) -> None:
    # As `start` does with hosts, `restart` ends what has stopped it before.
    if step.action == "restart":
        target.in_force = [each for each in target.in_force if each.step is step or not _stops_control_plane(each)]
    target.mesh.plane_server.stop()


async def _start_control_plane(target: RehearsalMesh, step: Step) -> None:
    if not any(map(_stops_control_plane, target.in_force)):
        await target.mesh.plane_server.restart()


def _stops_control_plane(begun: StepInForce) -> bool:
    return ACTIONS[begun.step.action].needs == CONTROL_PLANE


ACTIONS = {
    "replace": Action(_replace, needs="file"),
    "drain": Action(_serve, _serve),
    "kill": Action(_set_down_or_up, _set_down_or_up),
    "vanish": Action(_set_down_or_up, _set_down_or_up),
    "start": Action(_start),
    "goaway": Action(_goaway),
    "reset": Action(_reset),
    "fail": Action(_fail, _fail, needs="hosts and rate"),
    "slow": Action(_slow, _slow, needs="hosts and latency"),
    "partition": Action(_partition, _heal),
    "restart": Action(_stop_control_plane, _start_control_plane, needs=CONTROL_PLANE),
    "stop": Action(_stop_control_plane, _start_control_plane, needs=CONTROL_PLANE),
}
"""The actions by their names in a script. `restart` comes back at once unless it says when."""
