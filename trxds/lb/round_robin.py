"""Each READY endpoint in turn; all of them are connected, and connected again when they fall."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from .endpoints import EndpointState
from .petiole import ConnectedEndpoints
from .pick import Complete, PickArgs, Picker, PickResult
from .policy import Decision, Inputs, Surroundings


class RoundRobin:
    def __init__(self, surroundings: Surroundings) -> None:
        self._random = surroundings.random
        self._endpoints = ConnectedEndpoints(self._rotation)
        self._ready: tuple[str, ...] = ()
        self._turn: Iterator[int] = count()

    def decide(self, inputs: Inputs, now: float) -> Decision:
        return self._endpoints.decide(inputs, now)

    def _rotation(self, endpoints: Sequence[EndpointState]) -> Picker:
        hosts = [endpoint.ready for endpoint in endpoints if endpoint.ready is not None]
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
