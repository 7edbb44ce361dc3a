"""What each policy says that it would do with an RPC, by values; and that saying it changes nothing."""

from random import Random

import pytest
from support.policies import CONNECTING, FAILURE, IDLE, READY, FakeHost, given, report, surroundings

from trxds.affinity.override_host import OverrideHost
from trxds.config.snapshot import AggregateConfig, ClusterConfig, ClusterEntry, ClusterError
from trxds.config.steps import Drops, Fails, ToHost, Unknown, Waits
from trxds.ground.status import unavailable
from trxds.lb.cds import Cds
from trxds.lb.cluster_impl import ClusterImpl, too_many
from trxds.lb.cluster_manager import ClusterManager
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
from trxds.lb.explain import Explains, said
from trxds.lb.least_request import LeastRequest
from trxds.lb.outlier_detection.policy import OutlierDetection
from trxds.lb.pick import QUEUEING, Override, PickArgs, failing
from trxds.lb.pick_first import PickFirst
from trxds.lb.policy import Inputs, Report, Surroundings
from trxds.lb.priority import Priority
from trxds.lb.random_subsetting import RandomSubsetting
from trxds.lb.registry import BUILT_IN
from trxds.lb.ring_hash.policy import RingHash
from trxds.lb.round_robin import RoundRobin
from trxds.lb.weighted_round_robin.policy import WeightedRoundRobin
from trxds.lb.weighted_target import WeightedTarget
from trxds.resources.cluster import Cluster
from trxds.resources.discovery import Eds
from trxds.resources.endpoint import ClusterLoadAssignment, Endpoint, HealthStatus
from trxds.resources.endpoint import Drop as DropShare
from trxds.resources.lb_policy import RandomSubsetting as RandomSubsettingConfig
from trxds.resources.leaf_policy import ClientSideWeightedRoundRobin
from trxds.resources.leaf_policy import LeastRequest as LeastRequestConfig
from trxds.resources.leaf_policy import PickFirst as PickFirstConfig
from trxds.resources.leaf_policy import RingHash as RingHashConfig
from trxds.resources.leaf_policy import RoundRobin as RoundRobinConfig

LEAF = RoundRobinConfig()


def call(**args):
    return PickArgs("/s/m", **args)


def tell(policy, config, children=(), hosts=(), now=0.0, ejected=(), endpoints=NO_ENDPOINTS, **args):
    """What a policy says that has just decided."""
    its = {host.address: host for host in hosts}
    inputs = Inputs(config, dict(children), its, frozenset(), frozenset(ejected), endpoints)
    policy.decide(inputs, now)
    return policy.explain(inputs, call(now=now, **args))


def gone(name):
    return ClusterError(name, unavailable(f"{name} is gone"))


def test_every_policy_explains_itself():
    assert all(issubclass(policy, Explains) for policy in BUILT_IN.values())


# -- parents


def test_cluster_manager_goes_by_the_rpcs_cluster():
    config = ClusterManagerConfig(("a", "b"))
    its = tell(ClusterManager(surroundings()), config, {"b": report(READY)}, cluster="b")
    assert (its.saw, its.then, its.why) == ("2 clusters", "b", "it is the RPC's; it is READY")
    unknown = tell(ClusterManager(surroundings()), config, cluster="c")
    assert isinstance(unknown.then, Drops)


def tell_cds(cluster, given_up=False):
    return tell(Cds(surroundings()), CdsConfig("a"), endpoints=ClusterEntry(cluster, given_up))


def test_cds_says_what_it_has_or_why_it_has_nothing():
    there = ClusterConfig(Cluster("a", Eds("a")), ClusterLoadAssignment("a"), "EDS is away")
    its = tell_cds(there)
    assert (its.saw, its.then) == ("cluster a with 0 endpoints in 0 priorities; EDS is away", "cluster")
    assert tell_cds(gone("a")).then == Fails(unavailable("a is gone"))
    dropped = Drops(unavailable("a is gone; no route names cluster a any more"))
    assert tell_cds(gone("a"), given_up=True).then == dropped
    assert "dropped" in tell_cds(there, given_up=True).why


def test_cds_names_the_leaves_of_an_aggregate():
    leaf = ClusterConfig(Cluster("a", Eds("a")), ClusterLoadAssignment("a"))
    its = tell_cds(AggregateConfig("all", (leaf,), "b does not exist"))
    assert its.saw == "aggregate all of a; left out: b does not exist"


