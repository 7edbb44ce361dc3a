"""The assembly, by values: what is known becomes a configuration, an error, or the names still missing (A74)."""

from support.picture import LDS, RDS, failed, has, listens, routed, routes

from trxds.core.resource_update import ResourceUpdate
from trxds.core.status import StatusCode, unavailable
from trxds.resolver.assemble import assemble
from trxds.resolver.snapshot import ClusterConfig, ClusterError, ConfigError, XdsConfig


def assembled(known, held=(), authority="shop"):
    return assemble(known, "shop", authority, held)


def outcome(known, **more):
    return assembled(known, **more).outcome


def missing(assembly):
    """The names without which the configuration is incomplete."""
    assert assembly.outcome is None
    return assembly.awaited


class TestTheWalk:
    """One resource leads to the next."""

    def test_the_assembly_begins_at_the_listener(self):
        assembly = assembled({})
        assert missing(assembly) == (LDS,)
        assert assembly.visited == {LDS}

    def test_the_listener_leads_to_its_routes(self):
        assembly = assembled(listens())
        assert missing(assembly) == (RDS,)
        assert assembly.visited == {LDS, RDS}

    def test_the_routes_lead_to_every_cluster_at_once(self):
        assembly = assembled(listens() | routed("b", {"a": 1, "c": 2}))
        assert missing(assembly) == (("CDS", "a"), ("CDS", "b"), ("CDS", "c"))

    def test_a_cluster_leads_to_its_endpoints_by_their_own_name(self):
        known = listens() | routed("a") | has("a", service="a-hosts")
        del known["EDS", "a-hosts"]
        assert missing(assembled(known)) == (("EDS", "a-hosts"),)

    def test_a_configuration_is_complete_when_no_resource_is_missing(self):
        known = listens() | routed("a") | has("a", "1.1.1.1:1")
        config = outcome(known)
        assert isinstance(config, XdsConfig)
        assert config.listener is known[LDS].value
        assert config.virtual_host is known[RDS].value.virtual_hosts[0]
        assert config.clusters == {"a": ClusterConfig(known["CDS", "a"].value, known["EDS", "a"].value)}

    def test_only_resources_that_the_assembly_visits_are_watched(self):
        known = listens() | routed("a") | has("a") | has("unrelated")
        assert assembled(known).visited == {LDS, RDS, ("CDS", "a"), ("EDS", "a")}

    def test_routes_inside_the_listener_need_no_rds(self):
        known = listens(rds_name=None, route_config=routes("a")) | has("a")
        assert isinstance(outcome(known), XdsConfig)
        assert RDS not in assembled(known).visited

    def test_a_mirror_cluster_that_has_not_come_is_in_error_or_what_it_was(self):
        known = listens() | routed("a") | has("a", "1.1.1.1:1")
        before = {"m": ClusterConfig(known["CDS", "a"].value, known["EDS", "a"].value)}
        for last, kind in (({}, ClusterError), (before, ClusterConfig)):
            config = assemble(known, "shop", "shop", {"m"}, last, mirrors=frozenset({"m"})).outcome
            assert isinstance(config.clusters["m"], kind)

    def test_a_mirror_cluster_of_a_route_is_watched_only_with_mirroring(self):
        known = listens() | routed("a", mirrors=["m"]) | has("a", "1.1.1.1:1")
        for mirrors, is_watched in ((frozenset(), True), (None, False)):
            assembly = assemble(known, "shop", "shop", (), mirrors=mirrors)
            assert (("CDS", "m") in assembly.visited) is is_watched

    def test_a_route_without_a_known_action_names_no_cluster(self):
        assert outcome(listens() | routed(None)).clusters == {}

    def test_two_clusters_may_share_their_endpoints(self):
        known = listens() | routed("a", "b") | has("a", "1.1.1.1:1", service="s") | has("b", "1.1.1.1:1", service="s")
        clusters = outcome(known).clusters
        assert clusters["a"].endpoints is clusters["b"].endpoints

    def test_a_cluster_that_comes_out_as_before_is_the_same_object(self):
        known = listens() | routed("a", "b") | has("a", "1.1.1.1:1") | has("b", "1.1.1.1:1")
        before = outcome(known).clusters
        now = assemble(known | has("b", "2.2.2.2:2"), "shop", "shop", (), before).outcome.clusters
        assert now["a"] is before["a"]
        assert now["b"] != before["b"]

    def test_a_cluster_of_which_one_resource_has_changed_has_both_as_they_are_now(self):
        known = listens() | routed("a") | has("a", "1.1.1.1:1")
        before = outcome(known).clusters
        for key, change in ((("CDS", "a"), has("a", max_concurrent_requests=5)), (("EDS", "a"), has("a", "2.2.2.2:2"))):
            present = known | {key: change[key]}
            now = assemble(present, "shop", "shop", (), before).outcome.clusters["a"]
            assert now.cluster is present["CDS", "a"].value
            assert now.endpoints is present["EDS", "a"].value


