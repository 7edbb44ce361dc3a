"""Equal hashes go to one endpoint, and few of them elsewhere when endpoints come and go (A42, A61, A76).

Nobody is connected before an RPC asks for it, so an endpoint that none asked for costs nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from trxds.config.policies import RingHashConfig
from trxds.ground.connectivity import Connectivity
from trxds.resources.endpoint import Endpoint

from .endpoints import EndpointState, last_error, soonest, unreachable
from .explain import Said, counted, to_fail, to_host, to_wait
from .petiole import Key, key_of, without_endpoints
from .pick import QUEUE, Complete, PickArgs, PickResult, failing
from .policy import Decision, Inputs, Surroundings
from .ring import Ring, build_ring

IDLE = Connectivity.IDLE
CONNECTING = Connectivity.CONNECTING
READY = Connectivity.READY
FAILURE = Connectivity.TRANSIENT_FAILURE

_RingArgs: TypeAlias = tuple[tuple[str, ...], tuple[int, ...], int, int]


class RingHash:
    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._config: RingHashConfig | None = None
        self._keys: tuple[Key, ...] = ()  # by position in the configuration, and so on the ring
        self._endpoints: Mapping[Key, Endpoint] = {}
        self._awake: dict[Key, EndpointState] = {}  # those that an RPC or we have asked for; the rest is IDLE
        self._ring_args: _RingArgs | None = None
        self._ring = Ring((), ())

    def decide(self, inputs: Inputs, now: float) -> Decision:
        if inputs.config is not self._config:
            self._take_over(inputs.config)
        if not self._endpoints:
            return Decision(FAILURE, failing(without_endpoints(inputs.config)))
        for key in self._endpoints.keys() & inputs.wishes:
            self._wake(key)
        self._look(inputs, now)
        state = aggregate(Counter(each.state for each in self._awake.values()), len(self._endpoints))
        if state in (CONNECTING, FAILURE):
            self._keep_trying(inputs, now)
        return Decision(
            state,
            RingPicker(self._ring, self._keys, self._awake, self._surroundings.wish, self._surroundings.random),
            hosts=tuple(address for each in self._awake.values() for address in each.wanted),
            connect=tuple(address for each in self._awake.values() for address in each.connect),
            wake_at=soonest(self._awake.values(), inputs.hosts, now),
        )

    def explain(self, inputs: Inputs, call: PickArgs) -> Said:
        states = [self._awake[key].state if key in self._awake else IDLE for key in self._keys]
        if not states:
            return to_fail("no endpoints", without_endpoints(inputs.config), "there is none to choose")
        drawn = call.hash is None
        hashed = self._surroundings.random.getrandbits(64) if call.hash is None else call.hash
        saw = f"{counted(states)}; hash {hashed:#018x}{', drawn because no hash policy yields one' if drawn else ''}"
        passed: set[Key] = set()
        for key in (self._keys[owner] for owner in self._ring.around(hashed)):
            endpoint = self._awake.get(key)
            if endpoint is not None and endpoint.state is FAILURE:
                passed.add(key)
                continue
            why = f"its entry is the next on the ring{f', after {len(passed)} endpoints that failed' if passed else ''}"
            if endpoint is not None and endpoint.ready is not None:
                return to_host(saw, endpoint.ready, why)
            address = self._endpoints[key].addresses[0]
            return to_wait(saw, f"{address} to connect", why, address)
        owner = self._awake[self._keys[self._ring.owner(hashed)]]
        return to_fail(saw, last_error((owner,)), "all have failed; the error is the hash's own endpoint's")

    def _take_over(self, config: RingHashConfig) -> None:
        self._config = config
        self._keys = tuple(map(key_of, config.endpoints))
        self._endpoints = dict(zip(self._keys, config.endpoints, strict=True))
        for key, awake in tuple(self._awake.items()):
            if key in self._endpoints:
                self._awake[key] = awake.having(self._endpoints[key].addresses)
            else:
                del self._awake[key]
        names = tuple([endpoint.hash_key or endpoint.addresses[0] for endpoint in config.endpoints])  # A76
        args = (names, config.weights, config.min_size, config.max_size)
        if args != self._ring_args:  # it takes milliseconds: not for a change of health, say
            self._ring_args, self._ring = args, build_ring(*args)

    def _wake(self, key: Key) -> None:
        if key not in self._awake:
            self._awake[key] = EndpointState(self._endpoints[key].addresses, lazy=True)
            self._awake[key].wake()

    def _look(self, inputs: Inputs, now: float) -> None:
        for key, awake in tuple(self._awake.items()):
            if awake.look(inputs.hosts, now, inputs.ejected) is IDLE:
                del self._awake[key]

    def _keep_trying(self, inputs: Inputs, now: float) -> None:
        """A priority that seems down gets no RPCs that would wake further endpoints, so we do it (A61)."""
        if any(each.state is CONNECTING for each in self._awake.values()):
            return
        asleep = next((key for key in self._endpoints if key not in self._awake), None)
        if asleep is not None:
            self._wake(asleep)
            self._awake[asleep].look(inputs.hosts, now, inputs.ejected)


def aggregate(awake: Counter[Connectivity], endpoints: int) -> Connectivity:
    """The state of the whole (A42): two that failed count as failure, for it may take long until all have."""
    if awake[READY]:
        return READY
    if awake[FAILURE] >= 2:
        return FAILURE
    if awake[CONNECTING] or (awake[FAILURE] and endpoints > 1):
        return CONNECTING
    return IDLE if not awake[FAILURE] else FAILURE


@dataclass(frozen=True, slots=True)
class RingPicker:
    """`awake` is the policy's own table: what is READY is read at the pick, and a ring outlives many states."""

    ring: Ring
    keys: Sequence[Key]  # by position on the ring
    awake: Mapping[Key, EndpointState]
    wish: Callable[[Hashable], None]
    random: Random

    def pick(self, call: PickArgs) -> PickResult:
        if call.hash is None:
            call.hash = self.random.getrandbits(64)
        for owner in self.ring.around(call.hash):
            endpoint = self.awake.get(self.keys[owner])
            if endpoint is None:
                self.wish(self.keys[owner])
                return QUEUE
            if endpoint.ready is not None:
                return Complete(endpoint.ready)
            if endpoint.state is not FAILURE:
                return QUEUE
        return unreachable((self.awake[self.keys[self.ring.owner(call.hash)]],)).pick(call)
