"""The resolver while something is wrong: what is published and logged, and which error of the moment calls are told."""

import pytest
from msgspec import structs
from support.picture import LDS, RDS, failed, has, listens, routed, routes
from support.resolving import Rig, shop

from trxds.core.metadata import EMPTY
from trxds.core.resource_status import ResourceStatus
from trxds.core.resource_update import ResourceUpdate
from trxds.core.status import unavailable
from trxds.resolver.config_selector import ErrorSelector
from trxds.resolver.snapshot import ClusterConfig, ClusterError
from trxds.resources.fault import FaultConfig
from trxds.resources.filters import HttpFilter
from trxds.resources.route import RouteConfig
from trxds.resources.stateful_session import StatefulSessionConfig


@pytest.fixture
async def rig():
    async with Rig().running() as rig:
        yield rig


class TestErrors:
    async def test_a_listener_in_error_is_published_with_its_reason(self, rig, caplog):
        await rig.settle({LDS: failed('LDS resource "shop": does not exist')})
        selector, _ = rig.published[-1]
        assert isinstance(selector, ErrorSelector)
        assert rig.chosen() == 'LDS resource "shop": does not exist'
        assert 'LDS resource "shop": does not exist' in caplog.text

    async def test_an_error_lets_clusters_go_that_nobody_holds(self, rig):
        await rig.settle(shop("a"))
        await rig.settle({LDS: failed("gone")})
        assert rig.clusters == set()
        assert rig.tables() == []

    async def test_held_clusters_are_kept_while_the_listener_is_in_error(self, rig):
        await rig.settle(shop("a"))
        hold = rig.chosen().table.lifetimes["a"].acquire()
        await rig.settle({LDS: failed("gone")})
        assert rig.clusters == {"a"}, "not dropped: its route may come back"
        assert isinstance(rig.sent[-1][1]["a"].cluster, ClusterConfig)
        hold.release()
        await rig.settle()
        assert rig.clusters == set()

    async def test_a_held_cluster_still_follows_its_resources_while_the_listener_is_in_error(self, rig):
        await rig.settle(shop("a"))
        hold = rig.chosen().table.lifetimes["a"].acquire()
        await rig.settle({LDS: failed("gone")})
        await rig.settle({("CDS", "a"): failed("a is gone too", absent=True)})
        assert rig.sent[-1][1]["a"].cluster == ClusterError("a", unavailable("a is gone too"))
        hold.release()

    async def test_the_service_comes_back_after_an_error(self, rig):
        await rig.settle(shop("a"))
        await rig.settle({LDS: failed("gone")})
        await rig.settle(shop("a"))
        assert rig.chosen().cluster.name == "a"
        assert rig.clusters == {"a"}

    async def test_a_listener_that_comes_back_with_other_routes_ends_the_watch_of_those_before(self, rig):
        await rig.settle(shop("a"))
        await rig.settle({LDS: failed("gone")})
        assert RDS in rig.source.watching
        await rig.put(listens(rds_name="others"))
        assert [key for key in rig.source.watching if key[0] == "RDS"] == [("RDS", "others")]

    async def test_the_same_resource_error_again_changes_nothing(self, rig):
        await rig.settle({LDS: failed("gone")})
        published = len(rig.published)
        await rig.settle({LDS: failed("gone")})
        assert len(rig.published) == published

    async def test_another_error_is_logged_with_its_reason(self, rig, caplog):
        for reason in ("gone", "gone", "bad"):
            await rig.settle({LDS: failed(reason)})
        assert caplog.messages == ["no routes: gone", "no routes: bad"]

    async def test_an_error_of_the_routes_names_the_server_that_sent_them_last(self, rig):
        table = routes(None)
        for server in ("server a", "server b"):
            await rig.settle(listens(), {RDS: ResourceUpdate(table, standing=ResourceStatus("RDS", "routes", server))})
            assert server in rig.published[-1][0].choose("/s/m", EMPTY).status.note

    async def test_an_ambient_error_changes_nothing(self, rig):
        states = shop("a")
        await rig.settle(states)
        published, generation = len(rig.published), rig.generation
        await rig.settle({LDS: ResourceUpdate(states[LDS].value, ambient=unavailable("cannot reach the server"))})
        assert (len(rig.published), rig.generation) == (published, generation)


