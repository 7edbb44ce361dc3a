"""What is in force while the next configuration is incomplete, cluster by cluster and by values."""

import pytest
from support.picture import assignment

from trxds.core.status import unavailable
from trxds.resolver.clusters_in_force import may_fail_rpcs, with_present_errors
from trxds.resolver.snapshot import AggregateConfig, ClusterConfig, ClusterError, can_serve
from trxds.resources.cluster import Cluster
from trxds.resources.discovery import Eds
from trxds.resources.endpoint import ClusterLoadAssignment, Endpoint, HealthStatus, Locality, LocalityId


def cluster(name="a", endpoints=None, note=""):
    return ClusterConfig(Cluster(name, Eds(name)), endpoints, note)


def draining(*addresses):
    endpoints = tuple(Endpoint((address,), HealthStatus.DRAINING) for address in addresses)
    return ClusterLoadAssignment("a", ((Locality(LocalityId(), 1, endpoints),),))


GONE = ClusterError("a", unavailable("a is gone"))
AWAITED = cluster(note="EDS a is awaited")
EMPTY = cluster(endpoints=ClusterLoadAssignment("a"))
UNHEALTHY = cluster(endpoints=draining())
DRAINING = cluster(endpoints=draining("1.1.1.1:1"))
GOOD = cluster(endpoints=assignment("a", "1.1.1.1:1"))
BETTER = cluster(endpoints=assignment("a", "2.2.2.2:1"))


def aggregate(*leaves, **more):
    return AggregateConfig("both", leaves, **more)


@pytest.mark.parametrize("before", [GONE, AWAITED, EMPTY, UNHEALTHY])
@pytest.mark.parametrize("now", [GONE, AWAITED, EMPTY, GOOD])
def test_a_cluster_that_cannot_serve_is_replaced_by_its_present_result(before, now):
    assert with_present_errors(before, {"a": now}) is now


def test_draining_hosts_stay_for_their_sessions_and_the_reason_is_the_present_one():
    assert with_present_errors(DRAINING, {"a": AWAITED}) == cluster(
        endpoints=DRAINING.endpoints, note="EDS a is awaited"
    )
    assert with_present_errors(DRAINING, {"a": GONE}) == cluster(endpoints=DRAINING.endpoints, note="a is gone")
    assert with_present_errors(DRAINING, {"a": EMPTY}) is DRAINING
    assert with_present_errors(DRAINING, {"a": GOOD}) is GOOD
    assert with_present_errors(aggregate(DRAINING), {"both": aggregate(AWAITED)}) == aggregate(DRAINING)


def test_an_aggregate_that_serves_keeps_its_leaves_and_drops_old_errors():
    b, c = (ClusterError(name, unavailable(f"{name} is gone")) for name in "bc")
    both = aggregate(GOOD, note="b is gone; c is gone", skipped_clusters=("b", "c"))
    assert with_present_errors(both, {"a": BETTER, "b": cluster("b"), "c": c}) == aggregate(
        GOOD, note="c is gone", skipped_clusters=("c",)
    )
    assert with_present_errors(both, {"a": GOOD, "b": b, "c": c}) == both


def test_a_cluster_without_a_present_result_stays():
    assert with_present_errors(GONE, {}) is GONE


def test_only_clusters_with_errors_that_rpcs_may_get_are_updated():
    assert [may_fail_rpcs(each) for each in (GOOD, aggregate(GOOD))] == [False, False]
    troubled = (
        GONE,
        AWAITED,
        EMPTY,
        UNHEALTHY,
        DRAINING,
        aggregate(EMPTY),
        aggregate(GOOD, note="x", skipped_clusters=("x",)),
    )
    assert all(map(may_fail_rpcs, troubled))


def test_can_serve_needs_an_endpoint_for_new_requests():
    served = [can_serve(each) for each in (GOOD, aggregate(EMPTY, GOOD), GONE, AWAITED, EMPTY, UNHEALTHY, DRAINING)]
    assert served == [True, True, False, False, False, False, False]
