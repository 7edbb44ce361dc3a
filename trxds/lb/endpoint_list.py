"""Endpoints as a leaf policy uses them: one connection to any address of each (A61), and all of them kept connected.

Plain objects in the leaf's memory, not nodes: a thousand endpoints cost no task. To pick_first all addresses that it
has are one endpoint's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from operator import attrgetter
from typing import TypeAlias, TypeVar

from trxds.core.connectivity import Connectivity
from trxds.core.happy_eyeballs import ATTEMPT_DELAY, interleave_families
from trxds.core.status import Status, unavailable
from trxds.resources.endpoint import Endpoint

from .endpoint_set import Endpoints
from .interfaces import SubchannelInterface
from .pick import QUEUE, Complete, FixedPicker, Picker, transient_failure_picker
from .pick_explanation import counted
from .policy import Decision, PolicyInputs
from .state import aggregate

T = TypeVar("T")
Key: TypeAlias = str | frozenset[str]  # an endpoint is known by its addresses, in whatever order (A61)

READY = Connectivity.READY
_CONNECTING = FixedPicker(QUEUE, "none is READY, and some may come to be", "an endpoint to connect")
_WANTED, _CONNECT = attrgetter("wanted"), attrgetter("connect")


class EndpointState:
    """Happy Eyeballs over the addresses, then every one of them at its own backoff (A61).

    Before that comes an address that is READY already, for somebody else in the channel (a session, say) connected it.
    Failed once each address has failed, and until one is READY (A62). A `lazy` endpoint is IDLE
    until it is woken, and again when its connection is lost; others connect at once.

    After `look`: `ready` is the host to use and `complete` what a pick of it comes to; `wanted` are the
    addresses to lease, `connect` those to ask for a connection, and at `wake_at` it wants to be looked at again.
    """

    complete: Complete

    __slots__ = (
        "_failed",
        "_host",
        "_lazy",
        "_next_at",
        "_reached",
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
        self._lazy = lazy
        self._host: SubchannelInterface | None = None  # the connected one, also while it is ejected
        self._begin_again()

    def _begin_again(self) -> None:
        self.state = Connectivity.IDLE if self._lazy else Connectivity.CONNECTING
        self._reached = 0  # so many addresses have had their turn
        self._next_at = -math.inf  # when the next one has its
        self._failed: frozenset[str] = frozenset()  # shared while it is empty: there may be ten thousand of us

    def exit_idle(self) -> None:
        """Connect, if it is IDLE."""
        if self.state is Connectivity.IDLE:
            self.state = Connectivity.CONNECTING

    def with_addresses(self, addresses: tuple[str, ...]) -> EndpointState:
        """The same endpoint with that list: a connection to an address that stays is kept, and so is a failure."""
        if interleave_families(addresses) == self.addresses:
            return self
        other = EndpointState(addresses, lazy=self._lazy)
        if self._host is not None and self._host.address not in addresses:
            other.exit_idle()
        else:
            other._host, other.ready, other.error, other.state = self._host, self.ready, self.error, self.state
            other.wanted = other._now_wanted()
            if self.ready is not None:
                other.complete = self.complete
        return other

    # -- looking

    def update(
        self,
        hosts: Mapping[str, SubchannelInterface],
        now: float,
        ejected: frozenset[str] = frozenset(),
        lookup: Callable[[str], SubchannelInterface | None] | None = None,
    ) -> Connectivity:
        """Take in where the hosts stand now; `lookup` knows also those that are not leased here.

        An endpoint whose host is ejected keeps its connection and counts as failed (A50).
        """
        host = self.ready
        if host is not None and host.state is READY and hosts.get(host.address) is host and host.address not in ejected:
            return READY  # as it was, and as most of ten thousand are
        if self._host is not None and not is_ready(hosts.get(self._host.address)):
            self._host = self.ready = None
            self._begin_again()
        if self._host is None and self.state is not Connectivity.IDLE:
            for address in self.addresses[: self._reached]:
                self._note(hosts.get(address))
            already = self._ready_already(now, lookup)
            if already is not None and already not in hosts:
                # It is leased by the decision that is made of this, and that is made once more with it.
                self.wanted, self.connect = (*self.addresses[: self._reached], already), ()
                return self.state
            self._happy_eyeballs(hosts, now, already)
        if self._host is not None:
            self._judge(self._host, ejected)
        self.wanted = self._now_wanted()
        return self.state

    def _now_wanted(self) -> tuple[str, ...]:
        return self.addresses[: self._reached] if self._host is None else (self._host.address,)

    def _judge(self, host: SubchannelInterface, ejected: frozenset[str]) -> None:
        if host.address in ejected:
            self.ready, self.state = None, Connectivity.TRANSIENT_FAILURE
            self.error = unavailable(f"{host.address}: ejected by outlier detection")
        else:
            self.ready, self.state, self.complete = host, Connectivity.READY, Complete(host)

    def _ready_already(self, now: float, lookup: Callable[[str], SubchannelInterface | None] | None) -> str | None:
        """When another address is to be connected: the first that somebody has connected (A61)."""
        if len(self.addresses) == 1:
            return None  # it is leased anyway, and then it is seen
        if lookup is None or self._host is not None or not self._is_next_due(now):
            return None
        return next((address for address in self.addresses if is_ready(lookup(address))), None)

    def _happy_eyeballs(self, hosts: Mapping[str, SubchannelInterface], now: float, already: str | None) -> None:
        if already is not None:
            self._note(hosts[already])
        while self._host is None and self._is_next_due(now):
            self._note(hosts.get(self.addresses[self._reached]))
            self._reached, self._next_at = self._reached + 1, now + ATTEMPT_DELAY
        all_failed = len(self._failed) == len(self.addresses)
        if all_failed:
            self.state = Connectivity.TRANSIENT_FAILURE
        self.connect = tuple([a for a in self._now_wanted() if self._is_to_connect(a, hosts.get(a), all_failed)])

    def _note(self, host: SubchannelInterface | None) -> None:
        if host is None or self._host is not None:
            return
        if host.state is Connectivity.READY:
            self._host = host
        elif host.state is Connectivity.TRANSIENT_FAILURE:
            self._failed |= {host.address}
            self.error = host.error

    def _is_next_due(self, now: float) -> bool:
        """The one before has failed, or has been tried alone for long enough."""
        if self._reached == len(self.addresses):
            return False
        return now >= self._next_at or self.addresses[self._reached - 1] in self._failed

    def _is_to_connect(self, address: str, host: SubchannelInterface | None, all_failed: bool) -> bool:
        if host is not None and host.state is not Connectivity.IDLE:
            return False
        # A second attempt waits until all have had their first one.
        return address not in self._failed or all_failed

    # -- what follows from it

    @property
    def host(self) -> SubchannelInterface:
        """The host to use, of an endpoint that is READY."""
        assert self.ready is not None
        return self.ready

    def wake_at(self, hosts: Mapping[str, SubchannelInterface], now: float) -> float:
        if self._host is not None or not 0 < self._reached < len(self.addresses):
            return math.inf
        # A host that was not leased before may turn out to be in backoff: then the next one's turn is now.
        return self._next_at if self.addresses[self._reached - 1] in hosts else now


def is_ready(host: SubchannelInterface | None) -> bool:
    """Return whether it is there and READY."""
    return host is not None and host.state is Connectivity.READY


def unreachable(endpoints: Iterable[EndpointState]) -> Picker:
    """What says so when all of them have failed."""
    return transient_failure_picker(last_error(endpoints), "all have failed")


def last_error(endpoints: Iterable[EndpointState]) -> Status:
    errors = [endpoint.error.message for endpoint in endpoints if endpoint.error]
    return unavailable(f"no host can be reached; the last error: {errors[-1] if errors else 'none'}")


def earliest_wake_up(endpoints: Iterable[EndpointState], hosts: Mapping[str, SubchannelInterface], now: float) -> float:
    """When the first of them wants to be looked at again."""
    at = math.inf
    for endpoint in endpoints:
        at = min(at, endpoint.wake_at(hosts, now))
    return at


class EndpointList:
    """All endpoints of a policy that A61 calls a petiole: connected, and connected again when they fall.

    `choose` makes a picker of those that are READY, one at least.

    With `lookup`, the channel_control's, an endpoint uses the address of its own that is connected already (A61).
    """

    def __init__(
        self,
        choose: Callable[[Mapping[Key, EndpointState]], Picker],
        lookup: Callable[[str], SubchannelInterface | None] | None = None,
    ) -> None:
        self._choose = choose
        self._lookup = lookup
        self._configured: tuple[Endpoint, ...] = ()
        self._states: dict[Key, EndpointState] = {}

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        if inputs.endpoints.all is not self._configured:
            self._take_over(inputs.endpoints.all)
        states = self._states.values()
        if not states:
            return Decision(Connectivity.TRANSIENT_FAILURE, without_endpoints(inputs.endpoints))
        state = aggregate([endpoint.update(inputs.hosts, now, inputs.ejected, self._lookup) for endpoint in states])
        return Decision(
            state,
            self._picker(state),
            hosts=tuple(chain.from_iterable(map(_WANTED, states))),
            connect=tuple(chain.from_iterable(map(_CONNECT, states))),
            wake_at=earliest_wake_up([endpoint for endpoint in states if endpoint.ready is None], inputs.hosts, now),
        )

    def describe(self) -> str:
        return counted(endpoint.state for endpoint in self._states.values())

    def _take_over(self, endpoints: tuple[Endpoint, ...]) -> None:
        old, self._states, self._configured = self._states, {}, endpoints
        for endpoint in endpoints:
            key = key_of(endpoint)
            known = old.get(key)
            self._states[key] = known.with_addresses(endpoint.addresses) if known else EndpointState(endpoint.addresses)

    def _picker(self, state: Connectivity) -> Picker:
        if state is Connectivity.READY:
            return self._choose({key: endpoint for key, endpoint in self._states.items() if endpoint.ready})
        if state is Connectivity.CONNECTING:
            return _CONNECTING
        return unreachable(self._states.values())


def without_endpoints(endpoints: Endpoints) -> Picker:
    """What a leaf that has none tells its RPCs."""
    return transient_failure_picker(unavailable(endpoints.note or "empty address list"), "there is none to choose")


def by_address(things: Mapping[Key, T], endpoints: Iterable[Endpoint]) -> dict[str, T]:
    """What there is for each endpoint, by each of its addresses."""
    return {address: things[key_of(endpoint)] for endpoint in endpoints for address in endpoint.addresses}


def key_of(endpoint: Endpoint) -> Key:
    return endpoint.addresses[0] if len(endpoint.addresses) == 1 else frozenset(endpoint.addresses)
