"""The config selector by values: routes and metadata in, a selection or a refusal out."""

import math
from random import Random

import pytest
from msgspec import structs
from support.selecting import NO_TABLE, chosen, route, selector

from trxds.core.metadata import EMPTY, Metadata
from trxds.core.resource_status import ResourceStatus
from trxds.core.status import StatusCode, unavailable
from trxds.resolver.config_selector import ConfigSelector, ErrorSelector, RouteError
from trxds.resolver.route_timeout import legacy_route_timeout, max_stream_duration
from trxds.resolver.routes import BoundRoutes
from trxds.resources.filters import HttpFilter, RouterConfig
from trxds.resources.hash_policy import HeaderHash
from trxds.resources.listener import Listener
from trxds.resources.matchers import Exact, HeaderMatch, Prefix
from trxds.resources.route import Route, VirtualHost
from trxds.resources.route_action import RouteAction, WeightedCluster
from trxds.resources.route_match import RouteMatch
from trxds.resources.stateful_session import CookieConfig, StatefulSessionConfig

# -- which route


def test_the_first_route_that_matches_wins():
    select = selector(route(Prefix("/s/"), "a"), route(Exact("/s/m"), "b"))
    assert chosen(select) == "a"


def test_a_route_whose_headers_differ_is_skipped():
    select = selector(route(Prefix(""), "a", headers=(HeaderMatch("user", Exact("7")),)), route(Prefix(""), "b"))
    assert (chosen(select, user="7"), chosen(select, user="8"), chosen(select)) == ("a", "b", "b")


def test_a_route_with_only_a_path_and_one_cluster_is_cached_by_path():
    select = selector(route(Prefix("/s/"), "a"), route(Prefix(""), "b"))
    assert select.choose("/s/m", EMPTY) is select.choose("/s/m", Metadata([("user", "7")]))
    assert (chosen(select), chosen(select, "/t/m")) == ("a", "b")


def test_a_route_behind_one_with_conditions_is_not_cached():
    select = selector(route(Prefix(""), "a", headers=(HeaderMatch("user", Exact("7")),)), route(Prefix(""), "b"))
    assert [chosen(select), chosen(select), chosen(select, user="7"), chosen(select)] == ["b", "b", "a", "b"]


def test_the_path_cache_of_the_selector_is_bounded():
    select = selector(route(Prefix("/s/"), "a"))
    assert {chosen(select, f"/s/m{number}") for number in range(3000)} == {"a"}
    assert len(select.path_cache) <= 1024


def test_a_route_behind_many_with_conditions_is_not_cached():
    tenants = [route(Prefix(""), "a", headers=(HeaderMatch("user", Exact(str(number))),)) for number in range(100)]
    select = selector(*tenants, route(Prefix(""), "b"))
    assert [chosen(select), chosen(select), chosen(select, user="7"), chosen(select)] == ["b", "b", "a", "b"]


def test_every_header_must_match():
    wanted = (HeaderMatch("x", Exact("1")), HeaderMatch("y", Exact("2")))
    select = selector(route(Prefix(""), "a", headers=wanted), route(Prefix(""), "b"))
    assert (chosen(select, x="1", y="2"), chosen(select, x="1"), chosen(select, y="2")) == ("a", "b", "b")


def test_no_route_is_unavailable_and_names_path_and_virtual_host():
    refusal = selector(route(Prefix("/s/"), "a")).choose("/t/m", Metadata())
    assert (refusal.status.code, refusal.retryable) == (StatusCode.UNAVAILABLE, False)
    assert refusal.status.note.startswith('no route matches /t/m in virtual host "shop"; add one')


def test_an_action_that_grpc_does_not_have_is_unavailable():
    refusal = selector(Route(RouteMatch(Prefix("")), None)).choose("/s/m", Metadata())
    assert refusal.status.code is StatusCode.UNAVAILABLE
    assert not refusal.retryable


