"""A leaf policy keeps one connection to each of its endpoints, to any address of it (A61).

Endpoints are objects in the leaf's memory and not nodes, so a thousand of them cost no task. pick_first treats all its
addresses as those of one endpoint.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from operator import attrgetter
from typing import TypeAlias, TypeVar

from trxds.core.connectivity import Connectivity
from trxds.core.happy_eyeballs import ATTEMPT_DELAY, interleave_families
from trxds.core.status import OK, Status, unavailable
from trxds.resources.endpoint import Endpoint

from .endpoint_set import Endpoints
from .interfaces import SubchannelInterface
from .pick import QUEUE, Complete, FixedPicker, Picker, transient_failure_picker
from .policy import EMPTY_SET, Decision, PolicyInputs
from .state import aggregate

T = TypeVar("T")
Key: TypeAlias = str | frozenset[str]
"""The identity of an endpoint: the set of its addresses (A61), or its only one."""

READY = Connectivity.READY
_CONNECTING = FixedPicker(QUEUE, "none is READY, and some may come to be", "an endpoint to connect")
_WANTED, _CONNECT = attrgetter("wanted"), attrgetter("connect")


class EndpointState:
    """The connectivity of one endpoint: Happy Eyeballs over its addresses, then each of them at its own backoff (A61).

    An address that is READY already, because a session or another policy of the channel connected it, comes first. The
    endpoint is in TRANSIENT_FAILURE once each address has failed, until one is READY (A62). A `lazy` endpoint is IDLE
    until `exit_idle`, and again when its connection is lost; others connect at once.

    After `update`, `state` is the endpoint's state, `ready` the host to use or None, `complete` the result of a pick of
    it, and `error` the last error. `wanted` are the addresses to lease, `connect` those to ask for a connection, and at
    `wake_at(...)`, in seconds on Trio's clock, `update` has to be called again.
    """

    complete: Complete

    __slots__ = (
        "_failed",
        "_host",
        "_is_lazy",
        "_kept",
        "_next_at",
        "_num_tried",
        "addresses",
        "complete",
        "connect",
        "error",
        "ready",
        "state",
        "wanted",
    )

    def __init__(self, addresses: tuple[str, ...], *, lazy: bool = False) -> None:
        self.addresses = interleave_families(addresses)
        self.ready: SubchannelInterface | None = None
        self.error: Status | None = None
        self.connect: tuple[str, ...] = ()
        self.wanted: tuple[str, ...] = ()
        self._is_lazy = lazy
        self._host: SubchannelInterface | None = None  # the connected one, also while it is ejected
        self._reset()

    def _reset(self) -> None:
        self.state = Connectivity.IDLE if self._is_lazy else Connectivity.CONNECTING
        self._num_tried = 0  # the number of addresses that have been tried
        self._next_at = -math.inf  # when the next one is tried too
        self._failed: frozenset[str] = EMPTY_SET  # shared, for there may be ten thousand endpoints
        self._kept: tuple[str, ...] = ()  # leased before an update, and not tried again since

    def exit_idle(self) -> None:
        """Connect at the next `update`, if the endpoint is IDLE."""
        if self.state is Connectivity.IDLE:
            self.state = Connectivity.CONNECTING

    def with_addresses(self, addresses: tuple[str, ...]) -> EndpointState:
        """Return the endpoint with new addresses; it keeps a failure, and a connection to an address that stays."""
        if interleave_families(addresses) == self.addresses:
            return self
        other = EndpointState(addresses, lazy=self._is_lazy)
        # Its connected address was removed: it connects to another one at once, as pick_first does on an update (A61).
        if self._host is not None and self._host.address not in addresses:
            other.exit_idle()
        else:
            other._host, other.ready, other.error, other.state = self._host, self.ready, self.error, self.state
            # Until their turn comes they stay leased, because a subchannel that ends forgets its backoff.
            other._kept = tuple([address for address in self.wanted if address in addresses])
            other.wanted = other._addresses_to_lease()
            if self.ready is not None:
                other.complete = self.complete
        return other

    # -- update

    def update(
        self,
        hosts: Mapping[str, SubchannelInterface],
        now: float,
        ejected: frozenset[str] = EMPTY_SET,
        lookup: Callable[[str], SubchannelInterface | None] | None = None,
    ) -> Connectivity:
        """Read the hosts' states at `now` and return the endpoint's; `lookup` also finds hosts not leased here.

        An endpoint whose host is ejected (A50), or says that it takes no calls (A17), keeps its connection and counts
        as failed.
        """
        host = self.ready
        # The common case, first: an update reads all of ten thousand endpoints.
        if (
            host is not None
            and host.state is READY
            and host.health is OK
            and hosts.get(host.address) is host
            and host.address not in ejected
        ):
            return READY
        # The next common case: the only address is being connected, so there is nothing to decide until that ends.
        if self._host is None and self._num_tried == 1 == len(self.addresses):
            host = hosts.get(self.addresses[0])
            if host is not None and host.state is Connectivity.CONNECTING:
                self.connect = ()
                return self.state
        if self._host is not None and not is_ready(hosts.get(self._host.address)):
            # The next connection may go to any address, so all of them get their turn again.
            # A105: a host that connects, or has failed to, while its last connection is lost was never IDLE: then a
            # lazy endpoint connects again without a call.
            lost = hosts.get(self._host.address)
            self._host = self.ready = None
            self._reset()
            if lost is not None and lost.state is not Connectivity.IDLE:
                self.exit_idle()
        if self._host is None and self.state is not Connectivity.IDLE:
            for address in self.addresses[: self._num_tried]:
                self._record_state(hosts.get(address))
            # A61: the attempts of the list before go on, and the first address to be READY is used, its turn or not.
            for address in self._kept:
                if is_ready(hosts.get(address)):
                    self._record_state(hosts[address])
            # An only address is leased in any case, and then its state is in `hosts`.
            already = self._find_connected(now, lookup) if len(self.addresses) > 1 else None
            if already is not None and already not in hosts:
                # This decision leases it, and the node then has the policy decide once more with it.
                self.wanted, self.connect = (*self._addresses_to_lease(), already), ()
                return self.state
            self._happy_eyeballs(hosts, now, already)
        else:
            self.wanted = self._addresses_to_lease()
        if self._host is not None:
            self._use_or_hold_back(self._host, ejected)
        return self.state

    def _addresses_to_lease(self) -> tuple[str, ...]:
        if self._host is not None:
            return (self._host.address,)
        tried = self.addresses[: self._num_tried]
        return (*tried, *(address for address in self._kept if address not in tried)) if self._kept else tried

    def _use_or_hold_back(self, host: SubchannelInterface, ejected: frozenset[str]) -> None:
        if host.address in ejected:
            self.ready, self.state = None, Connectivity.TRANSIENT_FAILURE
            self.error = unavailable(f"{host.address}: ejected by outlier detection")
        elif host.health is None:
            # A17: CONNECTING until the first answer. A62: an endpoint that has failed stays failed until it is READY.
            self.ready = None
            if self.state is Connectivity.READY:
                self.state = Connectivity.CONNECTING
        elif host.health is not OK:
            self.ready, self.state, self.error = None, Connectivity.TRANSIENT_FAILURE, host.health
        else:
            self.ready, self.state, self.complete = host, Connectivity.READY, Complete(host)

    def _find_connected(self, now: float, lookup: Callable[[str], SubchannelInterface | None] | None) -> str | None:
        """Return the first address that another user of the channel has connected, if an address is due (A61)."""
        # Only when an address is due: a session's later connection must not replace an attempt under way.
        if lookup is None or self._host is not None or not self._is_next_due(now):
            return None
        return next((address for address in self.addresses if is_ready(lookup(address))), None)

    def _happy_eyeballs(self, hosts: Mapping[str, SubchannelInterface], now: float, already: str | None) -> None:
        if already is not None:
            self._record_state(hosts[already])
        while self._host is None and self._is_next_due(now):
            self._record_state(hosts.get(self.addresses[self._num_tried]))
            self._num_tried, self._next_at = self._num_tried + 1, now + ATTEMPT_DELAY
        all_failed = len(self._failed) == len(self.addresses)
        # A62: the state stays TRANSIENT_FAILURE through all further attempts, until an address is READY.
        if all_failed:
            self.state = Connectivity.TRANSIENT_FAILURE
        self.wanted = self._addresses_to_lease()
        tried = self.addresses[: self._num_tried] if self._host is None else ()
        self.connect = tuple([a for a in tried if self._should_connect(a, hosts.get(a), all_failed)])

    def _record_state(self, host: SubchannelInterface | None) -> None:
        if host is None or self._host is not None:
            return
        if host.state is Connectivity.READY:
            self._host = host
        elif host.state is Connectivity.TRANSIENT_FAILURE:
            self._failed |= {host.address}
            self.error = host.error

    def _is_next_due(self, now: float) -> bool:
        """Return whether the address before has failed, or has been tried alone for `ATTEMPT_DELAY` (RFC 8305)."""
        if self._num_tried == len(self.addresses):
            return False
        return now >= self._next_at or self.addresses[self._num_tried - 1] in self._failed

    def _should_connect(self, address: str, host: SubchannelInterface | None, all_failed: bool) -> bool:
        # A failed host is in backoff, and IDLE after it; only then it is asked again (A62).
        if host is not None and host.state is not Connectivity.IDLE:
            return False
        # A second attempt waits until all have had their first one.
        return address not in self._failed or all_failed

    # -- after an update

    @property
    def host(self) -> SubchannelInterface:
        """The host to use, of an endpoint that is READY."""
        assert self.ready is not None
        return self.ready

    def wake_at(self, hosts: Mapping[str, SubchannelInterface], now: float) -> float:
        """Return when to try the next address, in seconds on Trio's clock; `inf` if there is none to try."""
        if self._host is not None or not 0 < self._num_tried < len(self.addresses):
            return math.inf
        # A host that was not leased before may turn out to be in backoff: then the next one is due now.
        return self._next_at if self.addresses[self._num_tried - 1] in hosts else now


