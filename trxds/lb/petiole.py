"""What round_robin and its like have in common: every endpoint connected, and connected again when it falls.

Between the stem and the leaves of a plant is the petiole; A61 calls the policies so that choose
among endpoints and leave the addresses of each one to pick_first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from operator import attrgetter
from typing import TypeAlias, TypeVar

from trxds.ground.connectivity import Connectivity
from trxds.ground.status import unavailable
from trxds.resources.endpoint import Endpoint

from .endpoint_set import Endpoints
from .endpoints import EndpointState, soonest, unreachable
from .explain import counted
from .pick import QUEUE, Always, Picker, failing
from .policy import Decision, Inputs
from .ports import Host
from .state import aggregate

T = TypeVar("T")

_CONNECTING = Always(QUEUE, "none is READY, and some may come to be", "an endpoint to connect")

_WANTED, _CONNECT = attrgetter("wanted"), attrgetter("connect")

Key: TypeAlias = str | frozenset[str]  # an endpoint is known by its addresses, in whatever order (A61)


class ConnectedEndpoints:
    """All endpoints of a leaf policy. `choose` makes a picker of those that are READY, one at least.

    With `find`, the surroundings', an endpoint uses the address of its own that is connected already (A61).
    """

    def __init__(
        self,
        choose: Callable[[Mapping[Key, EndpointState]], Picker],
        find: Callable[[str], Host | None] | None = None,
    ) -> None:
        self._choose = choose
        self._find = find
        self._configured: tuple[Endpoint, ...] = ()
        self._states: dict[Key, EndpointState] = {}

    def decide(self, inputs: Inputs, now: float) -> Decision:
        if inputs.endpoints.all is not self._configured:
            self._take_over(inputs.endpoints.all)
        states = self._states.values()
        if not states:
            return Decision(Connectivity.TRANSIENT_FAILURE, without_endpoints(inputs.endpoints))
        state = aggregate([endpoint.look(inputs.hosts, now, inputs.ejected, self._find) for endpoint in states])
        return Decision(
            state,
            self._picker(state),
            hosts=tuple(chain.from_iterable(map(_WANTED, states))),
            connect=tuple(chain.from_iterable(map(_CONNECT, states))),
            wake_at=soonest([endpoint for endpoint in states if endpoint.ready is None], inputs.hosts, now),
        )

    def describe(self) -> str:
        return counted(endpoint.state for endpoint in self._states.values())

    def _take_over(self, endpoints: tuple[Endpoint, ...]) -> None:
        old, self._states, self._configured = self._states, {}, endpoints
        for endpoint in endpoints:
            key = key_of(endpoint)
            known = old.get(key)
            self._states[key] = known.having(endpoint.addresses) if known else EndpointState(endpoint.addresses)

    def _picker(self, state: Connectivity) -> Picker:
        if state is Connectivity.READY:
            return self._choose({key: endpoint for key, endpoint in self._states.items() if endpoint.ready})
        if state is Connectivity.CONNECTING:
            return _CONNECTING
        return unreachable(self._states.values())


def without_endpoints(endpoints: Endpoints) -> Picker:
    """What a leaf that has none tells its RPCs."""
    return failing(unavailable(endpoints.note or "empty address list"), "there is none to choose")


def by_address(things: Mapping[Key, T], endpoints: Iterable[Endpoint]) -> dict[str, T]:
    """What there is for each endpoint, by each of its addresses."""
    return {address: things[key_of(endpoint)] for endpoint in endpoints for address in endpoint.addresses}


def key_of(endpoint: Endpoint) -> Key:
    return endpoint.addresses[0] if len(endpoint.addresses) == 1 else frozenset(endpoint.addresses)