def test_a_fraction_takes_its_share():
    select = selector(route(Prefix(""), "a", fraction=300_000), route(Prefix(""), "b"))
    assert sum(chosen(select) == "a" for _ in range(4_000)) == pytest.approx(1_200, abs=120)


class Least(Random):
    """Draws the least number each time."""

    def randrange(self, *bounds):
        return 0


def test_a_fraction_of_nothing_never_matches_whatever_is_drawn():
    routes = selector(route(Prefix(""), "a", fraction=0), route(Prefix(""), "b")).routes
    assert chosen(ConfigSelector(routes, NO_TABLE, Least())) == "b"


def test_rpcs_may_wait_for_ready_while_the_routes_are_in_error():
    assert ErrorSelector(lambda: unavailable("why")).choose("/s/m", Metadata()) == RouteError(
        unavailable("why"), retryable=True
    )


# -- which cluster


def test_clusters_are_drawn_by_weight():
    select = selector(route(Prefix(""), ("a", 1), ("b", 3)))
    assert sum(chosen(select) == "b" for _ in range(4_000)) == pytest.approx(3_000, abs=120)


def test_the_first_and_the_last_number_of_the_draw_belong_to_the_first_and_the_last_cluster():
    routes = selector(route(Prefix(""), ("a", 1), ("b", 3))).routes
    bound = routes.route_at(0)

    class Fixed(Random):
        def randrange(self, stop):
            return self.number if self.number >= 0 else stop - 1

    random = Fixed()
    drawn = []
    for random.number in (0, 1, -1):
        drawn.append(bound.pick_cluster(random).name)
    assert drawn == ["a", "b", "b"]


def test_the_clusters_of_all_routes_are_known():
    routes = selector(
        route(Exact("/s/m"), "a"), route(Prefix(""), "b", "c"), Route(RouteMatch(Prefix("")), None)
    ).routes
    assert routes.clusters == {"a", "b", "c"}


# -- limits: every row of both tables of A31 (without the application's deadline: tests/grfc/test_a31.py)


FINAL = [  # header_max, max_stream_duration, the listener's -> seconds
    (None, None, None, math.inf),
    (None, None, 5.0, 5.0),
    (None, 0.0, 5.0, math.inf),
    (None, 10.0, 5.0, 10.0),
    (0.0, None, 5.0, math.inf),
    (0.0, 10.0, 5.0, math.inf),
    (10.0, None, 5.0, 10.0),
    (10.0, 0.0, None, 10.0),
    (10.0, 20.0, None, 10.0),
    (None, None, 0.0, math.inf),
]


@pytest.mark.parametrize("header_max, most, listener, seconds", FINAL)
def test_the_route_timeout_is_the_first_field_that_is_set(header_max, most, listener, seconds):
    action = RouteAction((), grpc_timeout_header_max=header_max, max_stream_duration=most, timeout=1.0)
    assert max_stream_duration(action, listener).seconds == seconds


EARLY = [  # max_grpc_timeout, timeout -> seconds
    (None, None, 15.0),
    (None, 10.0, 10.0),
    (None, 0.0, math.inf),
    (0.0, None, math.inf),
    (0.0, 10.0, math.inf),
    (10.0, None, 10.0),
    (10.0, 20.0, 10.0),
]


@pytest.mark.parametrize("max_grpc_timeout, timeout, seconds", EARLY)
def test_the_legacy_route_timeout_has_other_fields_and_a_default(max_grpc_timeout, timeout, seconds):
    action = RouteAction((), max_stream_duration=1.0, timeout=timeout, max_grpc_timeout=max_grpc_timeout)
    assert legacy_route_timeout(action, 1.0).seconds == seconds


def test_a_limit_prints_with_its_source():
    action = RouteAction((), max_stream_duration=2.5)
    assert str(max_stream_duration(action, None)) == "2.5 s (the route's max_stream_duration.max_stream_duration)"
    assert str(max_stream_duration(RouteAction(()), None)) == "no limit (no field sets one)"


