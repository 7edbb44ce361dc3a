"""The share of a cluster's sessions that each host would have if all hosts that take new ones had evenly many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from trxds.resources.endpoint import Endpoint, HealthStatus


def fair_shares(
    priorities: Iterable[Iterable[tuple[int, Sequence[Endpoint]]]], is_ready: Callable[[Endpoint], bool]
) -> list[tuple[Endpoint, float]]:
    """Return each host that takes new sessions, and its fair share; their sum is 1, or there are none.

    `priorities` have weight and endpoints of their localities, the most preferred priority first. Its first one with a
    READY host counts, without DRAINING hosts (A56). Localities have their weights, and the hosts of a locality equal
    shares, as with round robin (A28).
    """
    for localities in priorities:
        taking = [(weight, [each for each in group if _takes_new(each, is_ready)]) for weight, group in localities]
        serving = [(weight, group) for weight, group in taking if group]
        if serving:
            total = sum(weight for weight, _ in serving)
            return [(each, weight / total / len(group)) for weight, group in serving for each in group]
    return []


def _takes_new(endpoint: Endpoint, is_ready: Callable[[Endpoint], bool]) -> bool:
    return endpoint.health is not HealthStatus.DRAINING and is_ready(endpoint)
