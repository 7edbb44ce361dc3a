"""xds_override_host by values: the policy, the pool around it, and a child that takes turns over what is READY."""

from itertools import count
from random import Random

from support.policies import FAILURE, IDLE, READY, FakeHost

from trxds.lb.configs import OverrideHostConfig
from trxds.lb.endpoint_set import Endpoints
from trxds.lb.override_host.policy import OverrideHost
from trxds.lb.pick import QUEUE, Complete, Override, PickArgs, transient_failure_picker
from trxds.lb.policy import ChannelControl, PolicyInputs, PolicyState
from trxds.resources.endpoint import Endpoint, HealthStatus
from trxds.resources.leaf_policy import RoundRobin

UNKNOWN, HEALTHY, DRAINING = HealthStatus.UNKNOWN, HealthStatus.HEALTHY, HealthStatus.DRAINING
ALL = frozenset({UNKNOWN, HEALTHY, DRAINING})
QUEUED = "queued"


class Turns:
    """The child's picker: its READY hosts, in turn."""

    def __init__(self, hosts):
        self.ready = [host for host in hosts if host.state is READY]
        self.turn = count()

    def pick(self, call):
        return Complete(self.ready[next(self.turn) % len(self.ready)])


class Story:
    """One policy, the pool around it, and a child that leases every endpoint that does not drain."""

    def __init__(self, *endpoints, **settings):
        self.pool = {}  # address -> host, while anybody leases it
        self.held = set()
        self.pick_events = set()
        self.now = 0.0
        self.policy = OverrideHost(
            ChannelControl(self.pick_events.add, self._hold, self._release, self.pool.get, Random(1))
        )
        self.update(*endpoints, **settings)

    # -- what happens

    def update(self, *endpoints, statuses=ALL, idle_timeout=3600.0):
        """The control plane says so; the child's new hosts are READY at once."""
        serving = [one for one in endpoints if one.health is not DRAINING]
        self.leased = {address for one in serving for address in one.addresses}
        for address in self.leased:
            self.pool.setdefault(address, FakeHost(address, READY))
        self.config = OverrideHostConfig("cart", statuses, idle_timeout, RoundRobin())
        self.endpoints = Endpoints(endpoints)
        self.step()
        self._drop_unleased()

    def becomes(self, address, state):
        self.pool[address].state = state
        self.step()

    def step(self):
        pick_events = frozenset(self.pick_events)
        self.pick_events.clear()
        child = Turns([self.pool[address] for address in sorted(self.leased)])
        report = PolicyState(READY, child) if child.ready else PolicyState(FAILURE, transient_failure_picker(None))
        inputs = PolicyInputs(self.config, {"everybody": report}, {}, pick_events, endpoints=self.endpoints)
        self.decision = self.policy.decide(inputs, self.now)
        for address in self.decision.connect:
            if self.pool[address].state is IDLE:
                self.pool[address].request_connection()

    def _hold(self, address):
        self.held.add(address)
        return self.pool.setdefault(address, FakeHost(address, IDLE))

    def _release(self, address):
        self.held.remove(address)
        self._drop_unleased()

    def _drop_unleased(self):
        for address in self.pool.keys() - self.leased - self.held:
            del self.pool[address]

    @property
    def to_connect(self):
        """The hosts that picks wish for."""
        return {wish for wish in self.pick_events if isinstance(wish, str)}

    # -- RPCs

    def result(self, override):
        return self.decision.picker.pick(PickArgs("/s/m", override=override, now=self.now))

    def pick(self, *cookie):
        """With a session filter and those addresses in the cookie: the host, and the list for the next cookie."""
        override = Override(cookie)
        result = self.result(override)
        return QUEUED if result is QUEUE else (result.host.address, override.actual_address_list)

    def hosts(self, *cookie, times=6):
        return {self.pick(*cookie)[0] for _ in range(times)}

    def strangers(self, times=6):
        """Hosts of RPCs without the filter."""
        return {self.decision.picker.pick(PickArgs("/s/m", now=self.now)).host.address for _ in range(times)}


def endpoint(*addresses, health=HEALTHY):
    return Endpoint(addresses, health)


def three(**health):
    """Endpoints a, b and c; three(b=DRAINING) says otherwise."""
    return [endpoint(name, health=health.get(name, HEALTHY)) for name in "abc"]
