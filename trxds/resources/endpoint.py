"""ClusterLoadAssignment: the endpoints of a cluster by priority and locality (EDS; A27, A61)."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class HealthStatus(enum.Enum):
    """The health states gRPC knows of; endpoints in any other are not there for it (A27, A55)."""

    UNKNOWN = "UNKNOWN"
    HEALTHY = "HEALTHY"
    DRAINING = "DRAINING"

    __hash__ = object.__hash__  # members are singletons


@dataclass(frozen=True, slots=True, order=True)
class LocalityId:
    """Where endpoints are; equal ids are one locality."""

    region: str = ""
    zone: str = ""
    sub_zone: str = ""

    def __str__(self) -> str:
        return f'{{region="{self.region}", zone="{self.zone}", sub_zone="{self.sub_zone}"}}'


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One backend. It may be reached by any of its `addresses`, the first one preferred (A61).

    An address is a text, `10.0.0.1:443` or `[::1]:443`, and it is the one in the cookie.
    """

    addresses: tuple[str, ...]
    health: HealthStatus = HealthStatus.UNKNOWN
    weight: int = 1
    hostname: str = ""


@dataclass(frozen=True, slots=True)
class Locality:
    """The endpoints of one place; `weight` is its share of its priority's traffic."""

    id: LocalityId
    weight: int
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True)
class Drop:
    """RPCs the control plane wants dropped: `per_million` of them, under this name."""

    category: str
    per_million: int


@dataclass(frozen=True, slots=True)
class ClusterLoadAssignment:
    """`priorities[0]` is used while it can be; each has at least one locality."""

    name: str
    priorities: tuple[tuple[Locality, ...], ...] = ()
    drops: tuple[Drop, ...] = ()

    def __repr__(self) -> str:
        count = sum(len(locality.endpoints) for localities in self.priorities for locality in localities)
        return f"<ClusterLoadAssignment {self.name}: {len(self.priorities)} priorities, {count} endpoints>"
