"""cluster_impl counts load for the control plane (A27, A64, A85); tested by values."""

import gc
import math
from dataclasses import replace
from weakref import ref

import pytest
from support.policies import READY, FakeHost, channel_control, report

from trxds.core.metadata import EMPTY, Metadata
from trxds.core.status import OK, unavailable
from trxds.lb.cluster_impl import ClusterImpl
from trxds.lb.config_builder import PriorityNames, build_cluster
from trxds.lb.configs import ClusterImplConfig
from trxds.lb.endpoint_set import Endpoints
from trxds.lb.load_report.load_store import LoadStore, RpcCount
from trxds.lb.pick import Complete, PickArgs
from trxds.lb.policy import PolicyInputs, PolicyState
from trxds.resolver.snapshot import ClusterConfig
from trxds.resources import protos
from trxds.resources.cluster import Cluster, LoadReporting
from trxds.resources.discovery import Eds
from trxds.resources.endpoint import ClusterLoadAssignment, DropOverload, Endpoint, Locality, LocalityId
from trxds.resources.leaf_policy import RoundRobin
from trxds.resources.load_stats import ClusterLoad, LocalityLoad, MetricLoad

SERVER = "the server that sent the cluster"
A, B = LocalityId(zone="a"), LocalityId(zone="b")
LOCALITIES = (
    Locality(A, 1, (Endpoint(("a1", "a1-v6")), Endpoint(("a2",)))),
    Locality(B, 1, (Endpoint(("b1",)),)),
)
CALL = PickArgs("/s/m")


class ByPath:
    """A picker that chooses the host that the call's path names."""

    def pick(self, call):
        return Complete(FakeHost(call.path, READY))


class Load:
    """A policy over hosts that a call chooses by name, and its load store."""

    def __init__(self, loads=None, **config):
        self.counts = LoadStore() if loads is None else loads
        self.policy = ClusterImpl(replace(channel_control(), loads=self.counts))
        self.config = config

    def picker(self, metrics=(), localities=LOCALITIES, service="cart-eds"):
        lrs = LoadReporting(SERVER, frozenset(metrics))
        config = ClusterImplConfig("cart", service, RoundRobin(), lrs=lrs, **self.config)
        inputs = PolicyInputs(
            config, {"hosts": PolicyState(READY, ByPath())}, endpoints=Endpoints(localities=localities)
        )
        return self.policy.decide(inputs, 0.0).picker

    def begin(self, host, picker=None):
        result = (picker or self.picker()).pick(PickArgs(host))
        for tracker in result.trackers:
            tracker.began()
        return result

    def rpc(self, host, status=OK, trailing=EMPTY, picker=None):
        end(self.begin(host, picker), status, trailing)

    def take(self):
        return self.counts.take(SERVER)


def end(result, status=OK, trailing=EMPTY):
    for tracker in result.trackers:
        tracker.ended(status, trailing, 0.0)


def of_cart(*localities, drops=None, uncategorised=0):
    return (ClusterLoad("cart", "cart-eds", localities, drops or {}, uncategorised),)


def reported(cpu_utilization=0.5, **named):
    """Return trailers with a host's load report."""
    value = protos.OrcaLoadReport(cpu_utilization=cpu_utilization, named_metrics=named).SerializeToString()
    return Metadata([("endpoint-load-metrics-bin", value)])


# -- what is counted


def test_rpcs_count_for_the_locality_of_their_host_by_any_of_its_addresses():
    load = Load()
    for host in ("a1", "a1-v6", "a2", "b1"):
        load.rpc(host)
    assert load.take() == of_cart(LocalityLoad(A, 3, 3), LocalityLoad(B, 1, 1))


def test_rpcs_are_reported_as_succeeded_failed_or_in_progress():
    load = Load()
    load.rpc("a1")
    load.rpc("a1", unavailable("down"))
    load.begin("a2")
    assert load.take() == of_cart(LocalityLoad(A, 3, 1, 1, 1))


def test_only_rpcs_in_progress_are_reported_again():
    load = Load()
    running = load.begin("a1")
    assert load.take() == of_cart(LocalityLoad(A, 1, 0, 0, 1))
    assert load.take() == of_cart(LocalityLoad(A, 0, 0, 0, 1))
    end(running)
    assert load.take() == of_cart(LocalityLoad(A, 0, 1))
    assert load.take() == ()


