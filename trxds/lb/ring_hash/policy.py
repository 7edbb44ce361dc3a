"""ring_hash sends equal hashes to one endpoint, and moves few of them when endpoints change (A42, A61, A76).

An endpoint is connected when an RPC asks for it, so all others cost nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import TypeAlias

from trxds.core.connectivity import Connectivity
from trxds.resources.endpoint import Endpoint
from trxds.resources.leaf_policy import RingHash as RingHashConfig

from ..endpoint_list import EndpointState, Key, earliest_wake_up, key_of, no_endpoints_picker
from ..endpoint_set import Endpoints
from ..pick import Picker
from ..policy import ChannelControl, Decision, PolicyInputs
from ..policy_options import RING_SIZE_CAP
from .picker import HeaderHashPicker, RingPicker, describe_endpoints
from .ring import Ring, build_ring

IDLE = Connectivity.IDLE
CONNECTING = Connectivity.CONNECTING
READY = Connectivity.READY
FAILURE = Connectivity.TRANSIENT_FAILURE

_RingArgs: TypeAlias = tuple[tuple[str, ...], tuple[int, ...], int, int]


class RingHash:
    """The ring_hash policy; `size_cap` is the client's own limit on the size of a ring, in entries (A42)."""

    def __init__(self, channel_control: ChannelControl, size_cap: int = RING_SIZE_CAP) -> None:
        self._notify_policy = channel_control.notify_policy
        self._lookup = channel_control.lookup
        self._random = channel_control.random
        self._size_cap = size_cap
        self._config: RingHashConfig | None = None
        self._last_endpoints: Endpoints | None = None
        self._keys: tuple[Key, ...] = ()  # by position in the configuration, and so on the ring
        self._endpoints: Mapping[Key, Endpoint] = {}
        # Changed in place: pickers in use read this very dict.
        self._states: dict[Key, EndpointState] = {}  # the endpoints that are not IDLE
        self._ring_args: _RingArgs | None = None
        self._ring = Ring((), ())

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        if inputs.config is not self._config or inputs.endpoints is not self._last_endpoints:
            self._apply_update(inputs.config, inputs.endpoints)
        if not self._endpoints:
            return Decision(FAILURE, no_endpoints_picker(inputs.endpoints))
        if inputs.pick_events:
            # In the endpoints' order, because a set has another one in each process. Some may have left since the pick.
            for key in [key for key in self._endpoints if key in inputs.pick_events]:
                self._exit_idle(key)
        self._update_states(inputs, now)
        state = aggregate(Counter(each.state for each in self._states.values()), len(self._endpoints))
        if state in (CONNECTING, FAILURE):
            self._connect_next(inputs, now)
        return Decision(
            state,
            self._picker(inputs.config.header, may_fail=state is FAILURE),
            hosts=tuple(address for each in self._states.values() for address in each.wanted),
            connect=tuple(address for each in self._states.values() for address in each.connect),
            wake_at=earliest_wake_up(self._states.values(), inputs.hosts, now),
        )

    def exit_idle(self) -> None:
        """Connect one endpoint, because it is unknown which ones the next RPCs need (A117)."""
        if not self._states and (asleep := self._find_idle()) is not None:
            self._exit_idle(asleep)

    def describe(self, inputs: PolicyInputs, now: float) -> str:
        return describe_endpoints(self._keys, self._states)

    def _apply_update(self, config: RingHashConfig, endpoints: Endpoints) -> None:
        self._config, self._last_endpoints = config, endpoints
        self._keys = tuple(map(key_of, endpoints))
        self._endpoints = dict(zip(self._keys, endpoints, strict=True))
        for key, awake in tuple(self._states.items()):
            if key in self._endpoints:
                self._states[key] = awake.with_addresses(self._endpoints[key].addresses)
            else:
                del self._states[key]
        names = tuple([endpoint.hash_key or endpoint.addresses[0] for endpoint in endpoints])  # A76
        args = (names, endpoints.shares, config.min_size, config.max_size)
        # To build a ring takes milliseconds, so a change of health alone does not do it.
        if args != self._ring_args:
            self._ring_args, self._ring = args, build_ring(*args, self._size_cap)

    def _picker(self, header: str, *, may_fail: bool) -> Picker:
        states, notify_policy = self._states, self._notify_policy
        ring = RingPicker(
            self._ring, self._keys, self._endpoints, states, notify_policy, self._random, may_fail, header
        )
        if not header:
            return ring
        return HeaderHashPicker(ring, any(each.state is CONNECTING for each in self._states.values()))

    def _exit_idle(self, key: Key) -> None:
        if key not in self._states:
            self._states[key] = EndpointState(self._endpoints[key].addresses, lazy=True)
            self._states[key].exit_idle()

    def _find_idle(self) -> Key | None:
        """Return an IDLE endpoint, searched from a random place on: many clients must not ask the same one (A117)."""
        keys = self._keys
        start = self._random.randrange(len(keys)) if keys else 0
        return next((key for key in chain(keys[start:], keys[:start]) if key not in self._states), None)

    def _update_states(self, inputs: PolicyInputs, now: float) -> None:
        for key, awake in tuple(self._states.items()):
            if awake.update(inputs.hosts, now, inputs.ejected, self._lookup) is IDLE:
                del self._states[key]

    def _connect_next(self, inputs: PolicyInputs, now: float) -> None:
        """Connect the next endpoint: a priority that seems down gets no RPCs that would do so (A61)."""
        if any(each.state is CONNECTING for each in self._states.values()):
            return
        asleep = self._find_idle()
        if asleep is not None:
            self._exit_idle(asleep)
            # Updated here, because this decision reads the states already.
            self._states[asleep].update(inputs.hosts, now, inputs.ejected, self._lookup)


def aggregate(awake: Counter[Connectivity], endpoints: int) -> Connectivity:
    """Return the policy's state (A42); two failed endpoints make it fail, because it may take long until all have."""
    if awake[READY]:
        return READY
    if awake[FAILURE] >= 2:
        return FAILURE
    # With one failure the others may still serve, and `_connect_next` asks one of them.
    if awake[CONNECTING] or (awake[FAILURE] and endpoints > 1):
        return CONNECTING
    return IDLE if not awake[FAILURE] else FAILURE