class TestRecovery:
    """While the next configuration is incomplete, an error is that of the moment."""

    async def test_the_error_without_routes_names_missing_resources_and_not_old_errors(self, rig):
        await rig.settle({LDS: failed("gone")})
        assert rig.chosen() == "gone"
        await rig.put(listens())
        assert rig.chosen() == "RDS routes is awaited"
        await rig.put(routed("a"))
        assert rig.chosen() == "CDS a is awaited"
        await rig.put({("CDS", "a"): has("a")[("CDS", "a")]})
        assert rig.chosen() == "EDS a is awaited"

    async def test_the_error_without_routes_names_a_few_of_many_missing_resources(self, rig):
        await rig.settle({LDS: failed("gone")})
        await rig.put(listens() | routed(*"abcde"))
        assert rig.chosen() == "CDS a is awaited; CDS b is awaited; CDS c is awaited; and 2 more"

    async def test_the_error_without_routes_says_that_a_complete_configuration_is_pending(self, rig):
        await rig.settle({LDS: failed("gone")})
        await rig.put(shop("a"))
        assert rig.chosen() == "a complete configuration has come and is about to be in force"
        await rig.answer()
        assert rig.chosen().cluster.name == "a"

    async def test_an_rds_error_that_follows_another_is_published_at_once(self, rig):
        await rig.settle({LDS: failed("gone")})
        await rig.put(listens() | {RDS: failed("bad routes")})
        assert rig.chosen() == "bad routes"

    async def test_rpcs_of_a_failing_cluster_get_its_missing_resource_as_the_reason(self, rig):
        await rig.settle(shop("a", "b") | {("CDS", "a"): failed("a is gone")})
        await rig.settle({("CDS", "a"): has("a", service="other")[("CDS", "a")]})
        a, b = (rig.sent[-1][1][name].cluster for name in "ab")
        assert (a.endpoints, a.note) == (None, "EDS other is awaited")
        assert b.endpoints is not None

    async def test_a_cluster_that_serves_stays_while_its_next_version_is_incomplete(self, rig):
        await rig.settle(shop("a", "b") | {("CDS", "b"): failed("b is gone")})
        before = rig.sent[-1][1]["a"]
        await rig.settle({("CDS", "a"): has("a", service="other")[("CDS", "a")]})
        assert rig.sent[-1][1]["a"] is before

    async def test_rpcs_of_a_held_cluster_without_routes_get_its_missing_resource_as_the_reason(self, rig):
        await rig.settle(shop("a"))
        hold = rig.chosen().table.lifetimes["a"].acquire()
        await rig.settle({("CDS", "a"): failed("a is gone")})
        await rig.settle({LDS: failed("gone")})
        await rig.settle({("CDS", "a"): has("a", service="other")[("CDS", "a")]})
        assert rig.sent[-1][1]["a"].cluster.note == "EDS other is awaited"
        hold.release()

    async def test_a_missing_resource_is_not_logged_as_an_error(self, rig, caplog):
        await rig.settle({LDS: failed("gone")})
        await rig.put(listens())
        assert [record.getMessage() for record in caplog.records] == ["no routes: gone"]


class TestWarnings:
    """Of overrides that are left out; what they say is in test_misplaced_overrides.py."""

    @staticmethod
    def misplaced(*clusters):
        session, fault = HttpFilter("s", StatefulSessionConfig()), {"s": FaultConfig()}
        states = shop(*clusters) | listens(http_filters=(session,))
        [host] = states[RDS].value.virtual_hosts
        return states | {RDS: ResourceUpdate(RouteConfig("routes", (structs.replace(host, filter_overrides=fault),)))}

    @staticmethod
    def logged(caplog):
        return [record.getMessage() for record in caplog.records if "typed_per_filter_config" in record.getMessage()]

    async def test_a_warning_about_overrides_is_logged_once_and_kept_by_the_selector(self, rig, caplog):
        await rig.settle(self.misplaced("a"))
        [warning] = self.logged(caplog)
        assert rig.published[-1][0].warnings == (warning,)

    async def test_a_warning_about_overrides_is_not_repeated_by_other_changes(self, rig, caplog):
        await rig.settle(self.misplaced("a"))
        await rig.settle(has("a", "2.2.2.2:2"))
        await rig.settle(self.misplaced("a", "b"))
        assert len(self.logged(caplog)) == 1

    async def test_a_warning_about_overrides_is_logged_again_after_it_was_gone(self, rig, caplog):
        await rig.settle(self.misplaced("a"))
        await rig.settle(shop("a"))
        assert rig.published[-1][0].warnings == ()
        await rig.settle(self.misplaced("a"))
        assert len(self.logged(caplog)) == 2
