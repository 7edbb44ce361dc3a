"""Policies describe what they see, and explain why they choose; tested by values."""

import pytest
from support.decided_policies import (
    ABC,
    DRAINING,
    HEALTHY,
    LEAF,
    NAMES,
    PF,
    RR,
    DecidedPolicy,
    cluster_impl,
    leaf,
    ready,
    ring,
    sessions,
    summary,
    weighted,
)
from support.policies import CONNECTING, FAILURE, IDLE, READY, FakeHost, channel_control, report

from trxds.core.status import unavailable
from trxds.lb.built_in_policies import BUILT_IN
from trxds.lb.cds import Cds
from trxds.lb.cluster_manager import ClusterManager
from trxds.lb.configs import CdsConfig, ClusterManagerConfig, OutlierDetectionConfig, PriorityConfig
from trxds.lb.endpoint_set import Endpoints
from trxds.lb.least_request import LeastRequest
from trxds.lb.outlier_detection.policy import OutlierDetection
from trxds.lb.pick import Drop, Fail, Override, PickArgs, Trace, TraceNote
from trxds.lb.pick_first import PickFirst
from trxds.lb.policy import Describes
from trxds.lb.priority import Priority
from trxds.lb.random_subsetting import RandomSubsetting
from trxds.lb.round_robin import RoundRobin
from trxds.resolver.snapshot import AggregateConfig, ClusterConfig, ClusterEntry, ClusterError
from trxds.resources.cluster import Cluster
from trxds.resources.discovery import Eds
from trxds.resources.endpoint import ClusterLoadAssignment, Endpoint
from trxds.resources.endpoint import DropOverload as DropShare
from trxds.resources.lb_policy import RandomSubsetting as RandomSubsettingConfig
from trxds.resources.leaf_policy import LeastRequest as LeastRequestConfig


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
