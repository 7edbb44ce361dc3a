"""An explained pick changes nothing and gives its reason, and the next pick goes where it said; tested by values."""

from random import Random

import pytest
from msgspec import structs
from support.policies import CONNECTING, FAILURE, IDLE, READY, FakeHost, channel_control, endpoint_set, report

from trxds.core.status import unavailable
from trxds.lb.built_in_policies import BUILT_IN
from trxds.lb.cds import AggregateErrorPicker, Cds, UnroutedPicker
from trxds.lb.circuit_breakers import CallCounter
from trxds.lb.cluster_impl import ClusterImpl, ClusterImplPicker, LoadReportingPicker
from trxds.lb.cluster_manager import ClusterManager, ClusterManagerPicker
from trxds.lb.configs import (
    CdsConfig,
    ClusterImplConfig,
    ClusterManagerConfig,
    OutlierDetectionConfig,
    OverrideHostConfig,
    PriorityConfig,
    Target,
    WeightedTargetConfig,
)
from trxds.lb.endpoint_set import NO_ENDPOINTS, Endpoints
from trxds.lb.least_request import LeastRequest
from trxds.lb.outlier_detection.policy import OutlierDetection, OutlierDetectionPicker
from trxds.lb.override_host.policy import OverrideHost
from trxds.lb.pick import QUEUE, Complete, Drop, Explainable, Fail, Override, PickArgs, Trace, TraceNote
from trxds.lb.pick_explanation import Describes
from trxds.lb.pick_first import PickFirst
from trxds.lb.policy import ChannelControl, PolicyInputs
from trxds.lb.priority import Priority
from trxds.lb.random_subsetting import RandomSubsetting
from trxds.lb.ring_hash.policy import RingHash
from trxds.lb.round_robin import RoundRobin
from trxds.lb.weighted_round_robin.policy import WeightedRoundRobin
from trxds.lb.weighted_target import WeightedTarget, WeightedTargetPicker
from trxds.resolver.snapshot import AggregateConfig, ClusterConfig, ClusterEntry, ClusterError
from trxds.resources.cluster import Cluster
from trxds.resources.discovery import Eds
from trxds.resources.endpoint import ClusterLoadAssignment, Endpoint, HealthStatus
from trxds.resources.endpoint import DropOverload as DropShare
from trxds.resources.lb_policy import RandomSubsetting as RandomSubsettingConfig
from trxds.resources.leaf_policy import ClientSideWeightedRoundRobin
from trxds.resources.leaf_policy import LeastRequest as LeastRequestConfig
from trxds.resources.leaf_policy import PickFirst as PickFirstConfig
from trxds.resources.leaf_policy import RingHash as RingHashConfig
from trxds.resources.leaf_policy import RoundRobin as RoundRobinConfig
from trxds.resources.slow_start import SlowStart

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


def idle_pick_first(seed):
    """Return the policy after its connection was lost."""
    its = leaf(PickFirst, PF, ready("a"))(seed)
    its.pool["a"].state = IDLE
    its.decision = its.policy.decide(its.inputs, 1.0)
    return its


