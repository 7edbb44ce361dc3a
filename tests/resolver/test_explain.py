"""An explanation says what the selector does, and why."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from trxds.core.metadata import EMPTY, Metadata
from trxds.core.random_copies import RandomCopies
from trxds.core.status import unavailable
from trxds.resolver.config_selector import ConfigSelector, ErrorSelector, Selection
from trxds.resolver.http_filters import EffectiveFilter
from trxds.resolver.pick_outcomes import PickDropped, PickFailed
from trxds.resolver.route_explanation import SkippedRoute, WeightedChoice
from trxds.resolver.routes import BoundRoutes
from trxds.resources.fault import Delay, FaultConfig
from trxds.resources.filters import HttpFilter, RouterConfig
from trxds.resources.hash_policy import HeaderHash
from trxds.resources.listener import Listener
from trxds.resources.matchers import Contains, Exact, HeaderMatch, Pattern, Prefix, Present, Range, Suffix
from trxds.resources.regex import Regex
from trxds.resources.route import Route, VirtualHost
from trxds.resources.route_action import RouteAction, WeightedCluster
from trxds.resources.route_match import RouteMatch

ROUTER = HttpFilter("router", RouterConfig())
TO_A = RouteAction((WeightedCluster("a"),))


def selector(*routes, filters=(), seed=1, **listener):
    host = VirtualHost("shop", ("*",), routes)
    bound = BoundRoutes(Listener("shop", http_filters=(*filters, ROUTER), **listener), host, tuple)
    return ConfigSelector(bound, object(), Random(seed), 7)


ANY = Prefix("")


def to_a(path=ANY, *headers, fraction=None):
    return Route(RouteMatch(path, headers, fraction), TO_A)


def reasons(route, **headers):
    """Why this route was passed or chosen by an RPC to /s/m with these headers."""
    told = selector(route).explain("/s/m", Metadata(headers.items()), RandomCopies())[0]
    return told.passed[0].reason if told.passed else told.chosen.reason


# -- reasons


def test_the_reason_of_a_skipped_route_names_its_path():
    assert reasons(to_a(Exact("/s/n"))) == 'the path is not "/s/n"'
    assert reasons(to_a(Prefix("/t/"))) == 'the path is not "/t/" and anything after it'
    assert reasons(to_a(Prefix("/T/", ignore_case=True))) == 'the path is not "/T/" and anything after it, in any case'
    assert reasons(to_a(Pattern(Regex("/t.*")))) == "the path is not a match of '/t.*'"
    assert reasons(to_a()) == "the path is any"


def test_the_reason_of_a_skipped_route_names_a_header_without_its_value():
    def header(test, invert=False):
        return to_a(Prefix(""), HeaderMatch("user", test, invert))

    any_path = "the path is any, "
    assert reasons(header(Exact("7")), user="88") == 'header user has 2 characters and does not match (wanted: "7")'
    assert reasons(header(Exact("7"))) == 'header user is absent (wanted: "7")'
    other = "header user has 1 character and does not match"
    assert reasons(header(Exact("7"), invert=True), user="7") == f'{other} (wanted: not "7")'
    assert reasons(header(Suffix("x")), user="8") == f'{other} (wanted: anything that ends in "x")'
    assert reasons(header(Contains("x")), user="8") == f'{other} (wanted: anything that contains "x")'
    assert reasons(header(Range(1, 5)), user="8") == f"{other} (wanted: a number from 1 to below 5)"
    assert reasons(header(Present(False)), user="8") == f"{other} (wanted: absent)"
    assert reasons(header(Present())) == "header user is absent (wanted: any)"
    assert reasons(header(Present()), user="8") == any_path + "header user matches (wanted: any)"


def test_the_reason_of_a_skipped_route_has_the_fraction_and_the_draw():
    assert reasons(to_a(fraction=0)).endswith(" of a million (wanted: below 0)")
    assert reasons(to_a(fraction=1_000_000)).startswith("the path is any, drew ")


def test_a_draw_of_exactly_the_fraction_skips_the_route():
    drawn = Random(1).randrange(1_000_000)
    told = selector(to_a(fraction=drawn), to_a()).explain("/s/m", EMPTY, RandomCopies())[0]
    assert [each.reason for each in told.passed] == [f"drew {drawn} of a million (wanted: below {drawn})"]
    assert told.chosen.number == 1


# -- the whole


def test_an_explanation_can_be_had_as_data():
    told = selector(to_a(Exact("/s/n")), to_a(), max_stream_duration=5.0).explain("/s/m", EMPTY, RandomCopies())[0]
    assert told.passed == (SkippedRoute(0, 'the path is not "/s/n"'),)
    chosen = told.chosen
    assert (chosen.number, chosen.cluster, chosen.draw, chosen.hash) == (1, "a", None, None)
    assert chosen.limit.seconds == 5.0


def test_the_draw_is_shown_with_its_weights():
    action = RouteAction((WeightedCluster("a", 1), WeightedCluster("b", 3)))
    told = selector(Route(RouteMatch(Prefix("")), action)).explain("/s/m", EMPTY, RandomCopies())[0]
    assert told.chosen.draw == WeightedChoice((("a", 1), ("b", 3)), Random(1).randrange(4))
    assert str(told.chosen.draw) == "drew 1 of 4 (a 1, b 3)"


def test_the_filters_are_shown_merged_with_the_cluster_selection_just_before_the_router():
    listener, overriding = FaultConfig(Delay(1.0)), FaultConfig(Delay(2.0))
    route = Route(RouteMatch(Prefix("")), TO_A, {"y": overriding})
    filters = (HttpFilter("x", listener), HttpFilter("y", listener), HttpFilter("off", listener, disabled=True))
    uses = selector(route, filters=filters).explain("/s/m", EMPTY, RandomCopies())[0].chosen.filters
    assert uses[:2] == (EffectiveFilter("x", listener, "listener"), EffectiveFilter("y", overriding, "route"))
    assert [use.name for use in uses] == ["x", "y", "cluster selection", "router"]


def test_the_hash_is_shown():
    action = RouteAction((WeightedCluster("a"),), hash_policies=(HeaderHash("user"),))
    select = selector(Route(RouteMatch(Prefix("")), action))
    assert select.explain("/s/m", Metadata([("user", "a")]), RandomCopies())[0].chosen.hash == 0xD24EC4F1A98C6E5B


def test_the_draw_and_the_hash_have_their_part_in_the_lines():
    clusters = (WeightedCluster("a", 1), WeightedCluster("b", 3))
    action = RouteAction(clusters, hash_policies=(HeaderHash("user"),))
    select = selector(Route(RouteMatch(Prefix("")), action))
    lines = str(select.explain("/s/m", Metadata([("user", "a")]), RandomCopies())[0]).splitlines()
    assert "cluster b: drew 1 of 4 (a 1, b 3)" in lines
    assert "hash: 0xd24ec4f1a98c6e5b" in lines


def test_the_routes_before_one_with_an_unknown_action_are_shown_as_skipped():
    select = selector(to_a(Exact("/s/n")), Route(RouteMatch(Prefix("")), None))
    told = select.explain("/s/m", EMPTY, RandomCopies())[0]
    assert told.passed == (SkippedRoute(0, 'the path is not "/s/n"'),)


def test_no_route_and_an_unknown_action_are_refusals():
    none = selector().explain("/s/m", EMPTY, RandomCopies())[0]
    assert (none.passed, none.chosen) == ((), None)
    assert none.refusal.note.startswith('no route matches /s/m in virtual host "shop"')
    told = selector(Route(RouteMatch(Prefix("")), None)).explain("/s/m", EMPTY, RandomCopies())[0]
    assert told.refusal.note.endswith("has an action unknown to gRPC")
    assert [type(each.outcome) for each in (none, told)] == [PickDropped, PickDropped]  # waiting for ready is no help


def test_an_error_of_the_configuration_is_the_explanation():
    told = ErrorSelector(lambda: unavailable("no listener")).explain("/s/m", EMPTY, RandomCopies())[0]
    assert repr(told) == "<Explanation /s/m: UNAVAILABLE: no listener>"
    assert isinstance(told.outcome, PickFailed)


def test_the_repr_of_an_explanation_is_one_line():
    told = selector(to_a(Exact("/s/n")), to_a(), max_stream_duration=5.0).explain("/s/m", EMPTY, RandomCopies())[0]
    assert repr(told) == (
        '<Explanation /s/m: route 1 of virtual host "shop", cluster a, '
        "5 s (the listener's common_http_protocol_options.max_stream_duration)>"
    )


def test_the_str_of_an_explanation_has_a_line_for_each_step():
    passed = [to_a(Exact(f"/s/{number}")) for number in range(22)]
    lines = str(selector(*passed, to_a()).explain("/s/m", EMPTY, RandomCopies())[0]).splitlines()
    assert lines[:2] == ['/s/m in virtual host "shop"', 'route 0 does not match: the path is not "/s/0"']
    assert lines[21:] == [
        "2 more routes do not match",
        "route 22 matches: the path is any",
        "cluster a",
        "time: no limit (no field sets one)",
        "filter cluster selection (from the client itself): from here on the cluster stands",
        "filter router (from the listener): the end of the chain",
    ]


# -- and the selector does the same

CLUSTERS = st.lists(st.builds(WeightedCluster, st.sampled_from("abc"), st.integers(1, 9)), min_size=1, max_size=3)
MATCHES = st.builds(
    RouteMatch,
    st.sampled_from([Prefix(""), Prefix("/s/"), Exact("/s/m"), Exact("/S/M", True), Pattern(Regex("/s/[m-n]"))]),
    st.sampled_from([(), (HeaderMatch("h", Exact("1")),), (HeaderMatch("h", Present(False)),)]),
    st.sampled_from([None, None, 0, 500_000, 1_000_000]),
)
ACTIONS = st.one_of(st.none(), st.builds(RouteAction, CLUSTERS.map(tuple)))
ROUTES = st.lists(st.builds(Route, MATCHES, ACTIONS), max_size=6)


@given(ROUTES, st.sampled_from(["/s/m", "/s/n", "/t/m"]), st.sampled_from([(), (("h", "1"),)]), st.integers(0, 99))
def test_the_next_choice_is_the_one_that_was_explained(routes, path, headers, seed):
    select, metadata = selector(*routes, seed=seed), Metadata(headers)
    told = select.explain(path, metadata, RandomCopies())[0]
    assert select.explain(path, metadata, RandomCopies())[0] == told
    found = select.choose(path, metadata)
    if isinstance(found, Selection):
        assert routes[told.chosen.number] is found.route.route
        assert (told.chosen.cluster, told.chosen.limit.seconds) == (found.cluster.name, found.route.limit)
    else:
        assert (told.refusal, told.may_change) == (found.status, found.retryable)


@given(ROUTES, st.sampled_from(["/s/m", "/s/n", "/t/m"]), st.sampled_from([(), (("h", "1"),)]), st.integers(0, 99))
def test_the_reasons_agree_with_the_choice(routes, path, headers, seed):
    told = selector(*routes, seed=seed).explain(path, Metadata(headers), RandomCopies())[0]
    assert all(passed.reason.startswith(("the path is not ", "header ", "drew ")) for passed in told.passed)
    assert told.chosen is None or told.chosen.reason.startswith("the path is ")
