"""Tests of policies use these hosts, endpoints and reports, which are values."""

from random import Random

from trxds.core.connectivity import Connectivity
from trxds.core.status import OK, unavailable
from trxds.lb.endpoint_set import Endpoints
from trxds.lb.pick import Complete, FixedPicker, PickArgs
from trxds.lb.policy import ChannelControl, PolicyState
from trxds.resources.endpoint import Endpoint

IDLE = Connectivity.IDLE
CONNECTING = Connectivity.CONNECTING
READY = Connectivity.READY
FAILURE = Connectivity.TRANSIENT_FAILURE


class FakeHost:
    """A subchannel whose state the test sets."""

    def __init__(self, address, state=IDLE):
        self.address = address
        self.state = state
        self.health = OK
        self.security = ""
        self.error = unavailable(f"{address}: refused") if state is FAILURE else None

    def describe_connections(self):
        return ""

    def request_connection(self):
        self.state = CONNECTING

    def __repr__(self):
        return f"<FakeHost {self.address} {self.state.name}>"


def channel_control(seed=1):
    """Return a `ChannelControl` for policies whose picks call nothing, in a channel without other hosts."""
    return ChannelControl(
        notify_policy=_unexpected, acquire=_unexpected, release=_unexpected, lookup=_nobody, random=Random(seed)
    )


def _nobody(address):
    return None


def _unexpected(*args):
    raise AssertionError(f"not expected of this policy: {args}")


def hosts(**states):
    """Return the hosts of a leaf's inputs: hosts(a=READY, b=IDLE)."""
    return {name: FakeHost(name, state) for name, state in states.items()}


def endpoints(names):
    return tuple(Endpoint((name,)) for name in names)


def endpoint_set(names, note="", weights=None):
    """Return `Endpoints` with these names, as in a policy's inputs."""
    return Endpoints(endpoints(names), note, weights or (1,) * len(names))


def report(state, name="host"):
    """Return a child's report whose picker completes with a host of that name."""
    return PolicyState(state, FixedPicker(Complete(FakeHost(name, state))), 1)


def picked(picker, times=1, **args):
    """Return the addresses of this many picks."""
    return [picker.pick(PickArgs("/s/m", **args)).host.address for _ in range(times)]
