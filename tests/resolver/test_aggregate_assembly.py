"""Aggregate and LOGICAL_DNS clusters in the assembly, by values (A37, A74, A75)."""

import re

from support.picture import failed, has, listens, routed

from trxds.core.resource_update import ResourceUpdate
from trxds.core.status import StatusCode
from trxds.lb.config_builder import PriorityNames, build_aggregate, build_cluster
from trxds.lb.configs import PriorityConfig
from trxds.resolver.assemble import assemble
from trxds.resolver.snapshot import AggregateConfig, ClusterConfig, ClusterError, can_serve
from trxds.resources.cluster import Cluster
from trxds.resources.discovery import Aggregate, LogicalDns
from trxds.resources.endpoint import Endpoint, Locality, LocalityId
from trxds.resources.lb_policy import RoundRobin


def aggregate(name, *parts, lb_policy=None):
    return {("CDS", name): ResourceUpdate(Cluster(name, Aggregate(parts, lb_policy)))}


def by_name(name, host="cart.example", *addresses):
    known = {("CDS", name): ResourceUpdate(Cluster(name, LogicalDns(host, 443)))}
    return known | ({("DNS", f"{host}:443"): ResourceUpdate(addresses)} if addresses else {})


def assembled(*to, known):
    return assemble(listens() | routed(*to) | known, "shop", "shop", ())


def clusters(*to, known):
    return assembled(*to, known=known).outcome.clusters


def missing(assembly):
    """The names without which the configuration is incomplete."""
    assert assembly.outcome is None
    return assembly.awaited


class TestAggregates:
    def test_an_aggregate_has_its_leaves_in_order(self):
        known = aggregate("both", "b", "a") | has("a", "1.1.1.1:1") | has("b", "2.2.2.2:1")
        both = clusters("both", known=known)["both"]
        assert [leaf.cluster.name for leaf in both.leaves] == ["b", "a"]
        assert both.note == ""

    def test_the_leaves_of_an_aggregate_are_in_the_configuration(self):
        assert set(clusters("both", known=aggregate("both", "a") | has("a"))) == {"a", "both"}

    def test_a_cluster_may_be_routed_to_and_be_a_leaf(self):
        found = clusters("a", "both", known=aggregate("both", "a") | has("a"))
        assert found["both"].leaves == (found["a"],)

    def test_two_aggregates_may_share_a_leaf(self):
        found = clusters("x", "y", known=aggregate("x", "a", "b") | aggregate("y", "b", "a") | has("a") | has("b"))
        assert found["x"].leaves == found["y"].leaves[::-1]

    def test_all_missing_parts_of_an_aggregate_are_requested_at_once(self):
        assembly = assembled("both", known=aggregate("both", "a", "more") | aggregate("more", "b", "c") | has("b"))
        assert missing(assembly) == (("CDS", "a"), ("CDS", "c"))
        assert {("CDS", "a"), ("CDS", "b"), ("EDS", "b"), ("CDS", "c")} <= assembly.visited

    def test_calls_do_not_wait_for_a_part_of_an_aggregate_that_gets_copies(self):
        known = listens() | routed("a") | has("a") | aggregate("copies", "a", "late")
        config = assemble(known, "shop", "shop", {"copies"}, mirrors=frozenset({"copies"})).outcome
        assert isinstance(config.clusters["copies"], ClusterError)

    def test_a_leaf_in_error_is_left_out_and_the_error_noted(self):
        known = aggregate("both", "gone", "a") | has("a") | {("CDS", "gone"): failed("gone is gone", absent=True)}
        both = clusters("both", known=known)["both"]
        assert [leaf.cluster.name for leaf in both.leaves] == ["a"]
        assert both.note == "gone is gone"

    def test_a_leaf_whose_endpoints_are_in_error_stays(self):
        known = aggregate("both", "a", "b") | has("a") | has("b") | {("EDS", "a"): failed("no endpoints")}
        assert [leaf.note for leaf in clusters("both", known=known)["both"].leaves] == ["no endpoints", ""]

    def test_an_aggregate_without_leaves_is_an_error_with_the_reasons(self):
        known = aggregate("both", "gone") | {("CDS", "gone"): failed("gone is gone", absent=True)}
        error = clusters("both", known=known)["both"]
        assert isinstance(error, ClusterError)
        assert error.status.code is StatusCode.UNAVAILABLE
        assert "no leaf clusters" in error.status.message and "gone is gone" in error.status.message

    def test_the_error_of_an_aggregate_has_the_first_reasons_of_thousands(self):
        """Each RPC fails with this text."""
        names = [f"gone-{number}" for number in range(3000)]
        known = aggregate("all", *names) | {("CDS", name): failed(f"{name} is gone") for name in names}
        text = clusters("all", known=known)["all"].status.message
        assert "gone-0 is gone; gone-1 is gone" in text and len(text) < 10_000
        assert re.search(r"; and \d{4} more\)", text)

    def test_a_loop_has_no_leaves(self):
        assert "no leaf clusters" in clusters("x", known=aggregate("x", "y") | aggregate("y", "x"))["x"].status.message

    def test_an_aggregate_that_is_too_deep_is_an_error_and_its_parts_may_be_valid(self):
        deep = has("a")
        for level in range(16):
            deep |= aggregate(f"at {level}", f"at {level + 1}" if level < 15 else "a")
        found = clusters("at 0", "at 1", known=deep)
        assert "15 aggregate clusters deep" in found["at 0"].status.message
        assert isinstance(found["at 1"], AggregateConfig)

    def test_the_leaves_have_their_own_policies(self):
        own = clusters("both", known=aggregate("both", "a") | has("a", lb_policy=RoundRobin()))["both"].leaves[0]
        assert own.cluster.lb_policy == RoundRobin()

    def test_an_imposed_policy_replaces_the_leafs_in_the_aggregate_only(self):
        found = clusters("both", "a", known=aggregate("both", "a", lb_policy=RoundRobin()) | has("a"))
        assert found["both"].leaves[0].cluster.lb_policy == RoundRobin()
        assert found["a"].cluster.lb_policy != RoundRobin()

    def test_the_outermost_of_nested_aggregates_imposes_its_policy(self):
        known = aggregate("x", "y", lb_policy=RoundRobin()) | aggregate("y", "a") | has("a")
        assert clusters("x", known=known)["x"].leaves[0].cluster.lb_policy == RoundRobin()


