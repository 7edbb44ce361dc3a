"""What a policy is given beside its configuration: the endpoints that it may send to.

Configuration says how to balance and comes from a cluster's resource (CDS); endpoints come from EDS or DNS and change
far more often. They go down the tree apart, so that a change of one does not look like a change of the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import compress
from types import MappingProxyType
from typing import overload

from trxds.resources.endpoint import Endpoint, Locality

_UNDIVIDED: Mapping[str, Endpoints] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Endpoints:
    """A sequence of endpoints; equal ones are no change.

    `note` says why there may be none, for the message of failed RPCs. `weights` are the endpoints' shares, where the
    policy goes by them. `parts` are those of children that do not have all of them, by the child's name: priorities and
    localities. `localities` are there for a whole cluster only.
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

    def part(self, name: str) -> Endpoints:
        """Those of the child with that name: its own, or all."""
        return self.parts.get(name, self)

    def only(self, kept: Collection[str]) -> Endpoints:
        """Those whose first address is among `kept`, with the weights they have; a part without any is none."""
        chosen = [endpoint.addresses[0] in kept for endpoint in self.all]
        parts = {name: part.only(kept) for name, part in self.parts.items()}
        return Endpoints(
            tuple(compress(self.all, chosen)),
            self.note,
            tuple(compress(self.weights, chosen)),
            {name: part for name, part in parts.items() if part.all},
        )


NO_ENDPOINTS = Endpoints()
