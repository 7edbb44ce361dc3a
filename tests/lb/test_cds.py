"""cds for aggregates and DNS names is tested by values; its other decisions are in test_parents.py."""

from support.picture import assignment
from support.policies import CONNECTING, FAILURE, IDLE, READY, channel_control, report

from trxds.core.status import unavailable
from trxds.lb.cds import Cds
from trxds.lb.configs import CdsConfig
from trxds.lb.pick import Complete, PickArgs, transient_failure_picker
from trxds.lb.policy import PolicyInputs, PolicyState
from trxds.resolver.snapshot import AggregateConfig, ClusterConfig, ClusterEntry
from trxds.resources.cluster import Cluster
from trxds.resources.discovery import Eds, LogicalDns

X = ClusterConfig(Cluster("x", Eds("x")), assignment("x", "10.0.0.1:80"))
NAME = ClusterConfig(Cluster("n", LogicalDns("cart.example", 80)), assignment("cart.example:80", "10.0.0.1:80"))


def decide(policy, cluster, its):
    return policy.decide(PolicyInputs(CdsConfig("x"), {"cluster": its}, endpoints=ClusterEntry(cluster)), 0.0)


def asked(cluster, *states):
    """Return the names to resolve again after each of these states of the endpoint."""
    policy = Cds(channel_control())
    return [decide(policy, cluster, report(state)).re_resolve for state in states]


def test_cds_resolves_a_dns_name_again_when_its_endpoint_is_lost_or_fails():
    again = "cart.example:80"
    assert asked(NAME, CONNECTING, READY, READY, CONNECTING, CONNECTING) == ["", "", "", again, ""]
    assert asked(NAME, READY, IDLE, IDLE) == ["", again, ""]
    assert asked(NAME, FAILURE, FAILURE, READY) == [again, again, ""]


def test_cds_never_resolves_names_of_an_eds_cluster():
    assert asked(X, READY, FAILURE, CONNECTING) == ["", "", ""]


def fails(cluster):
    decision = decide(
        Cds(channel_control()), cluster, PolicyState(FAILURE, transient_failure_picker(unavailable("refused")))
    )
    return decision.picker.pick(PickArgs("/s/m")).status.message


def test_a_failed_rpc_of_an_aggregate_names_the_clusters_left_out():
    assert fails(AggregateConfig("both", (X,), "y does not exist")) == "refused; left out: y does not exist"
    assert fails(AggregateConfig("both", (X,))) == "refused"


def test_an_rpc_that_does_not_fail_gets_no_note_of_clusters_left_out():
    decision = decide(Cds(channel_control()), AggregateConfig("both", (X,), "y does not exist"), report(READY))
    assert isinstance(decision.picker.pick(PickArgs("/s/m")), Complete)


def test_a_report_of_the_child_does_not_rebuild_the_clusters_subtree():
    policy, both = Cds(channel_control()), AggregateConfig("both", (X,))
    first, second = (decide(policy, both, report(READY)).children["cluster"] for _ in range(2))
    assert first is second