def test_outlier_detection_names_who_is_ejected():
    config = OutlierDetectionConfig(None, LEAF)
    assert tell(OutlierDetection(surroundings()), config).saw == "no rules"


def test_cluster_impl_shows_what_is_in_flight_and_draws_its_drops():
    policy = ClusterImpl(surroundings())
    config = ClusterImplConfig("a", "s", LEAF, (DropShare("lb", 250_000),), 2)
    told = [tell(policy, config, {"hosts": report(READY)}) for _ in range(400)]
    assert told[0].saw == "0 of 2 RPCs in flight, drops: lb 25%"
    dropped = [one for one in told if one.then == Drops(unavailable("EDS-configured drop: lb"))]
    assert 70 < len(dropped) < 130
    assert {one.then for one in told if one not in dropped} == {"hosts"}


def test_cluster_impl_says_when_it_is_full():
    shared = surroundings()
    policy = ClusterImpl(shared)
    shared_count = shared.limits.in_flight(("a", "s"))
    shared_count.began()
    its = tell(policy, ClusterImplConfig("a", "s", LEAF, (), 1), {"hosts": report(READY)})
    assert its.then == Drops(too_many(None, 1))


PRIORITIES = PriorityConfig({"0": LEAF, "1": LEAF})


@pytest.mark.parametrize(
    ("first", "second", "then", "why"),
    [
        (READY, READY, "0", "the first that is READY or IDLE"),
        (FAILURE, IDLE, "1", "the first that is READY or IDLE"),
        (CONNECTING, READY, "0", "the first that is still given time"),
        (FAILURE, FAILURE, "1", "none can serve, and it is the last"),
    ],
)
def test_priority_says_why_it_takes_one(first, second, then, why):
    its = tell(Priority(surroundings()), PRIORITIES, {"0": report(first), "1": report(second)})
    assert (its.then, its.why) == (then, why)


def test_priority_shows_how_long_it_waits_and_what_it_has_not_begun():
    its = tell(Priority(surroundings()), PRIORITIES, {"0": report(CONNECTING)}, now=5.0)
    assert its.saw == "0 CONNECTING for 10.0 s more, 1 not begun"


def weighted(**weights):
    return WeightedTargetConfig({name: Target(weight, LEAF) for name, weight in weights.items()})


def test_weighted_target_draws_as_its_picker_does():
    config, reports = weighted(a=1, b=3), {"a": report(READY, "a"), "b": report(READY, "b")}
    told = [tell(WeightedTarget(surroundings(seed)), config, reports).then for seed in range(50)]
    pickers = [WeightedTarget(surroundings(seed)).decide(Inputs(config, reports), 0.0).picker for seed in range(50)]
    assert told == [picker.pick(call()).host.address for picker in pickers]


def test_weighted_target_without_a_draw():
    its = tell(WeightedTarget(surroundings()), weighted(a=1, b=3), {"a": report(READY), "b": report(FAILURE)})
    assert (its.then, its.why) == ("a", "the only one that is READY")
    waiting = tell(WeightedTarget(surroundings()), weighted(a=1), {"a": report(CONNECTING)})
    assert waiting.then == Waits("a target to be READY")
    none = tell(WeightedTarget(surroundings()), weighted(), endpoints=Endpoints(note="nothing here"))
    assert none.then == Fails(unavailable("nothing here"))


# -- override_host

HEALTHY, DRAINING = HealthStatus.HEALTHY, HealthStatus.DRAINING


def session(addresses, *, pool=(), statuses=(HEALTHY,), endpoints=("a", "b"), strict=False):
    known = {host.address: host for host in pool}
    policy = OverrideHost(Surroundings(None, None, None, known.get, Random(1)))  # a wish or a lease would raise
    config = OverrideHostConfig("cart", frozenset(statuses), 1, LEAF)
    its = Endpoints(tuple(Endpoint((a,), HEALTHY) for a in endpoints))
    override = Override(tuple(addresses), strict=strict)
    return tell(policy, config, {"everybody": report(READY)}, override=override, endpoints=its)


