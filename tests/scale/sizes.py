"""What is asked of a mesh, and what the answers look like. The model and the real client share these values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CALLS_A_SECOND = 1.0
"""Calls of each client, as in a rehearsal."""

WINDOW = 60.0
"""Seconds of calls after which loads are compared."""

WARM_UP = 30.0
"""Seconds of calls before that, in which connections are made."""

RING_SIZE_CAP = 4096
"""A42: a client's own limit on the entries of a ring, whatever a resource asks for."""


@dataclass(frozen=True, slots=True)
class Mesh:
    """So many clients call so many hosts of one cluster."""

    clients: int
    hosts: int


@dataclass(frozen=True, slots=True)
class Policy:
    """A load balancing policy; `subset` is the subset_size of random_subsetting around it, `ring` minimum_ring_size."""

    name: str
    subset: int | None = None
    ring: int = 1024

    def __str__(self) -> str:
        if self.subset is not None:
            return f"random_subsetting {self.subset}"
        return f"ring_hash {self.ring:,}" if self.name == "ring_hash" else self.name


ROUND_ROBIN = Policy("round_robin")


SESSION = Policy("session")
"""Each client has one session, whose first call is balanced by round_robin."""


@dataclass(frozen=True, slots=True)
class Evenness:
    """How even a load is: the busiest host and the standard deviation, both as multiples of the mean host."""

    peak: float
    deviation: float

    @staticmethod
    def of(load: NDArray[np.int64]) -> Evenness:
        """Return the evenness of calls, sessions or connections by host."""
        mean = load.mean()
        return Evenness(float(load.max() / mean), float(load.std() / mean))


@dataclass(frozen=True, slots=True)
class RollingUpdate:
    """All hosts are replaced in `steps` equal parts, each by new hosts at new addresses.

    With `surge` the new hosts of a step are there before the old ones leave; without, the old ones leave first.
    """

    steps: int = 10
    surge: bool = True


@dataclass(frozen=True, slots=True)
class AfterUpdate:
    """Sessions after a rolling update: of each step's new hosts, in order, and how often a session moved on average."""

    by_step: tuple[float, ...]
    moves: float


@dataclass(frozen=True, slots=True)
class AdsMesh:
    """What a client subscribes to: a listener, a route table, and so many clusters with so many endpoints each."""

    clusters: int
    endpoints: int

    def names(self) -> list[str]:
        """Return the clusters' names."""
        return [f"shop-cluster-{number:03d}" for number in range(self.clusters)]


EVENTS = ("start", "one endpoint", "one cluster", "restart")
"""What makes ADS traffic: a client starts, an endpoint or a cluster changes, the control plane restarts."""

VARIANTS = ("state of the world", "go-control-plane's snapshots", "delta")