class TestErrors:
    def test_a_listener_in_error_makes_a_configuration_without_routes(self):
        assert outcome({LDS: failed("no listener")}) == ConfigError(unavailable("no listener"), {})

    def test_an_rds_error_makes_a_configuration_without_routes(self):
        assert outcome(listens() | {RDS: failed("no routes")}) == ConfigError(unavailable("no routes"), {})

    def test_a_listener_that_is_none_for_clients_is_an_error_that_says_so(self):
        error = outcome(listens(api=False, rds_name=None))
        assert error.status.code is StatusCode.UNAVAILABLE
        assert 'LDS resource "shop"' in error.status.message and "api_listener" in error.status.message

    def test_the_error_without_a_virtual_host_names_routes_and_authority(self):
        error = outcome(listens() | routed("a", domains=("other",)))
        assert 'RDS resource "routes"' in error.status.message
        assert 'no virtual host for "shop"' in error.status.message

    def test_the_authority_chooses_the_virtual_host(self):
        known = listens() | routed("a", domains=("other",)) | has("a")
        assert isinstance(outcome(known, authority="other"), XdsConfig)

    def test_a_cluster_in_error_fails_alone(self):
        known = listens() | routed("a", "b") | has("a") | {("CDS", "b"): failed("b is invalid")}
        config = outcome(known)
        assert isinstance(config.clusters["a"], ClusterConfig)
        assert config.clusters["b"] == ClusterError("b", unavailable("b is invalid"))

    def test_endpoints_in_error_leave_a_cluster_without_any_and_the_reason(self):
        known = listens() | routed("a") | has("a") | {("EDS", "a"): failed("no endpoints")}
        assert outcome(known).clusters["a"] == ClusterConfig(known["CDS", "a"].value, None, "no endpoints")

    def test_a_value_is_used_while_an_ambient_error_lasts(self):
        known = listens() | routed("a") | has("a")
        known[LDS] = ResourceUpdate(known[LDS].value, ambient=unavailable("the last update was invalid"))
        assert isinstance(outcome(known), XdsConfig)


class TestHeldClusters:
    """RPCs or a route table still need them, whatever the routes say now (A31)."""

    def test_a_held_cluster_is_in_the_configuration(self):
        config = outcome(listens() | routed("a") | has("a") | has("b"), held=["b"])
        assert set(config.clusters) == {"a", "b"}

    def test_a_held_cluster_can_be_missing(self):
        assert missing(assembled(listens() | routed("a") | has("a"), held=["b"])) == (("CDS", "b"),)

    def test_held_clusters_are_kept_while_the_listener_is_in_error(self):
        assembly = assembled({LDS: failed("no listener")} | has("b"), held=["b"])
        assert set(assembly.outcome.clusters) == {"b"}
        assert ("CDS", "b") in assembly.visited and ("EDS", "b") in assembly.visited

    def test_an_error_does_not_wait_for_held_clusters(self):
        assert outcome({LDS: failed("no listener")}, held=["b"]) == ConfigError(unavailable("no listener"), {})

    def test_held_clusters_are_watched_while_the_routes_are_missing(self):
        assembly = assembled(listens() | has("b"), held=["b"])
        assert missing(assembly) == (RDS,)
        assert ("EDS", "b") in assembly.visited