RR, PF = RoundRobinConfig(), PickFirstConfig()
SLOWLY = SlowStart(100.0, min_weight=0.1)
TWO = {"a": report(READY, "a"), "b": report(READY, "b")}
SITUATIONS = {
    "cluster manager": (
        lambda seed: DecidedPolicy(ClusterManager, ClusterManagerConfig(("a",)), {"a": report(READY)}),
        {"cluster": "a"},
    ),
    "unknown cluster": (
        lambda seed: DecidedPolicy(ClusterManager, ClusterManagerConfig(("a",))),
        {"cluster": "b"},
    ),
    "drops": (cluster_impl(drops=(DropShare("lb", 500_000),)), {}),
    "circuit breaker": (cluster_impl(max_requests=0), {}),
    "weighted target": (weighted(TWO, a=1, b=3), {}),
    "weighted target, waiting": (weighted({}, a=1), {}),
    "round_robin": (leaf(RoundRobin, RR, ready(*NAMES)), {}),
    "round_robin, connecting": (leaf(RoundRobin, RR), {}),
    "round_robin, failed": (leaf(RoundRobin, RR, [FakeHost(name, FAILURE) for name in NAMES]), {}),
    "least_request": (leaf(LeastRequest, LeastRequestConfig(2), ready(*NAMES)), {}),
    "round_robin in slow start": (leaf(RoundRobin, RoundRobinConfig(SLOWLY), ready(*NAMES)), {}),
    "least_request in slow start": (leaf(LeastRequest, LeastRequestConfig(2, SLOWLY), ready(*NAMES)), {}),
    "weighted_round_robin": (leaf(WeightedRoundRobin, ClientSideWeightedRoundRobin(), ready(*NAMES)), {}),
    "pick_first": (leaf(PickFirst, PF, ready("a")), {}),
    "pick_first, idle": (idle_pick_first, {}),
    "pick_first without addresses": (leaf(PickFirst, PF, endpoints=endpoint_set("", "none")), {}),
    "ring_hash": (ring(a=READY, b=FAILURE, c=CONNECTING), {"hash": 1 << 62}),
    "ring_hash, another": (ring(a=FAILURE, b=READY, c=FAILURE), {"hash": 7}),
    "ring_hash without a hash": (ring(a=READY, b=READY, c=READY), {}),
    "ring_hash, idle": (ring(), {"hash": 7}),
    "ring_hash, failed": (ring(**dict.fromkeys(NAMES, FAILURE)), {"hash": 7}),
    "ring_hash without the header": (ring("x-user", a=READY, b=READY, c=READY), {}),
    "ring_hash without the header, idle": (ring("x-user"), {}),
    "a session on its host": (sessions(*ready("a")), {"override": ("a",)}),
    "a session's second host": (sessions(FakeHost("a", FAILURE), *ready("b")), {"override": ("a", "b")}),
    "a session's idle host": (sessions(FakeHost("a", IDLE)), {"override": ("a", "b")}),
    "a session's host to be connected": (sessions(), {"override": ("a",)}),
    "a session without a host": (sessions(), {"override": ("x",)}),
    "no session yet": (sessions(), {"override": ()}),
    "no session filter": (sessions(), {}),
}


def args_of(args):
    return {**args, "override": Override(args["override"])} if "override" in args else args


@pytest.mark.parametrize(("decided", "args"), SITUATIONS.values(), ids=SITUATIONS)
@pytest.mark.parametrize("seed", range(3))
def test_an_explanation_changes_nothing_and_the_next_pick_does_what_it_said(decided, args, seed):
    its = decided(seed)
    for _ in range(4):
        explained = [its.explain(**args_of(args)) for _ in range(3)]
        picked = its.pick(**args_of(args))
        assert {repr(summary(result)) for result, _ in explained} == {repr(summary(picked))}
        assert all(note == explained[0][1] for _, note in explained)
        assert explained[0][1].why


def test_an_explained_drop_is_not_counted():
    counted = []
    share = DropShare("lb", 1_000_000)
    picker = ClusterImplPicker((share,), 1, CallCounter(), None, Random(1), counted.append)
    assert isinstance(picker.pick(PickArgs("/s/m", trace=Trace())), Drop)
    assert counted == []


def test_an_explained_turn_does_not_read_the_weights_again():
    its = leaf(WeightedRoundRobin, ClientSideWeightedRoundRobin(), ready(*NAMES))()
    its.now = 100.0
    schedule = its.decision.picker.schedule
    its.explain()
    assert schedule._update_at < 0


# -- a picker that does not explain itself


class Opaque:
    def pick(self, call):
        raise AssertionError("called to explain")


ABOVE = {
    "cluster manager": lambda child: ClusterManagerPicker({"": child}, {"": READY}),
    "cluster impl": lambda child: ClusterImplPicker((), 1, CallCounter(), child, Random(1)),
    "load reporting": lambda child: LoadReportingPicker({}, child),
    "outlier detection": lambda child: OutlierDetectionPicker(child, {}),
    "weighted target": lambda child: WeightedTargetPicker(("a",), (child,), (1,), Random(1)),
    "aggregate": lambda child: AggregateErrorPicker(child, "note"),
    "unrouted": UnroutedPicker,
}


@pytest.mark.parametrize("above", ABOVE.values(), ids=ABOVE)
def test_an_explanation_does_not_call_an_opaque_picker(above):
    trace = Trace()
    assert isinstance(above(None), Explainable)
    assert above(Opaque()).pick(PickArgs("/s/m", trace=trace)) is QUEUE
    assert trace.is_opaque