def test_a_ready_host_of_the_session_is_taken():
    its = session(["a"], pool=[FakeHost("a", READY)])
    assert (its.saw, its.then) == ("a is HEALTHY, READY", ToHost("a", READY))


def test_the_cookies_addresses_are_judged_one_by_one():
    its = session(["x", "a", "b"], pool=[FakeHost("a", FAILURE), FakeHost("b", READY)])
    assert its.saw == "x is no endpoint of cluster cart; a is HEALTHY, TRANSIENT_FAILURE; b is HEALTHY, READY"
    assert its.then == ToHost("b", READY)


@pytest.mark.parametrize("state", [IDLE, CONNECTING])
def test_a_host_that_is_not_ready_is_waited_for(state):
    its = session(["a"], pool=[FakeHost("a", state)])
    assert its.then == Waits("a to connect", "a")


def test_an_idle_host_goes_before_one_that_connects_and_both_before_one_that_nobody_connected():
    assert session(["a", "b"], pool=[FakeHost("a", CONNECTING), FakeHost("b", IDLE)]).then.address == "b"
    assert session(["a", "b"], pool=[FakeHost("b", CONNECTING)]).then.address == "b"
    assert session(["a"]).then.address == "a"


def test_a_health_that_is_not_allowed_is_named():
    its = session(["a"], pool=[FakeHost("a", READY)], statuses=[DRAINING])
    assert (its.saw, its.then) == ("a is HEALTHY, which override_host_status does not have", "everybody")


def test_without_a_session_the_child_is_asked():
    assert session([]).why == "the host that it gives is the session's"
    inputs = Inputs(OverrideHostConfig("cart", frozenset(), 1, LEAF))
    its = OverrideHost(surroundings()).explain(inputs, call())
    assert (its.saw, its.then) == ("no session filter", "everybody")


def test_a_strict_session_without_a_host_fails():
    assert isinstance(session(["x"], strict=True).then, Fails)


# -- leaves

NAMES = ("a", "b", "c")


def ready(*names):
    return [FakeHost(name, READY) for name in names]


LEAVES = {
    "round_robin": (RoundRobin, RoundRobinConfig()),
    "least_request": (LeastRequest, LeastRequestConfig(2)),
    "weighted_round_robin": (
        WeightedRoundRobin,
        ClientSideWeightedRoundRobin(),
    ),
}


@pytest.mark.parametrize(("policy", "config"), LEAVES.values(), ids=LEAVES)
@pytest.mark.parametrize("seed", range(5))
def test_a_leaf_says_what_its_picker_does(policy, config, seed):
    inputs = Inputs(config, {}, {host.address: host for host in ready(*NAMES)}, endpoints=given(NAMES))
    one, other = policy(surroundings(seed)), policy(surroundings(seed))
    one.decide(inputs, 0.0)
    its = one.explain(inputs, call())
    assert its.saw == "3 of 3 endpoints READY"
    assert its.then == ToHost(other.decide(inputs, 0.0).picker.pick(call()).host.address, READY)


@pytest.mark.parametrize("name", ["round_robin", "weighted_round_robin"])
def test_to_explain_takes_no_turn(name):
    policy, config = LEAVES[name][0](surroundings()), LEAVES[name][1]
    inputs = Inputs(config, {}, {host.address: host for host in ready(*NAMES)}, endpoints=given(NAMES))
    picker = policy.decide(inputs, 0.0).picker
    for _ in range(7):
        told = {policy.explain(inputs, call()).then for _ in range(5)}
        assert told == {ToHost(picker.pick(call()).host.address, READY)}


@pytest.mark.parametrize(("policy", "config"), LEAVES.values(), ids=LEAVES)
def test_a_leaf_says_what_it_waits_for_and_why_it_fails(policy, config):
    hosts = [FakeHost("a", CONNECTING), FakeHost("b", FAILURE), FakeHost("c", FAILURE)]
    its = tell(policy(surroundings()), config, hosts=hosts, endpoints=given(NAMES))
    assert (its.saw, its.then) == (
        "0 of 3 endpoints READY, 1 CONNECTING, 2 TRANSIENT_FAILURE",
        Waits("an endpoint to connect"),
    )
    failed = [FakeHost(name, FAILURE) for name in NAMES]
    its = tell(policy(surroundings()), config, hosts=failed, endpoints=given(NAMES))
    assert its.then == Fails(unavailable("no host can be reached; the last error: c: refused"))


