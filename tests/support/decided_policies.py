"""Policies that have decided, as values."""

from random import Random

from support.policies import READY, FakeHost, endpoint_set, report

from trxds.lb.cluster_impl import ClusterImpl
from trxds.lb.configs import ClusterImplConfig, OverrideHostConfig, Target, WeightedTargetConfig
from trxds.lb.endpoint_set import NO_ENDPOINTS, Endpoints
from trxds.lb.override_host.policy import OverrideHost
from trxds.lb.pick import Complete, PickArgs, Trace
from trxds.lb.policy import ChannelControl, PolicyInputs
from trxds.lb.ring_hash.policy import RingHash
from trxds.lb.weighted_target import WeightedTarget
from trxds.resources.endpoint import Endpoint, HealthStatus
from trxds.resources.leaf_policy import PickFirst as PickFirstConfig
from trxds.resources.leaf_policy import RingHash as RingHashConfig
from trxds.resources.leaf_policy import RoundRobin as RoundRobinConfig

LEAF = RoundRobinConfig()
HEALTHY, DRAINING = HealthStatus.HEALTHY, HealthStatus.DRAINING
NAMES = ("a", "b", "c")
ABC = endpoint_set(NAMES)


class DecidedPolicy:
    """A policy that has just decided, and a record of all effects of its picks."""

    def __init__(self, make, config, children=(), hosts=(), now=0.0, ejected=(), endpoints=NO_ENDPOINTS, seed=1):
        self.done = []
        self.pool = {host.address: host for host in hosts}
        its = ChannelControl(self.notify_policy, self.acquire, self.release, self.pool.get, Random(seed))
        self.policy = make(its)
        self.inputs = PolicyInputs(config, dict(children), self.pool, frozenset(), frozenset(ejected), endpoints)
        self.now = now
        self.decision = self.policy.decide(self.inputs, now)
        self.saw = self.policy.describe(self.inputs, now)

    def notify_policy(self, event):
        self.done.append(("event", event))

    def acquire(self, address):
        self.done.append(("acquire", address))
        return self.pool.setdefault(address, FakeHost(address))

    def release(self, address):
        self.done.append(("let go", address))

    def pick(self, **args):
        return self.decision.picker.pick(PickArgs("/s/m", now=self.now, **args))

    def explain(self, **args):
        """Return the explained result and its last note, and check that the pick had no effect."""
        trace, before = Trace(), list(self.done)
        result = self.pick(trace=trace, **args)
        assert self.done == before
        return result, trace.notes[-1] if trace.notes else None


def summary(result):
    """Return a result in a form to compare: hosts by their address, without trackers."""
    return result.host.address if isinstance(result, Complete) else result


def ready(*names):
    return [FakeHost(name, READY) for name in names]


def cluster_impl(**args):
    children = {"hosts": report(READY)}
    return lambda seed: DecidedPolicy(ClusterImpl, ClusterImplConfig("a", "s", LEAF, **args), children, seed=seed)


def weighted(children, **weights):
    config = WeightedTargetConfig({name: Target(weight, LEAF) for name, weight in weights.items()})
    return lambda seed: DecidedPolicy(WeightedTarget, config, children, seed=seed)


def leaf(policy, config, hosts=(), endpoints=ABC, **args):
    return lambda seed=1: DecidedPolicy(policy, config, hosts=hosts, endpoints=endpoints, seed=seed, **args)


def sessions(*pool, endpoints=("a", "b"), statuses=(HEALTHY,)):
    config = OverrideHostConfig("cart", frozenset(statuses), 1, LEAF)
    its = Endpoints(tuple(Endpoint((each,), HEALTHY) for each in endpoints))
    children = {"everybody": report(READY)}
    return lambda seed=1: DecidedPolicy(OverrideHost, config, children, pool, endpoints=its, seed=seed)


def ring(header="", **states):
    def decided(seed):
        config, hosts = RingHashConfig(64, 64, header), [FakeHost(name, state) for name, state in states.items()]
        ringed = DecidedPolicy(RingHash, config, hosts=hosts, endpoints=ABC, seed=seed)
        for name in states:
            ringed.policy.decide(PolicyInputs(config, {}, ringed.pool, frozenset({name}), endpoints=ABC), 0.0)
        ringed.decision = ringed.policy.decide(ringed.inputs, 0.0)
        return ringed

    return decided


RR, PF = RoundRobinConfig(), PickFirstConfig()