@pytest.mark.parametrize("override", [None, (), ("x",)])
def test_an_explanation_does_not_call_an_opaque_picker_below_override_host(override):
    its, trace = sessions()(), Trace()
    picker = its.policy.decide(
        PolicyInputs(its.inputs.config, {"everybody": report(READY)}, endpoints=its.inputs.endpoints), 0.0
    ).picker
    structs.force_setattr(picker, "child", Opaque())
    picker.pick(PickArgs("/s/m", override=None if override is None else Override(override), trace=trace))
    assert trace.is_opaque


# -- what policies see, and why they choose


def test_every_policy_describes_itself():
    assert all(issubclass(policy, Describes) for policy in BUILT_IN.values())


def test_an_explanation_of_cluster_manager_chooses_the_rpcs_cluster():
    its = DecidedPolicy(ClusterManager, ClusterManagerConfig(("a", "b")), {"b": report(READY)})
    assert its.saw == "2 clusters"
    its.decision.picker.pick(PickArgs("/s/m", cluster="b", trace=(trace := Trace())))
    assert trace.notes[0] == TraceNote("it is the RPC's; it is READY", "b")
    assert isinstance(its.explain(cluster="c")[0], Drop)


def cds(cluster, given_up=False):
    return DecidedPolicy(Cds, CdsConfig("a"), endpoints=ClusterEntry(cluster, given_up))


def gone(name):
    return ClusterError(name, unavailable(f"{name} is gone"))


def test_cds_describes_its_cluster_or_the_missing_resource():
    there = ClusterConfig(Cluster("a", Eds("a")), ClusterLoadAssignment("a"), "EDS is away")
    assert cds(there).saw == "cluster a with 0 endpoints in 0 priorities; EDS is away"
    assert cds(there).decision.handed_on.why == "it is there"
    assert "dropped" in cds(there, given_up=True).decision.handed_on.why
    result, note = cds(gone("a")).explain()
    assert (result, note.why) == (Fail(unavailable("a is gone")), "its resource may still come")
    dropped = Drop(unavailable("a is gone; no route names cluster a any more"))
    assert cds(gone("a"), given_up=True).explain()[0] == dropped


def test_cds_describes_the_clusters_of_an_aggregate():
    part = ClusterConfig(Cluster("a", Eds("a")), ClusterLoadAssignment("a"))
    assert (
        cds(AggregateConfig("all", (part,), "b does not exist")).saw == "aggregate all of a; left out: b does not exist"
    )


def test_outlier_detection_describes_the_ejected_hosts():
    assert DecidedPolicy(OutlierDetection, OutlierDetectionConfig(None, LEAF)).saw == "no rules"


def test_cluster_impl_describes_rpcs_in_flight_and_drops():
    its = cluster_impl(drops=(DropShare("lb", 250_000),), max_requests=2)(1)
    assert its.saw == "0 of 2 RPCs in flight, drops: lb 25%"


PRIORITIES = PriorityConfig({"0": LEAF, "1": LEAF})


@pytest.mark.parametrize(
    ("first", "second", "chosen", "why"),
    [
        (READY, READY, "0", "the first that is READY or IDLE"),
        (FAILURE, IDLE, "1", "the first that is READY or IDLE"),
        (CONNECTING, READY, "0", "the first that is still given time"),
        (FAILURE, FAILURE, "1", "none can serve, and it is the last"),
    ],
)
def test_priority_explains_its_choice(first, second, chosen, why):
    its = DecidedPolicy(Priority, PRIORITIES, {"0": report(first), "1": report(second)})
    assert its.decision.handed_on == TraceNote(why, chosen)


def test_priority_describes_its_timers_and_priorities_not_begun():
    its = DecidedPolicy(Priority, PRIORITIES, {"0": report(CONNECTING)}, now=5.0)
    assert its.saw == "0 CONNECTING for 10.0 s more, 1 not begun"


def test_weighted_target_explains_a_choice_without_a_draw():
    its = weighted({"a": report(READY), "b": report(FAILURE)}, a=1, b=3)(1)
    assert its.decision.handed_on == TraceNote("the only one that is READY", "a")
    assert its.saw == "a READY of weight 1, b TRANSIENT_FAILURE of weight 3"
    assert weighted({"a": report(CONNECTING)}, a=1)(1).explain()[1].waits_for == "a target to be READY"