def test_a_bound_route_has_its_limit():
    listener = Listener("shop", max_stream_duration=5.0)
    select = selector(route(Exact("/s/a"), "a", max_stream_duration=2.0), route(Prefix(""), "a"), listener=listener)
    assert [select.choose(path, Metadata()).route.limit for path in ("/s/a", "/s/b")] == [2.0, 5.0]


# -- filters


def session(name):
    return StatefulSessionConfig(CookieConfig(name))


def listener_with(**filters):
    chain = [HttpFilter(name, config) for name, config in filters.items()]
    return Listener("shop", http_filters=(*chain, HttpFilter("router", RouterConfig())))


def test_the_most_specific_scope_wins_entirely():
    by_cluster = RouteAction((WeightedCluster("a", 1, {"s": session("cluster")}),))
    select = selector(
        Route(RouteMatch(Exact("/s/0")), by_cluster, {"s": session("route")}),
        route(Exact("/s/1"), "a", overrides={"s": session("route")}),
        route(Exact("/s/2"), "a"),
        listener=listener_with(s=session("listener")),
        overrides={"s": session("host")},
    )
    names = [select.choose(f"/s/{number}", Metadata()).cluster.filters[0].state.name for number in range(3)]
    assert names == ["cluster", "route", "host"]


def test_filters_keep_the_listeners_order_and_the_router_is_none_of_them():
    select = selector(route(Prefix(""), "a"), listener=listener_with(x=session("x"), y=session("y")))
    assert select.choose("/s/m", Metadata()).cluster.filters == (session("x"), session("y"))


def test_a_disabled_filter_runs_only_where_an_override_configures_it():
    listener = Listener("shop", http_filters=(HttpFilter("s", session("listener"), disabled=True),))
    select = selector(
        route(Exact("/s/on"), "a", overrides={"s": session("route")}), route(Prefix(""), "a"), listener=listener
    )
    assert select.choose("/s/on", Metadata()).cluster.filters == (session("route"),)
    assert select.choose("/s/m", Metadata()).cluster.filters == ()


def test_an_override_for_a_filter_the_listener_does_not_have_is_no_filter():
    select = selector(route(Prefix(""), "a", overrides={"other": session("route")}))
    assert select.choose("/s/m", Metadata()).cluster.filters == ()


def test_routes_that_configure_alike_share_a_chain():
    made = []
    select = selector(
        route(Exact("/s/a"), "a"),
        route(Prefix(""), "b", "c"),
        listener=listener_with(s=session("s")),
        make_chain=lambda configs: made.append(configs) or configs,
    )
    chosen(select, "/s/a")
    chosen(select, "/s/b")
    assert made == [(session("s"),)]


# -- the hash


def test_a_route_without_hash_policies_gives_no_hash():
    assert selector(route(Prefix(""), "a")).choose("/s/m", Metadata()).hash is None


def test_a_route_with_hash_policies_gives_equal_headers_equal_hashes():
    select = selector(route(Prefix(""), "a", hash_policies=(HeaderHash("user"),)))
    hashes = [select.choose("/s/m", Metadata([("user", user)])).hash for user in ("7", "8", "7")]
    assert hashes[0] == hashes[2] != hashes[1]
    assert select.choose("/s/m", Metadata()).hash is None


def test_a_filters_status_names_the_resource_that_has_the_route_if_there_is_one():
    status = unavailable("refused")
    bound = BoundRoutes(Listener("shop"), VirtualHost("shop", ("*",), (route(Prefix(""), "a"),), {}), tuple).route_at(0)
    assert bound.annotate_filter_status(status) is status
    bound = structs.replace(bound, standing=ResourceStatus("RDS", "routes"))
    assert 'on a route of RDS resource "routes"' in str(bound.annotate_filter_status(status))
