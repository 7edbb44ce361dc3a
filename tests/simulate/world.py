"""A `World` is everything of one seed's run: mesh, clients, what was disturbed when, and what was found."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import trio

from trxds.core.status import StatusCode
from trxds.testing import Simulation
from trxds.testing.management import ManagementServer

from .model import MeshModel
from .probe import Probe

if TYPE_CHECKING:
    from .call_plan import CallPlan
    from .traffic import Pool

SETTLED = 170.0  # seconds: the longest backoff, 144, and an attempt to connect that began just before, 20
RECENT = 200.0  # seconds for which a fault may explain what a call meets
MOMENT = 1.0  # seconds: a configuration takes some passes of the scheduler, and no time
REBALANCED_AFTER = 5.0  # seconds without a call after which a client that rebalances may release a session
INJECTED = StatusCode.ABORTED  # of calls that the fault injection filter fails
_GAP, _WAITING_GAP = 1.0, 8.0  # seconds
_TRACE = 400  # lines that the report of a failing seed has at most


@dataclass(slots=True, eq=False)
class Issued:
    """An attempt that met a host, and whether it certainly got a stream there."""

    at: float
    is_certain: bool = True


@dataclass(eq=False)
class Client:
    """A channel of the simulation, with what its observer has seen last."""

    name: str
    service: str  # empty for a target without a control plane
    network_name: str  # clients that share an xDS client are one in the network
    sticky_aggregates: bool
    keepalive: bool
    idle_timeout: float | None
    strict: bool = False  # its sessions fail rather than move
    ttl: float | None = None  # of its sessions' cookies, in seconds
    falls_back: bool = False  # it has a second control plane (A71)
    addresses: tuple[str, ...] = ()  # of a target without a control plane
    policy: str = ""  # of a target without a control plane
    checks_health: bool = False  # it asks each host whether it takes calls (A17)
    attempt_timeout: float | None = None  # seconds for an attempt without a response
    rebalances: bool = False  # it releases sessions of hosts that have too many
    channel: Any = None
    probe: Probe | None = None
    ejected: dict[tuple[str, str, str], float] = field(default_factory=dict)  # (cluster, leaf, address): when


@dataclass(eq=False)
class World:
    """The state of one run; `violations` has what each broken invariant says."""

    mesh: Simulation
    model: MeshModel
    clients: list[Client] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    trace: deque[str] = field(default_factory=lambda: deque(maxlen=_TRACE))
    shaken: dict[tuple[str | None, str | None], float] = field(default_factory=dict)  # (client, address): when last
    bad: dict[tuple[ManagementServer, str, int], str] = field(default_factory=dict)  # the resource to be refused
    dark: set[str] = field(default_factory=set)  # addresses of hosts that have another one, dead also in a calm (A61)
    said_at: dict[str, float] = field(default_factory=dict)  # when a host last changed what it says of its health
    injected_at: float = -math.inf  # when the fault injection filter was last changed
    issued: defaultdict[tuple[str, str], list[Issued]] = field(default_factory=lambda: defaultdict(list))
    """When an attempt of a client (its name in the network) met a host of a cluster, for the load reports."""
    pools: list[Pool] = field(default_factory=list)
    open_calls: dict[CallPlan, None] = field(default_factory=dict)
    changed_at: float = -math.inf  # the last change of anything: fault, resource, repair
    resources_changed_at: float = -math.inf  # the last change of a resource
    calm_since: float = math.inf  # when the mesh was repaired; infinite during a storm

    def __repr__(self) -> str:
        return f"<World of seed {self.mesh.seed!r}, {len(self.clients)} clients, {len(self.violations)} violations>"

    def note(self, text: str) -> None:
        """Write a line into the trace that a failing seed prints."""
        self.trace.append(f"{trio.current_time():9.3f}  {text}")

    def violated(self, invariant: str, text: str) -> None:
        """Record that an invariant does not hold."""
        self.note(f"VIOLATION of {invariant}: {text}")
        self.violations.append(f"{invariant}, at {trio.current_time():.3f} s: {text}")

    # -- faults

    def shake(self, address: str | None = None, client: str | None = None) -> None:
        """Note that connections of a client to an address may break now; None is any."""
        self.shaken[client, address] = self.changed_at = trio.current_time()
        self.calm_since = math.inf

    def change(self) -> None:
        """Note that something has changed which breaks no connection."""
        self.changed_at = self.resources_changed_at = trio.current_time()
        self.calm_since = math.inf

    def was_shaken(self, client: str, address: str, within: float = RECENT) -> bool:
        """Whether a fault concerned that client's connections to the address a short time ago."""
        since = trio.current_time() - within
        keys = ((client, address), (None, address), (client, None), (None, None))
        return any(self.shaken.get(key, -math.inf) >= since for key in keys)

    @property
    def node_names(self) -> set[str]:
        """The clients that have a control plane, by their names in the network, which are those of their nodes."""
        return {each.network_name for each in self.clients if each.service}

    @property
    def is_calm(self) -> bool:
        """Whether nothing was disturbed for so long that every call has to succeed."""
        return trio.current_time() >= self.calm_since + SETTLED

    @property
    def gap(self) -> float:
        """The seconds between two calls of a task, on average: there is little to learn from the wait for the calm."""
        return _WAITING_GAP if not self.is_calm and not math.isinf(self.calm_since) else _GAP

    def names(self) -> set[str]:
        """Every name that the message of a failed call may mean: hosts, resources, control plane."""
        model = self.model
        return {
            *model.addresses,
            *(host.partition(":")[0] for host in model.addresses),
            *model.leaves,
            *model.aggregates,
            *model.services,
            *(f"{name}-routes" for name in model.services),
            *(leaf.dns for leaf in model.leaves.values() if leaf.dns),
            *(leaf.service_name for leaf in model.leaves.values()),
            *(plane.address for plane in model.planes.all),
        }
