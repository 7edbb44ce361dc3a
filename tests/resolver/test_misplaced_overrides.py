"""Overrides of another kind of filter than the listener's of their name: left out, and told with both types (A39)."""

from random import Random

from trxds.core.metadata import EMPTY
from trxds.core.resource_status import ResourceStatus
from trxds.resolver.config_selector import ConfigSelector
from trxds.resolver.filter_mistakes import find_filter_mistakes
from trxds.resolver.routes import BoundRoutes
from trxds.resources.fault import Abort, FaultConfig
from trxds.resources.filters import HttpFilter, RouterConfig
from trxds.resources.listener import Listener
from trxds.resources.matchers import Exact
from trxds.resources.route import Route, VirtualHost
from trxds.resources.route_action import RouteAction, WeightedCluster
from trxds.resources.route_match import RouteMatch
from trxds.resources.stateful_session import CookieConfig, StatefulSessionConfig

FAULT = FaultConfig(abort=Abort())
OVERRIDE, FILTER = FAULT.override_type, StatefulSessionConfig.config_type


def session(name):
    return StatefulSessionConfig(CookieConfig(name))


LISTENER = Listener("shop", http_filters=(HttpFilter("s", session("listener")), HttpFilter("r", RouterConfig())))


def host(cluster=None, route=None, virtual_host=None):
    """One route, with these overrides."""
    action = RouteAction((WeightedCluster("a", 1, cluster or {}),))
    return VirtualHost("v", ("*",), (Route(RouteMatch(Exact("/s/m")), action, route or {}),), virtual_host or {})


def chain(overrides, listener=LISTENER):
    routes = BoundRoutes(listener, overrides, tuple)
    return ConfigSelector(routes, object(), Random(1)).choose("/s/m", EMPTY).cluster.filters


def test_a_misplaced_override_of_any_scope_leaves_the_filters_own_configuration():
    wrong = {"s": FAULT}
    assert [chain(host(cluster=wrong)), chain(host(route=wrong)), chain(host(virtual_host=wrong))] == [
        (session("listener"),)
    ] * 3


def test_an_override_of_the_right_type_counts_in_the_next_scope():
    assert chain(host(cluster={"s": FAULT}, virtual_host={"s": session("host")})) == (session("host"),)


def test_a_misplaced_override_does_not_switch_a_disabled_filter_on():
    listener = Listener("shop", http_filters=(HttpFilter("s", session("listener"), disabled=True),))
    assert chain(host(route={"s": FAULT}), listener) == ()


def test_the_warning_of_a_misplaced_override_has_its_places_key_and_both_types():
    found = find_filter_mistakes(LISTENER, host({"s": FAULT}, {"s": FAULT}, {"s": FAULT}))
    v = 'virtual host "v"'
    assert [each.places for each in found] == [(v, f"route 0 of {v}", f'cluster "a" of route 0 of {v}')]
    assert str(found[0]) == (
        'virtual host "v", route 0 of virtual host "v", cluster "a" of route 0 of virtual host "v": '
        f'typed_per_filter_config["s"] has the type {OVERRIDE}, and the listener\'s filter of that name the type '
        f"{FILTER}; the override is left out, and the filter keeps its own configuration"
    )
    assert (OVERRIDE, FILTER) == (
        "envoy.extensions.filters.http.fault.v3.HTTPFault",
        "envoy.extensions.filters.http.stateful_session.v3.StatefulSession",
    )


def test_the_warning_of_a_misplaced_override_shows_a_few_of_many_places():
    routes = host(route={"s": FAULT}).routes * 1000
    [found] = find_filter_mistakes(LISTENER, VirtualHost("v", ("*",), routes))
    assert str(found).startswith('route 0 of virtual host "v", route 1 of')
    assert 'route 4 of virtual host "v" and 995 more: ' in str(found)


def test_an_override_of_a_key_that_the_listener_does_not_have_is_not_misplaced():
    assert find_filter_mistakes(LISTENER, host(route={"other": FAULT, "s": session("route")})) == ()


def test_the_warning_begins_with_the_resource_that_has_the_routes():
    standing = ResourceStatus("RDS", "routes", "server p:1", "n", "ACKED", "now")
    [warning] = BoundRoutes(LISTENER, host(route={"s": FAULT}), tuple, standing=standing).warnings
    assert warning.startswith('RDS resource "routes" (server p:1, node "n"): ACKED since now: route 0 of ')