def is_ready(host: SubchannelInterface | None) -> bool:
    """Return whether the host is leased and READY."""
    return host is not None and host.state is Connectivity.READY


def unreachable_picker(endpoints: Iterable[EndpointState]) -> Picker:
    """Return a picker that fails RPCs with the last error of endpoints that have all failed."""
    return transient_failure_picker(last_error(endpoints), "all have failed")


def last_error(endpoints: Iterable[EndpointState]) -> Status:
    errors = [endpoint.error.message for endpoint in endpoints if endpoint.error]
    return unavailable(f"no host can be reached; the last error: {errors[-1] if errors else 'none'}")


def earliest_wake_up(endpoints: Iterable[EndpointState], hosts: Mapping[str, SubchannelInterface], now: float) -> float:
    """Return the time at which the first of the endpoints has to be updated again, in seconds on Trio's clock."""
    # Only of those that may have another address to try: for ten thousand READY ones the list is empty.
    may_wake = [each for each in endpoints if each.ready is None and len(each.addresses) > 1]
    return min([each.wake_at(hosts, now) for each in may_wake], default=math.inf)


class EndpointList:
    """The endpoints of a leaf policy: all are connected, and again when they are lost (C-core's `EndpointList`).

    `choose` makes a picker from the READY endpoints, of which there is at least one. With `lookup`, which is
    `ChannelControl.lookup`, an endpoint prefers an address that another user of the channel has connected (A61).
    """

    def __init__(
        self,
        choose: Callable[[Mapping[Key, EndpointState]], Picker],
        lookup: Callable[[str], SubchannelInterface | None] | None = None,
    ) -> None:
        self._make_picker = choose
        self._lookup = lookup
        self._last_endpoints: tuple[Endpoint, ...] = ()
        self._states: dict[Key, EndpointState] = {}
        # The endpoints that have neither connected nor failed yet; None once all have, and one is READY.
        self._first_pass: set[Key] | None = set()

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        """Return the decision: the endpoints' hosts, and a picker of those that are READY."""
        if inputs.endpoints.all is not self._last_endpoints:
            self._update_endpoints(inputs.endpoints.all)
        states = self._states.values()
        if not states:
            return Decision(Connectivity.TRANSIENT_FAILURE, no_endpoints_picker(inputs.endpoints))
        state = aggregate([endpoint.update(inputs.hosts, now, inputs.ejected, self._lookup) for endpoint in states])
        return Decision(
            state,
            self._picker_for(state),
            hosts=tuple(chain.from_iterable(map(_WANTED, states))),
            connect=tuple(chain.from_iterable(map(_CONNECT, states))),
            wake_at=earliest_wake_up(states, inputs.hosts, now),
            in_first_pass=self._first_pass is not None and self._update_first_pass(self._first_pass, state),
        )

    def describe(self) -> str:
        """Return how many endpoints are in which state, for explanations."""
        return count_states(endpoint.state for endpoint in self._states.values())

    def _update_endpoints(self, endpoints: tuple[Endpoint, ...]) -> None:
        old, self._states, self._last_endpoints = self._states, {}, endpoints
        for endpoint in endpoints:
            key = key_of(endpoint)
            # A61: the same set of addresses is the same endpoint, whatever their order.
            known = old.get(key)
            if known is None:
                known = EndpointState(endpoint.addresses)
            elif not isinstance(key, str):  # else it has one address, the same as before
                known = known.with_addresses(endpoint.addresses)
            self._states[key] = known
        if self._first_pass is not None:
            self._first_pass |= self._states.keys() - old.keys()

    def _update_first_pass(self, pending: set[Key], state: Connectivity) -> bool:
        """Return whether an endpoint still connects for the first time, of those before the end of the first pass."""
        states = self._states
        pending = {key for key in pending if key in states and states[key].state is Connectivity.CONNECTING}
        # If all have failed it goes on: no session has a host yet, and the next endpoints may be the first READY ones.
        self._first_pass = pending if pending or state is not READY else None
        return bool(pending)

    def _picker_for(self, state: Connectivity) -> Picker:
        if state is Connectivity.READY:
            return self._make_picker({key: endpoint for key, endpoint in self._states.items() if endpoint.ready})
        if state is Connectivity.CONNECTING:
            return _CONNECTING
        return unreachable_picker(self._states.values())


def count_states(states: Iterable[Connectivity]) -> str:
    """Return the numbers of endpoints by state, as `2 of 3 endpoints READY, 1 CONNECTING`."""
    counts = Counter(states)
    total = sum(counts.values())
    ready = counts.pop(Connectivity.READY, 0)
    others = [f"{count} {state.name}" for state, count in counts.items()]
    return ", ".join([f"{ready} of {total} endpoints READY", *others])


def no_endpoints_picker(endpoints: Endpoints) -> Picker:
    """Return a picker that fails RPCs because the leaf policy has no endpoints."""
    return transient_failure_picker(unavailable(endpoints.note or "empty address list"), "there is none to choose")


def index_by_address(things: Mapping[Key, T], endpoints: Iterable[Endpoint]) -> dict[str, T]:
    """Return the endpoints' values by each of their addresses."""
    return {address: things[key_of(endpoint)] for endpoint in endpoints for address in endpoint.addresses}


def key_of(endpoint: Endpoint) -> Key:
    return endpoint.addresses[0] if len(endpoint.addresses) == 1 else frozenset(endpoint.addresses)