def test_a_pick_without_a_stream_is_not_counted():
    load = Load()
    load.picker().pick(PickArgs("a1"))
    assert load.take() == ()


def test_drops_are_counted_by_category_and_circuit_breaking_without_one():
    load = Load(drops=(DropOverload("lb", 1_000_000),))
    for _ in range(3):
        load.picker().pick(CALL)
    assert load.take() == of_cart(drops={"lb": 3})
    full = Load(max_requests=1)
    running = full.begin("a1")
    full.picker().pick(PickArgs("a1"))
    end(running)
    assert full.take() == of_cart(LocalityLoad(A, 1, 1), uncategorised=1)


def test_rpcs_to_a_host_of_no_configured_locality_are_not_counted():
    load = Load()
    load.rpc("gone")
    assert load.take() == ()


def test_metrics_that_the_cluster_names_are_summed_over_its_hosts():
    load = Load()
    picker = load.picker(metrics={"named_metrics.queue", "cpu_utilization"})
    load.rpc("a1", trailing=reported(queue=2.0, other=1.0), picker=picker)
    load.rpc("a2", unavailable("full"), reported(queue=3.0), picker)
    load.rpc("a2", picker=picker)
    metrics = {"cpu_utilization": MetricLoad(2, 1.0), "named_metrics.queue": MetricLoad(2, 5.0)}
    assert load.take() == of_cart(LocalityLoad(A, 3, 2, 1, metrics=metrics))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_metric_that_is_no_number_is_left_out_of_the_sum(number):
    load = Load()
    picker = load.picker(metrics={"named_metrics.*", "cpu_utilization", "mem_utilization"})
    load.rpc("a1", trailing=reported(queue=2.0, heat=-4.0), picker=picker)
    load.rpc("a1", trailing=reported(queue=number, heat=number, cpu_utilization=number), picker=picker)
    metrics = {
        "cpu_utilization": MetricLoad(1, 0.5),
        "named_metrics.queue": MetricLoad(1, 2.0),
        "named_metrics.heat": MetricLoad(1, -4.0),
    }
    assert load.take() == of_cart(LocalityLoad(A, 2, 2, metrics=metrics))


def test_a_negative_utilization_is_left_out_of_the_sum():
    load = Load()
    load.rpc("a1", trailing=reported(cpu_utilization=-1.0), picker=load.picker(metrics={"cpu_utilization"}))
    assert load.take() == of_cart(LocalityLoad(A, 1, 1))


def test_a_metric_with_which_the_sum_would_overflow_is_left_out():
    load = Load()
    picker = load.picker(metrics={"named_metrics.*"})
    for queue in (1.0, 1.7e308, 1.7e308, 2.0):
        load.rpc("a1", trailing=reported(queue=queue), picker=picker)
    assert load.take() == of_cart(LocalityLoad(A, 4, 4, metrics={"named_metrics.queue": MetricLoad(3, 1.7e308)}))


def test_a_metric_that_the_cluster_does_not_name_is_not_reported():
    load = Load()
    load.rpc("a1", trailing=reported(queue=2.0))
    assert load.take() == of_cart(LocalityLoad(A, 1, 1))


# -- whose counts they are


def test_a_cluster_without_load_reporting_adds_no_tracker():
    policy = ClusterImpl(channel_control())
    config = ClusterImplConfig("cart", "cart-eds", RoundRobin())
    picker = policy.decide(PolicyInputs(config, {"hosts": report(READY, "a1")}), 0.0).picker
    assert len(picker.pick(CALL).trackers) == 1  # of the circuit breaker


def test_an_update_of_the_localities_keeps_the_load_counts():
    load = Load()
    running = load.begin("a1")
    moved = (Locality(B, 1, LOCALITIES[0].endpoints),)
    load.rpc("a1", picker=load.picker(localities=moved))
    end(running)
    assert load.take() == of_cart(LocalityLoad(A, 1, 1), LocalityLoad(B, 1, 1))


