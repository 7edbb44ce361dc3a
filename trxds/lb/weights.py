"""How much of a priority's traffic each endpoint is to get, where one policy has all localities before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from trxds.resources.endpoint import Endpoint, Locality

_ONE = 1 << 31  # shares are fixed-point numbers with 31 bits after the point (A113)


def endpoint_weights(localities: Sequence[tuple[Locality, Sequence[Endpoint]]]) -> tuple[int, ...]:
    """For localities with those of their endpoints that count: the locality's share times the endpoint's within it."""
    total = sum(locality.weight for locality, _ in localities)
    return tuple(chain.from_iterable(_within(locality.weight * _ONE // total, its) for locality, its in localities))


def _within(locality: int, endpoints: Sequence[Endpoint]) -> Iterable[int]:
    total = sum(endpoint.weight for endpoint in endpoints)
    # Rounded down, but never to nothing: an endpoint that is listed is wanted.
    return [(locality * (endpoint.weight * _ONE // total) >> 31) or 1 for endpoint in endpoints]