def test_override_host_explains_each_address_of_the_cookie():
    its = sessions(FakeHost("a", FAILURE), *ready("b"))()
    result, note = its.explain(override=Override(("x", "a", "b")))
    assert note.saw == "x is no endpoint of cluster cart; a is HEALTHY, TRANSIENT_FAILURE; b is HEALTHY, READY"
    assert (result.host.address, note.why) == ("b", "the session's first host that is READY")


def test_a_session_waits_for_an_idle_host_before_a_connecting_or_unleased_one():
    def waited_for(*pool, cookie=("a", "b")):
        return sessions(*pool)().explain(override=Override(cookie))[1].address

    assert waited_for(FakeHost("a", CONNECTING), FakeHost("b", IDLE)) == "b"
    assert waited_for(FakeHost("b", CONNECTING)) == "b"
    assert waited_for(cookie=("a",)) == "a"


def explained_below_sessions(its, **args):
    trace = Trace()
    its.pick(trace=trace, **args)
    return trace.notes[0]


def test_override_host_explains_a_health_status_that_is_not_allowed():
    note = explained_below_sessions(sessions(*ready("a"), statuses=[DRAINING])(), override=Override(("a",)))
    assert note.saw == "a is HEALTHY, which override_host_status does not have"


def test_override_host_explains_that_an_rpc_without_a_session_goes_to_its_child():
    assert explained_below_sessions(sessions()(), override=Override()).why == "the host that it gives is the session's"
    assert explained_below_sessions(sessions()()).saw == "no session filter"


def test_override_host_explains_that_a_strict_session_without_a_host_fails():
    result, note = sessions()().explain(override=Override(("x",), strict=True))
    assert isinstance(result, Fail) and "the session is strict" in note.why


def test_a_leaf_policy_explains_its_wait_and_its_failure():
    its = leaf(RoundRobin, RR, [FakeHost("a", CONNECTING), FakeHost("b", FAILURE), FakeHost("c", FAILURE)])()
    assert its.saw == "0 of 3 endpoints READY, 1 CONNECTING, 2 TRANSIENT_FAILURE"
    assert its.explain()[1].waits_for == "an endpoint to connect"
    result, note = leaf(RoundRobin, RR, [FakeHost(name, FAILURE) for name in NAMES])().explain()
    assert (note.why, result.status.message) == (
        "all have failed",
        "no host can be reached; the last error: c: refused",
    )


def test_an_explanation_does_not_choose_an_ejected_host():
    its = leaf(RoundRobin, RR, ready(*NAMES), ejected=["a", "b"])()
    assert its.saw == "1 of 3 endpoints READY, 2 TRANSIENT_FAILURE"
    assert summary(its.explain()[0]) == "c"


def test_least_request_explains_the_hosts_that_it_drew():
    assert leaf(LeastRequest, LeastRequestConfig(2), ready("a"))().explain()[1].why == (
        "the fewest RPCs in flight of those drawn: a with 0, a with 0"
    )


def test_pick_first_explains_its_connected_host():
    its = leaf(PickFirst, PF, [FakeHost("a", FAILURE), *ready("b")])()
    assert (its.saw, its.explain()[1].why) == ("3 addresses, READY", "it is the connected one")


def test_one_address_and_one_cluster_are_no_plurals():
    assert leaf(PickFirst, PF, ready("a"), Endpoints((Endpoint(("a",), HEALTHY),)))().saw == "1 address, READY"
    assert DecidedPolicy(ClusterManager, ClusterManagerConfig(("a",)), {"a": report(READY)}).saw == "1 cluster"


def test_ring_hash_explains_the_hash_and_its_endpoint():
    _, note = ring()(1).explain(hash=7)
    assert note.saw == "0 of 3 endpoints READY, 3 IDLE; hash 0x0000000000000007"
    assert note.address in NAMES and note.waits_for == f"{note.address} to connect"


def test_ring_hash_explains_a_drawn_hash_without_a_hash_policy():
    assert "drawn because no hash policy yields one" in ring()(1).explain()[1].saw


def test_random_subsetting_describes_the_size_of_its_subset():
    its = DecidedPolicy(RandomSubsetting, RandomSubsettingConfig(2, LEAF), endpoints=ABC)
    assert its.saw == "2 of 3 endpoints"


def test_a_copied_generator_leaves_the_original_where_it_is():
    random = channel_control().random
    trace, before = Trace(), random.getstate()
    drawn = [trace.random(random).random() for _ in range(3)]
    assert random.getstate() == before
    assert drawn == [random.random() for _ in range(3)]
