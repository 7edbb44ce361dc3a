"""One connection, to an address that is connected already or else the first that answers (A61, A62, A113).

It takes all RPCs. When the connection is lost the policy is IDLE: the next RPC has it connect again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from random import Random

from trxds.ground.connectivity import Connectivity
from trxds.resources.endpoint import Endpoint
from trxds.resources.leaf_policy import PickFirst as PickFirstConfig

from .endpoint_set import Endpoints
from .endpoints import EndpointState, last_error, unreachable
from .explain import Said, to_fail, to_host, to_wait
from .petiole import without_endpoints
from .pick import QUEUE, QUEUEING, Always, Complete, PickArgs, Picker, PickResult, failing
from .policy import Decision, Inputs, Surroundings

_CONNECT = "connect"  # the one wish that its picks may have


class PickFirst:
    def __init__(self, surroundings: Surroundings) -> None:
        self._random = surroundings.random
        self._wish = surroundings.wish
        self._find = surroundings.find
        self._config: PickFirstConfig | None = None
        self._endpoints: Endpoints | None = None
        self._state: EndpointState | None = None  # all addresses of all endpoints are one to it

    def decide(self, inputs: Inputs, now: float) -> Decision:
        if inputs.config is not self._config or inputs.endpoints is not self._endpoints:
            self._take_over(inputs.config, inputs.endpoints)
        if self._state is None:
            return Decision(Connectivity.TRANSIENT_FAILURE, failing(without_endpoints(inputs.endpoints)))
        if inputs.wishes:
            self._state.wake()
        # Ejections are for policies with more than one host to choose from (A61).
        self._state.look(inputs.hosts, now, find=self._find)
        return Decision(
            self._state.state,
            self._picker(self._state),
            hosts=self._state.wanted,
            connect=self._state.connect,
            wake_at=self._state.wake_at(inputs.hosts, now),
        )

    def wake(self) -> None:
        if self._state is not None:
            self._state.wake()

    def explain(self, inputs: Inputs, call: PickArgs) -> Said:
        endpoint = self._state
        if endpoint is None:
            return to_fail("no addresses", without_endpoints(inputs.endpoints), "there is none to choose")
        saw = f"{len(endpoint.addresses)} addresses, {endpoint.state.name}"
        if endpoint.ready is not None:
            return to_host(saw, endpoint.ready, "it is the one that is connected")
        match endpoint.state:
            case Connectivity.IDLE:
                return to_wait(saw, f"{endpoint.addresses[0]} to connect", "an RPC has it connect, the first one first")
            case Connectivity.TRANSIENT_FAILURE:
                return to_fail(saw, last_error((endpoint,)), "all have failed")
        return to_wait(saw, "the first address that connects", "none has yet")

    def _take_over(self, config: PickFirstConfig, endpoints: Endpoints) -> None:
        self._config, self._endpoints = config, endpoints
        in_order = _shuffled(endpoints, self._random) if config.shuffle else endpoints.all
        addresses = tuple(dict.fromkeys(address for endpoint in in_order for address in endpoint.addresses))
        if not addresses:
            self._state = None
        elif self._state is not None:
            self._state = self._state.having(addresses)
        else:
            self._state = EndpointState(addresses, lazy=True)
            self._state.wake()

    def _picker(self, state: EndpointState) -> Picker:
        if state.ready is not None:
            return Always(Complete(state.ready))
        match state.state:
            case Connectivity.IDLE:
                return Waking(self._wish)
            case Connectivity.TRANSIENT_FAILURE:
                return unreachable((state,))
        return QUEUEING


@dataclass(frozen=True, slots=True)
class Waking:
    """The RPC waits, and has the policy connect."""

    wish: Callable[[Hashable], None]

    def pick(self, call: PickArgs) -> PickResult:
        self.wish(_CONNECT)
        return QUEUE


def _shuffled(endpoints: Endpoints, random: Random) -> list[Endpoint]:
    """A draw without replacement, by weight (A113): as if each came after a time, the heavier the sooner."""
    times = [random.expovariate(weight) for weight in endpoints.weights]
    return [endpoints[at] for at in sorted(range(len(times)), key=times.__getitem__)]
