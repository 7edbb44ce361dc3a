"""An endpoint's weight is its share of a priority's traffic, for policies that have all localities at once (A113)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from trxds.resources.endpoint import Endpoint, Locality

# Shares are fixed-point numbers with 31 bits after the point, in whole steps as A113 has them.
_FIXED_POINT_ONE = 1 << 31


def endpoint_weights(localities: Sequence[tuple[Locality, Sequence[Endpoint]]]) -> tuple[int, ...]:
    """Return for each endpoint the share of its locality times its own share in the locality."""
    total = sum(locality.weight for locality, _ in localities)
    shares = ((locality.weight * _FIXED_POINT_ONE // total, endpoints) for locality, endpoints in localities)
    return tuple(chain.from_iterable(_endpoint_shares(share, endpoints) for share, endpoints in shares))


def _endpoint_shares(locality: int, endpoints: Sequence[Endpoint]) -> Iterable[int]:
    total = sum(endpoint.weight for endpoint in endpoints)
    # Rounded down, but never to 0: a listed endpoint has to get some traffic (A113).
    return [(locality * (endpoint.weight * _FIXED_POINT_ONE // total) >> 31) or 1 for endpoint in endpoints]
