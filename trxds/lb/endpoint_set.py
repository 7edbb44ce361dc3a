"""Endpoints go down the tree apart from the configuration, because they change far more often.

Configuration says how to balance and comes from a cluster's resource (CDS); endpoints come from EDS or DNS (A27, A37).
So a change of one does not look like a change of the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import overload

from msgspec import Struct, field

from trxds.resources.endpoint import Endpoint, Locality

_UNDIVIDED: Mapping[str, Endpoints] = MappingProxyType({})


class Endpoints(Struct, frozen=True, gc=False):
    """A sequence of endpoints that a policy may send RPCs to.

    `note` says why there are none, for the message of failed RPCs. `weights` are the endpoints' shares of the traffic,
    in the same order, if the policy uses them (A113). `parts` are the endpoints of a priority or a locality, by the
    name of its child policy. Only the endpoints of a complete cluster have `localities`.
    """

    all: tuple[Endpoint, ...] = ()
    note: str = ""
    weights: tuple[int, ...] = ()
    parts: Mapping[str, Endpoints] = field(default_factory=lambda: _UNDIVIDED)
    localities: tuple[Locality, ...] = ()

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    @overload
    def __getitem__(self, at: int) -> Endpoint: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Endpoint, ...]: ...
    def __getitem__(self, at: int | slice) -> Endpoint | tuple[Endpoint, ...]:
        return self.all[at]

    @property
    def shares(self) -> tuple[int, ...]:
        """The weight of each endpoint, which is 1 if there are no `weights`."""
        return self.weights or (1,) * len(self.all)

    def part(self, name: str) -> Endpoints:
        """Return the endpoints of the child `name`: its part, or all if it has none of its own."""
        return self.parts.get(name, self)

    def only(self, ranks: Mapping[str, int]) -> Endpoints:
        """Return the endpoints whose first address has a rank, in the order of the ranks, without empty parts."""
        firsts = [endpoint.addresses[0] for endpoint in self.all]
        kept = sorted((at for at, first in enumerate(firsts) if first in ranks), key=lambda at: ranks[firsts[at]])
        parts = {name: part.only(ranks) for name, part in self.parts.items()}
        return Endpoints(
            tuple(self.all[at] for at in kept),
            self.note,
            tuple(self.weights[at] for at in kept) if self.weights else (),
            {name: part for name, part in parts.items() if part.all},
        )


NO_ENDPOINTS = Endpoints()


class Hostnames:
    """The host names of endpoints, which EDS and DNS set, by address: for `:authority` (A81) and for SNI (A101)."""

    __slots__ = ("_by_address", "_endpoints")

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self._by_address: dict[str, str] | None = None

    def of(self, address: str) -> str:
        """Return the host name of the endpoint that has this address; empty if it has none."""
        # Made at the first look-up: few routes need the names, and there may be ten thousand.
        if self._by_address is None:
            self._by_address = {each: one.hostname for one in self._endpoints for each in one.addresses if one.hostname}
        return self._by_address.get(address, "")