class TestTheTree:
    def both(self, *order):
        known = aggregate("both", *order) | has("a", "1.1.1.1:1") | has("b", "2.2.2.2:1")
        return clusters("both", known=known)["both"]

    def test_an_aggregate_is_a_failover_over_a_cds_for_each_leaf(self):
        plan = build_aggregate(self.both("a", "b"))
        assert {name: child.policy for name, child in plan.config.children.items()} == dict.fromkeys(
            "ab", "cds_experimental"
        )

    def test_a_leafs_cds_knows_that_leaf_only(self):
        plan = build_aggregate(self.both("a", "b"))
        assert plan.endpoints.part("b").cluster == self.both("b").leaves[0]

    def test_a_new_order_of_the_leaves_changes_the_tree(self):
        assert build_aggregate(self.both("a", "b")) != build_aggregate(self.both("b", "a"))
        assert build_aggregate(self.both("a", "b")) == build_aggregate(self.both("a", "b"))
        assert hash(build_aggregate(self.both("a", "b")).config) == hash(build_aggregate(self.both("a", "b")).config)
        assert PriorityConfig({}) != {}


class TestDns:
    def test_a_dns_name_is_watched_like_a_resource(self):
        assembly = assembled("dns", known=by_name("dns"))
        assert missing(assembly) == (("DNS", "cart.example:443"),)
        assert ("DNS", "cart.example:443") in assembly.visited

    def test_all_addresses_of_a_dns_name_are_one_endpoint(self):
        found = clusters("dns", known=by_name("dns", "cart.example", "1.1.1.1:443", "[::1]:443"))["dns"]
        endpoint = Endpoint(("1.1.1.1:443", "[::1]:443"), hostname="cart.example:443")
        assert found.endpoints.priorities == ((Locality(LocalityId(), 1, (endpoint,)),),)

    def test_a_name_without_addresses_is_a_cluster_without_endpoints_and_the_reason(self):
        known = by_name("dns") | {("DNS", "cart.example:443"): ResourceUpdate(())}
        found = clusters("dns", known=known)["dns"]
        assert (found.endpoints, can_serve(found)) == (None, False)
        assert found.note == 'DNS name "cart.example:443" has no addresses'

    def test_a_name_that_cannot_be_resolved_is_a_cluster_without_endpoints_and_the_reason(self):
        known = by_name("dns") | {("DNS", "cart.example:443"): failed("no such name")}
        assert clusters("dns", known=known)["dns"] == ClusterConfig(known["CDS", "dns"].value, None, "no such name")

    def test_a_logical_dns_cluster_may_be_a_leaf(self):
        known = aggregate("both", "a", "dns") | has("a") | by_name("dns", "cart.example", "1.1.1.1:443")
        assert [leaf.cluster.name for leaf in clusters("both", known=known)["both"].leaves] == ["a", "dns"]

    def test_a_logical_dns_cluster_reports_load_without_an_eds_service(self):
        (config,) = clusters("dns", known=by_name("dns", "cart.example", "1.1.1.1:443")).values()
        assert _services(build_cluster(config, PriorityNames()).config) == [""]


def _services(config):
    own = [config.service] if hasattr(config, "service") else []
    return own + (_services(config.child) if hasattr(config, "child") else [])
