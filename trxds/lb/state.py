"""How the states of many make the state of one: READY, else CONNECTING, else IDLE, else failure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trxds.core.connectivity import Connectivity

from .policy import CONNECTING, PolicyState

_ORDER = (Connectivity.READY, Connectivity.CONNECTING, Connectivity.IDLE)


def aggregate(states: Iterable[Connectivity]) -> Connectivity:
    """The best of them, by gRPC's order."""
    present = list(states)  # which is searched by identity; the hash of an Enum is a call
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
        """The state each name counts with; names not given are forgotten."""
        states = {name: self._state(name, reports.get(name, CONNECTING).state) for name in names}
        self._failed &= states.keys()
        return states

    def _state(self, name: str, state: Connectivity) -> Connectivity:
        if state is Connectivity.TRANSIENT_FAILURE:
            self._failed.add(name)
        elif state is Connectivity.READY:
            self._failed.discard(name)
        elif name in self._failed:
            return Connectivity.TRANSIENT_FAILURE
        return state
