"""Tests of override_host by values use this policy with its pool and a round robin child."""

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


class RoundRobinPicker:
    """The child's picker: it picks its READY hosts in turn."""

    def __init__(self, hosts):
        self.ready = [host for host in hosts if host.state is READY]
        self.turn = count()

    def pick(self, call):
        return Complete(self.ready[next(self.turn) % len(self.ready)])


class Story:
    """A policy with its pool, and a child that leases every endpoint that is not DRAINING."""

    def __init__(self, *endpoints, **settings):
        self.pool = {}  # address -> host, while it has a lease
        self.acquired = set()
        self.pick_events = set()
        self.ejected = frozenset()
        self.now = 0.0
        self.policy = OverrideHost(
            ChannelControl(self.pick_events.add, self._acquire, self._release, self.pool.get, Random(1))
        )
        self.update(*endpoints, **settings)

    # -- what happens

    def update(self, *endpoints, statuses=ALL, idle_timeout=3600.0):
        """Apply an update of the control plane; the child's new hosts are READY at once."""
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
        child = RoundRobinPicker([self.pool[address] for address in sorted(self.leased)])
        report = PolicyState(READY, child) if child.ready else PolicyState(FAILURE, transient_failure_picker(None))
        inputs = PolicyInputs(self.config, {"everybody": report}, {}, pick_events, self.ejected, self.endpoints)
        self.decision = self.policy.decide(inputs, self.now)
        for address in self.decision.connect:
            if self.pool[address].state is IDLE:
                self.pool[address].request_connection()

    def _acquire(self, address):
        assert address not in self.acquired, f"{address} is leased already"
        self.acquired.add(address)
        return self.pool.setdefault(address, FakeHost(address, IDLE))

    def _release(self, address):
        self.acquired.remove(address)
        self._drop_unleased()

    def _drop_unleased(self):
        for address in self.pool.keys() - self.leased - self.acquired:
            del self.pool[address]

    @property
    def to_connect(self):
        """The hosts that picks have asked the policy to connect."""
        return {event for event in self.pick_events if isinstance(event, str)}

    # -- RPCs

    def result(self, override):
        return self.decision.picker.pick(PickArgs("/s/m", override=override, now=self.now))

    def pick(self, *cookie):
        """Pick with these addresses in the cookie; return the host and the address list for the next cookie."""
        override = Override(cookie)
        result = self.result(override)
        return QUEUED if result is QUEUE else (result.host.address, override.actual_address_list)

    def hosts(self, *cookie, times=6):
        return {self.pick(*cookie)[0] for _ in range(times)}

    def hosts_without_filter(self, times=6):
        """Return the hosts of RPCs without the session filter."""
        return {self.decision.picker.pick(PickArgs("/s/m", now=self.now)).host.address for _ in range(times)}


def endpoint(*addresses, health=HEALTHY):
    return Endpoint(addresses, health)


def three(**health):
    """Return endpoints a, b and c, HEALTHY unless given: three(b=DRAINING)."""
    return [endpoint(name, health=health.get(name, HEALTHY)) for name in "abc"]
