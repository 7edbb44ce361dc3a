"""Each READY endpoint in turn; all of them are connected, and connected again when they fall."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from trxds.ground.connectivity import Connectivity
from trxds.ground.status import unavailable

from .endpoints import EndpointState
from .pick import QUEUEING, Complete, PickArgs, Picker, PickResult, failing
from .policy import Decision, Inputs, Surroundings
from .state import aggregate


class RoundRobin:
    def __init__(self, surroundings: Surroundings) -> None:
        self._random = surroundings.random
        self._endpoints: dict[tuple[str, ...], EndpointState] = {}
        self._ready: tuple[str, ...] = ()
        self._turn: Iterator[int] = count()

    def decide(self, inputs: Inputs, now: float) -> Decision:
        config = inputs.config
        if not config.endpoints:
            status = unavailable(config.note or "empty address list")
            return Decision(Connectivity.TRANSIENT_FAILURE, failing(status))
        self._endpoints = {
            e.addresses: self._endpoints.get(e.addresses) or EndpointState(e.addresses) for e in config.endpoints
        }
        state = aggregate([endpoint.look(inputs.hosts, inputs.ejected) for endpoint in self._endpoints.values()])
        return Decision(
            state,
            self._picker(state),
            hosts=tuple(address for addresses in self._endpoints for address in addresses),
            connect=tuple(endpoint.wanted for endpoint in self._endpoints.values() if endpoint.ready is None),
        )

    def _picker(self, state: Connectivity) -> Picker:
        if state is Connectivity.READY:
            return self._rotation()
        if state is Connectivity.CONNECTING:
            return QUEUEING
        errors = [endpoint.error.message for endpoint in self._endpoints.values() if endpoint.error]
        return failing(unavailable(f"no host can be reached; the last error: {errors[-1] if errors else 'none'}"))

    def _rotation(self) -> Picker:
        hosts = [endpoint.ready for endpoint in self._endpoints.values() if endpoint.ready is not None]
        ready = tuple(host.address for host in hosts)
        if ready != self._ready:
            # A random start, or every client of a restarted fleet would begin at the same host.
            self._ready, self._turn = ready, count(self._random.randrange(len(ready)))
        return Rotation(tuple(Complete(host) for host in hosts), self._turn)


@dataclass(frozen=True, slots=True)
class Rotation:
    """`turn` is the policy's and outlives this picker, so a new picker goes on where the old one was."""

    hosts: tuple[Complete, ...]
    turn: Iterator[int]

    def pick(self, call: PickArgs) -> PickResult:
        return self.hosts[next(self.turn) % len(self.hosts)]