def test_an_ejected_host_is_not_chosen():
    config = LEAVES["round_robin"][1]
    its = tell(RoundRobin(surroundings()), config, hosts=ready(*NAMES), ejected=["a", "b"], endpoints=given(NAMES))
    assert (its.saw, its.then) == ("1 of 3 endpoints READY, 2 TRANSIENT_FAILURE", ToHost("c", READY))


def test_pick_first_says_which_one_it_has():
    config, hosts = PickFirstConfig(), [FakeHost("a", FAILURE), *ready("b")]
    its = tell(PickFirst(surroundings()), config, hosts=hosts, endpoints=given(NAMES))
    assert (its.saw, its.then) == ("3 addresses, READY", ToHost("b", READY))
    none = tell(PickFirst(surroundings()), config, endpoints=given("", "none"))
    assert none.then == Fails(unavailable("none"))


RING = RingHashConfig(64, 64)
ON_RING = given(NAMES)


def test_ring_hash_names_the_hash_and_who_has_it_without_connecting():
    policy = RingHash(surroundings())  # a wish would raise
    its = tell(policy, RING, hash=7, endpoints=ON_RING)
    assert its.saw == "0 of 3 endpoints READY, 3 IDLE; hash 0x0000000000000007"
    assert isinstance(its.then, Waits) and its.then.address in NAMES


def test_ring_hash_draws_where_no_hash_policy_yields_a_hash():
    assert "drawn because no hash policy yields one" in tell(RingHash(surroundings()), RING, endpoints=ON_RING).saw


@pytest.mark.parametrize("hashed", [0, 1 << 62, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize("states", [(READY, FAILURE, FAILURE), (FAILURE, READY, CONNECTING), (FAILURE,) * 3])
def test_ring_hash_goes_round_as_its_picker_does(hashed, states):
    wishes = set()
    policy = RingHash(Surroundings(wishes.add, None, None, None, Random(1)))
    hosts = {name: FakeHost(name, state) for name, state in zip(NAMES, states, strict=True)}
    for name in NAMES:
        policy.decide(Inputs(RING, {}, hosts, frozenset({name}), endpoints=ON_RING), 0.0)
    inputs = Inputs(RING, {}, hosts, endpoints=ON_RING)
    result = policy.decide(inputs, 0.0).picker.pick(call(hash=hashed))
    its = policy.explain(inputs, call(hash=hashed))
    expected = {"Complete": ToHost, "Queue": Waits, "Fail": Fails}[type(result).__name__]
    assert type(its.then) is expected
    if expected is ToHost:
        assert its.then.address == result.host.address
    elif expected is Fails:
        assert its.then.status == result.status


def test_random_subsetting_says_how_many_it_leaves_to_its_child():
    config = RandomSubsettingConfig(2, LEAF)
    its = tell(RandomSubsetting(surroundings()), config, endpoints=given(NAMES))
    assert (its.saw, its.chose, its.then) == ("3 endpoints", "2 of them", "subset")


# -- policies that do not explain themselves


class Silent:
    def decide(self, inputs, now):
        raise AssertionError


class Clumsy(Silent):
    def explain(self, inputs, call):
        raise ZeroDivisionError


def from_outside(policy, last, **children):
    return said("root/x", policy, Inputs(LEAF, children), last, call())


def test_of_a_silent_policy_only_what_is_plain_to_see_is_told():
    assert from_outside(Silent(), None).then == Waits("root/x to decide")
    assert from_outside(Silent(), Report(READY, object())).then == Unknown("root/x")
    assert from_outside(Silent(), Report(FAILURE, failing(unavailable("no")))).then == Fails(unavailable("no"))
    assert from_outside(Silent(), Report(CONNECTING, QUEUEING)).then == Waits("the tree to change")


def test_a_silent_policy_that_hands_on_a_childs_picker_goes_on_with_that_child():
    child = report(READY)
    assert from_outside(Silent(), Report(READY, child.picker), only=child).then == "only"


def test_a_policy_that_raises_when_asked_is_as_one_that_is_silent(caplog):
    assert from_outside(Clumsy(), Report(READY, object())).then == Unknown("root/x")
    assert "raised when it was to explain itself" in caplog.text
