"""Equal hashes go to one endpoint, and few of them elsewhere when endpoints come and go (A42, A61, A76).

Nobody is connected before an RPC asks for it, so an endpoint that none asked for costs nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from trxds.ground.connectivity import Connectivity
from trxds.resources.endpoint import Endpoint
from trxds.resources.leaf_policy import RingHash as RingHashConfig

from ..endpoint_set import Endpoints
from ..endpoints import EndpointState, last_error, soonest
from ..explain import Said, counted, to_fail, to_host, to_wait
from ..petiole import Key, key_of, without_endpoints
from ..pick import PickArgs, Picker, failing
from ..policy import Decision, Inputs, Surroundings
from .hash_header import ByHeader, header_hash
from .picker import RingPicker
from .ring import SIZE_CAP, Ring, build_ring

IDLE = Connectivity.IDLE
CONNECTING = Connectivity.CONNECTING
READY = Connectivity.READY
FAILURE = Connectivity.TRANSIENT_FAILURE

_RingArgs: TypeAlias = tuple[tuple[str, ...], tuple[int, ...], int, int]


class RingHash:
    """`size_cap` is the client's own limit of a ring's size, whatever is configured (A42)."""

    def __init__(self, surroundings: Surroundings, size_cap: int = SIZE_CAP) -> None:
        self._surroundings = surroundings
        self._size_cap = size_cap
        self._config: RingHashConfig | None = None
        self._configured: Endpoints | None = None
        self._keys: tuple[Key, ...] = ()  # by position in the configuration, and so on the ring
        self._endpoints: Mapping[Key, Endpoint] = {}
        self._awake: dict[Key, EndpointState] = {}  # those that an RPC or we have asked for; the rest is IDLE
        self._ring_args: _RingArgs | None = None
        self._ring = Ring((), ())

    def decide(self, inputs: Inputs, now: float) -> Decision:
        if inputs.config is not self._config or inputs.endpoints is not self._configured:
            self._take_over(inputs.config, inputs.endpoints)
        if not self._endpoints:
            return Decision(FAILURE, failing(without_endpoints(inputs.endpoints)))
        for key in self._endpoints.keys() & inputs.wishes:
            self._wake(key)
        self._look(inputs, now)
        state = aggregate(Counter(each.state for each in self._awake.values()), len(self._endpoints))
        if state in (CONNECTING, FAILURE):
            self._keep_trying(inputs, now)
        return Decision(
            state,
            self._picker(inputs.config.header),
            hosts=tuple(address for each in self._awake.values() for address in each.wanted),
            connect=tuple(address for each in self._awake.values() for address in each.connect),
            wake_at=soonest(self._awake.values(), inputs.hosts, now),
        )

    def wake(self) -> None:
        """One endpoint is enough to serve; which one the next RPCs want nobody knows."""
        if self._keys and not self._awake:
            self._wake(self._keys[0])

    def explain(self, inputs: Inputs, call: PickArgs) -> Said:
        states = [self._awake[key].state if key in self._awake else IDLE for key in self._keys]
        if not states:
            return to_fail("no endpoints", without_endpoints(inputs.endpoints), "there is none to choose")
        hashed, source = self._hash(inputs.config.header, call)
        saw = f"{counted(states)}; hash {hashed:#018x}{source}"
        if inputs.config.header and header_hash(call.metadata, inputs.config.header) is None:
            ready = next(
                (its.ready for key in self._around(hashed) if (its := self._awake.get(key)) and its.ready), None
            )
            if ready is not None:
                return to_host(saw, ready, "the next on the ring that is READY; without the header anyone will do")
        passed: set[Key] = set()
        for key in self._around(hashed):
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

    def _around(self, hashed: int) -> Iterator[Key]:
        return map(self._keys.__getitem__, self._ring.around(hashed))

    def _hash(self, header: str, call: PickArgs) -> tuple[int, str]:
        """As the picker has it, and where it is from."""
        found = header_hash(call.metadata, header) if header else call.hash
        if found is not None:
            return found, f" of header {header}" if header else ""
        reason = f"the RPC has no header {header}" if header else "no hash policy yields one"
        return self._surroundings.random.getrandbits(64), f", drawn because {reason}"

    def _take_over(self, config: RingHashConfig, endpoints: Endpoints) -> None:
        self._config, self._configured = config, endpoints
        self._keys = tuple(map(key_of, endpoints))
        self._endpoints = dict(zip(self._keys, endpoints, strict=True))
        for key, awake in tuple(self._awake.items()):
            if key in self._endpoints:
                self._awake[key] = awake.having(self._endpoints[key].addresses)
            else:
                del self._awake[key]
        names = tuple([endpoint.hash_key or endpoint.addresses[0] for endpoint in endpoints])  # A76
        args = (names, endpoints.weights, config.min_size, config.max_size)
        if args != self._ring_args:  # it takes milliseconds: not for a change of health, say
            self._ring_args, self._ring = args, build_ring(*args, self._size_cap)

    def _picker(self, header: str) -> Picker:
        ring = RingPicker(self._ring, self._keys, self._awake, self._surroundings.wish, self._surroundings.random)
        if not header:
            return ring
        return ByHeader(ring, header, any(each.state is CONNECTING for each in self._awake.values()))

    def _wake(self, key: Key) -> None:
        if key not in self._awake:
            self._awake[key] = EndpointState(self._endpoints[key].addresses, lazy=True)
            self._awake[key].wake()

    def _look(self, inputs: Inputs, now: float) -> None:
        for key, awake in tuple(self._awake.items()):
            if awake.look(inputs.hosts, now, inputs.ejected, self._surroundings.find) is IDLE:
                del self._awake[key]

    def _keep_trying(self, inputs: Inputs, now: float) -> None:
        """A priority that seems down gets no RPCs that would wake further endpoints, so we do it (A61)."""
        if any(each.state is CONNECTING for each in self._awake.values()):
            return
        asleep = next((key for key in self._endpoints if key not in self._awake), None)
        if asleep is not None:
            self._wake(asleep)
            self._awake[asleep].look(inputs.hosts, now, inputs.ejected, self._surroundings.find)


def aggregate(awake: Counter[Connectivity], endpoints: int) -> Connectivity:
    """The state of the whole (A42): two that failed count as failure, for it may take long until all have."""
    if awake[READY]:
        return READY
    if awake[FAILURE] >= 2:
        return FAILURE
    if awake[CONNECTING] or (awake[FAILURE] and endpoints > 1):
        return CONNECTING
    return IDLE if not awake[FAILURE] else FAILURE
