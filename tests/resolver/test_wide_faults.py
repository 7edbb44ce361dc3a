"""Faults that Envoy would limit to some calls: gRPC clients do not, so a warning says which ones they are (A33)."""

from msgspec import structs

from trxds.core.resource_status import ResourceStatus
from trxds.resolver.filter_mistakes import find_filter_mistakes
from trxds.resolver.routes import BoundRoutes
from trxds.resources.fault import Abort, Delay, FaultConfig
from trxds.resources.filters import HttpFilter, RouterConfig
from trxds.resources.listener import Listener
from trxds.resources.matchers import Exact
from trxds.resources.route import Route, VirtualHost
from trxds.resources.route_action import RouteAction, WeightedCluster
from trxds.resources.route_match import RouteMatch
from trxds.resources.stateful_session import StatefulSessionConfig

LIMITED = FaultConfig(abort=Abort(), unread_limits=("headers",))
UNLIMITED = FaultConfig(abort=Abort())
V = 'virtual host "v"'


def listener(config=UNLIMITED, *, disabled=False):
    return Listener("shop", http_filters=(HttpFilter("f", config, disabled), HttpFilter("r", RouterConfig())))


def host(override=None, *, routes=1):
    route = Route(RouteMatch(Exact("/s/m")), RouteAction((WeightedCluster("a"),)), {"f": override} if override else {})
    return VirtualHost("v", ("*",), (route,) * routes)


def places(listener, host):
    return [each.places for each in find_filter_mistakes(listener, host)]


def test_a_fault_without_envoys_limits_is_no_mistake():
    assert places(listener(), host(UNLIMITED)) == []


def test_a_limited_fault_of_the_listener_is_a_mistake():
    assert places(listener(LIMITED), host()) == [('LDS resource "shop"',)]


def test_a_limited_fault_of_a_route_is_a_mistake_also_if_the_listeners_filter_is_disabled():
    assert places(listener(LIMITED, disabled=True), host(LIMITED)) == [(f"route 0 of {V}",)]


def test_a_filter_that_delays_and_fails_nothing_is_no_mistake():
    assert places(listener(FaultConfig(unread_limits=("headers",))), host()) == []


def test_a_limited_delay_is_a_mistake():
    assert places(listener(FaultConfig(Delay(1), unread_limits=("headers",))), host()) != []


def test_an_override_of_a_filter_that_the_listener_does_not_have_is_no_mistake():
    assert places(Listener("shop", http_filters=(HttpFilter("other", UNLIMITED),)), host(LIMITED)) == []


def test_a_limited_fault_that_overrides_another_type_of_filter_is_a_misplaced_override_only():
    sessions = Listener("shop", http_filters=(HttpFilter("f", StatefulSessionConfig()),))
    [found] = find_filter_mistakes(sessions, host(LIMITED))
    assert "the override is left out" in found.text and "is limited by" not in found.text


def test_the_warning_names_the_places_the_filter_its_limits_and_the_remedy():
    limits = ("upstream_cluster", "headers")
    [found] = find_filter_mistakes(listener(), host(structs.replace(LIMITED, unread_limits=limits), routes=7))
    assert found.places == tuple(f"route {number} of {V}" for number in range(7)) and not found.in_listener
    assert str(found) == (
        f"route 0 of {V}, route 1 of {V}, route 2 of {V}, route 3 of {V}, route 4 of {V} and 2 more: the fault filter "
        '"f" is limited by upstream_cluster, headers, which only Envoy reads, so any call can have the fault; give the '
        "calls that should have it a route of their own, and put the fault into its typed_per_filter_config"
    )


def test_a_warning_about_the_listener_does_not_begin_with_the_resource_of_the_routes():
    standing = ResourceStatus("RDS", "routes", "2")
    routes = BoundRoutes(listener(LIMITED), host(LIMITED), tuple, standing=standing)
    of_listener, of_routes = routes.warnings
    assert of_listener.startswith('LDS resource "shop": ') and of_routes.startswith(f"{standing}: route 0 of")