def test_policies_of_one_cluster_and_service_count_together():
    shared = LoadStore()
    for load in (Load(shared), Load(shared)):
        load.rpc("a1")
    assert shared.take(SERVER) == of_cart(LocalityLoad(A, 2, 2))


def test_each_server_gets_the_load_of_its_own_clusters():
    counts = LoadStore()
    counts.of("one", "cart", "").drop("lb")
    counts.of("other", "shop", "").drop("lb")
    assert counts.take("other") == (ClusterLoad("shop", "", drops={"lb": 1}),)
    assert counts.take("one") == (ClusterLoad("cart", "", drops={"lb": 1}),)


def test_loads_that_did_not_reach_the_server_are_part_of_the_next_report():
    load = Load()
    running = load.begin("a1", load.picker(metrics=["named_metrics.queue"]))
    load.rpc("a1", unavailable("busy"))
    load.counts.of(SERVER, "cart", "cart-eds").drop("lb")
    load.counts.of(SERVER, "cart", "cart-eds").drop("")
    load.counts.restore(SERVER, load.take())
    end(running, trailing=reported(queue=3))
    load.counts.restore(SERVER, load.take())
    load.rpc("a1", trailing=reported(queue=4), picker=load.picker(metrics=["named_metrics.queue"]))
    metrics = {"named_metrics.queue": MetricLoad(2, 7.0)}
    assert load.take() == of_cart(LocalityLoad(A, 3, 2, 1, metrics=metrics), drops={"lb": 1}, uncategorised=1)


def test_loads_of_a_cluster_that_was_removed_can_be_restored():
    shared = LoadStore()
    load = Load(shared)
    load.rpc("a1")
    taken = load.take()
    del load
    gc.collect()
    shared.restore(SERVER, taken)
    assert shared.take(SERVER) == taken


def test_load_is_reported_even_if_the_cluster_was_removed_meanwhile():
    shared = LoadStore()
    load = Load(shared)
    load.rpc("a1")
    del load
    gc.collect()
    assert shared.take(SERVER) == of_cart(LocalityLoad(A, 1, 1))


def test_load_counts_end_with_their_last_user_once_they_are_reported():
    shared = LoadStore()
    load = Load(shared)
    load.rpc("a1")
    shared.take(SERVER)
    assert len(shared) == 1
    del load
    gc.collect()
    assert len(shared) == 0


def test_a_locality_that_has_left_is_reported_once_more_and_then_forgotten():
    load = Load()
    rpc = load.begin("a1")
    (kept,) = [ref(tracker.rpcs) for tracker in rpc.trackers if isinstance(tracker, RpcCount)]
    end(rpc)
    del rpc
    load.picker(localities=LOCALITIES[1:])
    assert kept() is not None
    assert load.take() == of_cart(LocalityLoad(A, 1, 1))
    gc.collect()
    assert kept() is None


def test_an_rpc_that_outlives_its_locality_is_reported_until_its_end():
    load = Load()
    running = load.begin("a1")
    load.picker(localities=LOCALITIES[1:])
    assert load.take() == of_cart(LocalityLoad(A, 1, 0, 0, 1))
    assert load.take() == of_cart(LocalityLoad(A, 0, 0, 0, 1))
    end(running)
    assert load.take() == of_cart(LocalityLoad(A, 0, 1))


def test_rpcs_count_for_the_service_that_the_cluster_has_now_also_if_it_has_the_same_hosts():
    load = Load()
    load.rpc("a1")
    load.rpc("a1", picker=load.picker(service="moved"))
    (moved,) = (each for each in load.take() if each.service == "moved")
    assert moved == ClusterLoad("cart", "moved", (LocalityLoad(A, 1, 1),), {})


# -- from the resources


def test_the_clusters_tree_counts_over_the_localities_of_all_priorities():
    rules = LoadReporting(SERVER)
    cluster = Cluster("cart", Eds("cart-eds", "cart-eds"), lrs=rules)
    assignment = ClusterLoadAssignment("cart-eds", ((LOCALITIES[0],), (LOCALITIES[1],)))
    tree = build_cluster(ClusterConfig(cluster, assignment), PriorityNames())
    assert (tree.config.child.lrs, tree.endpoints.localities) == (rules, LOCALITIES)
