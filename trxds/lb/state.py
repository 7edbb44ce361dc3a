"""A parent's connectivity state is aggregated from its children's: READY, else CONNECTING, else IDLE, else failure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trxds.core.connectivity import Connectivity

from .policy import CONNECTING, PolicyState

_ORDER = (Connectivity.READY, Connectivity.CONNECTING, Connectivity.IDLE)


def aggregate(states: Iterable[Connectivity]) -> Connectivity:
    """Return the best of the states, in gRPC's order; TRANSIENT_FAILURE if there is none."""
    # A list is searched by identity. A set would be slower: the hash of an Enum is a Python function.
    present = list(states)
    for state in _ORDER:
        if state in present:
            return state
    return Connectivity.TRANSIENT_FAILURE


class StickyFailures:
    """A child that failed counts as TRANSIENT_FAILURE until it is READY again.

    Without this a parent would flap to CONNECTING at every retry of a host that is down, and
    fail-fast RPCs would hang on it.
    """

    __slots__ = ("_failed",)

    def __init__(self) -> None:
        self._failed: set[str] = set()

    def states(self, names: Iterable[str], reports: Mapping[str, PolicyState]) -> dict[str, Connectivity]:
        """Return the state with which each name counts, and forget all other names."""
        states: dict[str, Connectivity] = {}
        # A loop without a call for each child: a cluster manager has a thousand, and each report of one comes here.
        for name in names:
            state = reports.get(name, CONNECTING).state
            if state is Connectivity.TRANSIENT_FAILURE:
                self._failed.add(name)
            elif state is Connectivity.READY:
                self._failed.discard(name)
            # Also CONNECTING and IDLE: the child is between two attempts.
            elif name in self._failed:
                state = Connectivity.TRANSIENT_FAILURE
            states[name] = state
        self._failed &= states.keys()
        return states
