"""How much of a priority's traffic each endpoint is to get, where one policy has all localities before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trxds.resources.endpoint import Endpoint

_ONE = 1 << 31  # shares are fixed-point numbers with 31 bits after the point (A113)


def endpoint_weights(localities: Sequence[tuple[int, Sequence[Endpoint]]]) -> tuple[int, ...]:
    """For localities as (weight, endpoints): the locality's share times the endpoint's within it (A113)."""
    total = sum(weight for weight, _ in localities)
    return tuple(share for weight, endpoints in localities for share in _within(weight * _ONE // total, endpoints))


def _within(locality: int, endpoints: Sequence[Endpoint]) -> Iterable[int]:
    total = sum(endpoint.weight for endpoint in endpoints)
    # Rounded down, but never to nothing: an endpoint that is listed is wanted.
    return [(locality * (endpoint.weight * _ONE // total) >> 31) or 1 for endpoint in endpoints]
