"""pick_first uses one connection: to an address that is connected already, or the first that answers (A61, A62, A113).

That connection gets all RPCs. When it is lost the policy is IDLE, and the next RPC makes it connect again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from random import Random

from msgspec import Struct

from trxds.core.connectivity import Connectivity
from trxds.core.plural import plural
from trxds.resources.endpoint import Endpoint
from trxds.resources.leaf_policy import PickFirst as PickFirstConfig

from .endpoint_list import EndpointState, no_endpoints_picker, unreachable_picker
from .endpoint_set import Endpoints
from .pick import QUEUE, Complete, Explainable, FixedPicker, PickArgs, Picker, PickResult
from .policy import ChannelControl, Decision, PolicyInputs

_CONNECT = "connect"  # the only event of its picks
_CONNECTING = FixedPicker(QUEUE, "none has yet", "the first address that connects")


class PickFirst:
    """The pick_first policy; it treats all addresses of all endpoints as those of one."""

    def __init__(self, channel_control: ChannelControl) -> None:
        self._control = channel_control
        self._config: PickFirstConfig | None = None
        self._endpoints: Endpoints | None = None
        self._state: EndpointState | None = None  # None while there are no addresses

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        if inputs.config is not self._config or inputs.endpoints is not self._endpoints:
            self._apply_update(inputs.config, inputs.endpoints)
        if self._state is None:
            return Decision(Connectivity.TRANSIENT_FAILURE, no_endpoints_picker(inputs.endpoints))
        # Only the IDLE state's picker raises events.
        if inputs.pick_events:
            self._state.exit_idle()
        # Ejections are for policies with more than one host to choose from (A61).
        self._state.update(inputs.hosts, now, lookup=self._control.lookup)
        return Decision(
            self._state.state,
            self._picker(self._state),
            hosts=self._state.wanted,
            connect=self._state.connect,
            wake_at=self._state.wake_at(inputs.hosts, now),
        )

    def exit_idle(self) -> None:
        if self._state is not None:
            self._state.exit_idle()

    def describe(self, inputs: PolicyInputs, now: float) -> str:
        if self._state is None:
            return "no addresses"
        return f"{plural(len(self._state.addresses), 'address', 'addresses')}, {self._state.state.name}"

    def _apply_update(self, config: PickFirstConfig, endpoints: Endpoints) -> None:
        self._config, self._endpoints = config, endpoints
        in_order = _shuffle(endpoints, self._control.random) if config.shuffle else endpoints.all
        # A61: duplicates are removed, the first one counts.
        addresses = tuple(dict.fromkeys(address for endpoint in in_order for address in endpoint.addresses))
        if not addresses:
            self._state = None
        elif self._state is not None:
            self._state = self._state.with_addresses(addresses)
        else:
            self._state = EndpointState(addresses, lazy=True)
            # A new policy connects at once; only a lost connection makes it IDLE.
            self._state.exit_idle()

    def _picker(self, state: EndpointState) -> Picker:
        if state.ready is not None:
            return FixedPicker(Complete(state.ready), "it is the connected one")
        match state.state:
            case Connectivity.IDLE:
                return ExitIdlePicker(self._control.notify_policy, state.addresses[0])
            case Connectivity.TRANSIENT_FAILURE:
                return unreachable_picker((state,))
        return _CONNECTING


class ExitIdlePicker(Explainable, Struct, frozen=True):
    """A picker of the IDLE state: the RPC waits, and makes the policy connect."""

    notify_policy: Callable[[Hashable], None]
    first: str  # the address that is connected first

    def pick(self, call: PickArgs) -> PickResult:
        if call.trace is None:
            self.notify_policy(_CONNECT)
        else:
            call.trace.note("an RPC makes it connect, the first address first", waits_for=f"{self.first} to connect")
        return QUEUE


def _shuffle(endpoints: Endpoints, random: Random) -> list[Endpoint]:
    """Draw all endpoints by weight without replacement (A113): each arrives after a random time, a heavy one sooner."""
    times = [random.expovariate(weight) for weight in endpoints.shares]
    return [endpoints[at] for at in sorted(range(len(times)), key=times.__getitem__)]
