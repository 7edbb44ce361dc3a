"""The story of the demo: five changes of the mesh while clients use it.

The hosts that a step changes are chosen by where the sessions are, so that every step affects some session.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from msgspec import Struct, structs

from .mesh import Host, Mesh


class Cast(Struct, frozen=True):
    """The hosts that the steps remove or drain."""

    drained: Host
    removed: Host


def choose_cast(mesh: Mesh, host_of: Mapping[str, str]) -> Cast:
    """Choose the hosts: the larger cluster's busiest one is removed, and the busiest one of its other zone drains.

    The other zone moves to priority 1 later; in the zone of the removed host another host stays at priority 0.
    """
    sessions = Counter(host_of.values())
    larger, _ = mesh.weights[0]
    busiest_first = sorted(
        (host for host in mesh.hosts if host.cluster == larger), key=lambda host: sessions[host.name], reverse=True
    )
    removed = busiest_first[0]
    drained = next(host for host in busiest_first if host.zone != removed.zone)
    return Cast(drained, removed)


class Step(Struct, frozen=True):
    """One step. `title` is for people; `change` makes the next mesh; None means that the control plane restarts."""

    title: str
    change: Callable[[Mesh], Mesh] | None
    removes: str | None = None


def steps(cast: Cast) -> tuple[Step, ...]:
    drained, removed = cast.drained, cast.removed
    zone = (drained.cluster, drained.zone)
    return (
        Step(
            f"{drained.name} goes DRAINING (its sessions may stay)",
            lambda mesh: structs.replace(mesh, draining=mesh.draining | {drained.name}),
        ),
        Step(
            f"{removed.name} is removed (its sessions must move)",
            lambda mesh: structs.replace(mesh, removed=mesh.removed | {removed.name}),
            removes=removed.name,
        ),
        Step(
            "the weights flip from 80/20 to 20/80",
            lambda mesh: structs.replace(mesh, weights=tuple((name, 100 - weight) for name, weight in mesh.weights)),
        ),
        Step(
            f"zone {drained.zone} of {drained.cluster} moves to priority 1",
            lambda mesh: structs.replace(mesh, second_choice=mesh.second_choice | {zone}),
        ),
        Step("the control plane restarts", None),
    )
