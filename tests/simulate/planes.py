"""The control planes of a world: the first one, its replica (A71), and that of another authority (A47).

The replica serves the same resources, at the same versions, so a client may use either. The other authority's plane has
clusters of its own, whose names begin with `FAR`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trxds.server.server import Server
from trxds.testing import Simulation
from trxds.testing.management import ManagementServer
from trxds.testing.simulation.simulation import PLANE_ADDRESS

REPLICA_ADDRESS = "192.0.2.2:18000"
FAR_ADDRESS = "192.0.2.3:18000"
AUTHORITY = "far.example"
REPORT_INTERVAL = 5.0  # seconds between two load reports


@dataclass(frozen=True)
class Plane:
    """One control plane."""

    address: str
    service: ManagementServer
    server: Server


class Replica(ManagementServer):
    """A control plane with the resources of another one, by the same store."""

    def __init__(self, first: ManagementServer) -> None:
        super().__init__()
        self._resources, self._versions = first._resources, first._versions
        push = first._push

        def push_both() -> None:
            push()
            self._push()

        # Assigned, because nothing tells of a push, and each replica has subscribers of its own.
        first._push = push_both  # type: ignore[method-assign]


@dataclass(frozen=True)
class Planes:
    """All control planes, and what a client's bootstrap says of them."""

    first: Plane
    replica: Plane
    far: Plane

    @classmethod
    async def start(cls, mesh: Simulation) -> Planes:
        """Start them all."""
        replica, far = Replica(mesh.plane), ManagementServer()
        planes = cls(
            Plane(PLANE_ADDRESS, mesh.plane, mesh.plane_server),
            Plane(REPLICA_ADDRESS, replica, await mesh.serve(REPLICA_ADDRESS, replica.handlers, remember_calls=False)),
            Plane(FAR_ADDRESS, far, await mesh.serve(FAR_ADDRESS, far.handlers, remember_calls=False)),
        )
        for plane in planes.all:
            plane.service.load.ask(interval=REPORT_INTERVAL)
        return planes

    @property
    def all(self) -> tuple[Plane, ...]:
        return self.first, self.replica, self.far

    def of(self, name: str) -> ManagementServer:
        """Return the control plane that has the resource of this name."""
        return self.far.service if name.startswith("xdstp:") else self.first.service

    def bootstrap(self, mesh: Simulation, node: str, *, features: tuple[str, ...], falls_back: bool) -> dict[str, Any]:
        """Return a client's bootstrap."""
        servers = (PLANE_ADDRESS, REPLICA_ADDRESS) if falls_back else (PLANE_ADDRESS,)
        far = mesh.bootstrap(FAR_ADDRESS, node=node, features=features)["xds_servers"]
        return {
            **mesh.bootstrap(*servers, node=node, features=features),
            "authorities": {AUTHORITY: {"xds_servers": far}},
        }


def far_name(kind: str, name: str) -> str:
    """Return the name of a resource of the other authority."""
    return f"xdstp://{AUTHORITY}/envoy.config.{kind}/{name}"
