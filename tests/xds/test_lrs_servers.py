"""To which servers load is reported, by values."""

import pytest

from trxds.core.resource_update import ResourceUpdate
from trxds.core.status import unavailable
from trxds.resources.cluster import Cluster, LoadReporting
from trxds.resources.discovery import Eds
from trxds.resources.types import CDS, LDS
from trxds.xds.bootstrap import ServerConfig
from trxds.xds.lrs_servers import LrsServers

ONE, OTHER = ServerConfig("one:1"), ServerConfig("other:1")


@pytest.fixture
def history():
    return []


@pytest.fixture
def servers(history):
    return LrsServers(lambda server: history.append(f"+{server.uri}"), lambda server: history.append(f"-{server.uri}"))


def tell(servers, name, server=None):
    cluster = Cluster(name, Eds(""), lrs=server and LoadReporting(server))
    servers.update({(CDS, name): ResourceUpdate(cluster)})


def test_load_is_reported_from_the_first_cluster_with_lrs_server_to_the_last(servers, history):
    tell(servers, "a", ONE)
    tell(servers, "b", ONE)
    servers.remove((CDS, "a"))
    assert history == ["+one:1"]
    servers.remove((CDS, "b"))
    assert history == ["+one:1", "-one:1"]


def test_a_cluster_without_lrs_server_starts_no_load_reports(servers, history):
    tell(servers, "a")
    servers.remove((CDS, "a"))
    assert history == []


def test_an_update_of_a_cluster_may_start_and_stop_load_reports(servers, history):
    tell(servers, "a")
    tell(servers, "a", ONE)
    tell(servers, "a", ONE)
    tell(servers, "a")
    assert history == ["+one:1", "-one:1"]


def test_a_cluster_in_error_stops_its_load_reports(servers, history):
    tell(servers, "a", ONE)
    servers.update({(CDS, "a"): ResourceUpdate(error=unavailable("gone"), absent=True)})
    assert history == ["+one:1", "-one:1"]


def test_a_cluster_that_another_server_sends_is_reported_there(servers, history):
    tell(servers, "a", ONE)
    tell(servers, "a", OTHER)
    assert history == ["+one:1", "+other:1", "-one:1"]


def test_resources_of_other_types_do_not_change_load_reports(servers, history):
    tell(servers, "a", ONE)
    servers.update({(LDS, "a"): ResourceUpdate(object())})
    servers.remove((LDS, "a"))
    assert history == ["+one:1"]
