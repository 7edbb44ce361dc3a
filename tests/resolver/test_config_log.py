"""What is logged of a configuration that comes into force, by values."""

import logging

import pytest
from support.picture import failed, has, listens, routed

from trxds.core.resource_update import ResourceUpdate
from trxds.resolver.assemble import assemble
from trxds.resolver.config_log import ConfigLog
from trxds.resources.cluster import Cluster
from trxds.resources.discovery import Aggregate, LogicalDns


@pytest.fixture
def logged(caplog):
    """Log configurations, each with routes to "a", and return the lines without the target."""
    caplog.set_level(logging.INFO, "trxds.resolver")
    log = ConfigLog("xds:///shop", lambda: 0.0)
    routes = listens() | routed("a")

    def log_all(*states):
        before = {}
        for known in states:
            config = assemble(routes | known, "shop", "shop", (), before).outcome
            before = config.clusters
            log.config_in_force(config)
        return [each.removeprefix("xds:///shop: a new configuration is in force: ") for each in caplog.messages[1:]]

    return log_all


CLUSTER = has("a", "1.1.1.1:1")


def test_a_cluster_that_comes_to_be_in_error_is_named(logged):
    error = {("CDS", "a"): failed("no a")}
    assert logged(CLUSTER, error, error) == ['CDS resource "a", no endpoints of cluster "a" any more']


def test_endpoints_in_error_are_named_with_the_reason(logged):
    error = CLUSTER | {("EDS", "a"): failed("no endpoints of a")}
    assert logged(CLUSTER, error, error)[-1].startswith('endpoints of cluster "a" (no endpoints of a)')


def test_other_addresses_of_a_dns_name_are_a_change_of_the_clusters_endpoints(logged):
    cluster = {("CDS", "a"): ResourceUpdate(Cluster("a", LogicalDns("cart.example", 443)))}
    first, second = ({("DNS", "cart.example:443"): ResourceUpdate((each,))} for each in ("1.1.1.1:443", "2.2.2.2:443"))
    assert logged(cluster | first, cluster | second) == ['endpoints of cluster "a"']


def test_another_order_of_an_aggregates_clusters_is_a_change_of_it_alone(logged):
    leaves = has("b", "1.1.1.1:1") | has("c", "2.2.2.2:1")
    first, second = ({("CDS", "a"): ResourceUpdate(Cluster("a", Aggregate(each)))} for each in (("b", "c"), ("c", "b")))
    assert logged(leaves | first, leaves | second) == ['CDS resource "a"']
