"""The config selector finds the route of an RPC among many, as a plain walk over them would."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.selecting import chosen, route, selector

from trxds.core.metadata import Metadata
from trxds.resolver.config_selector import Selection
from trxds.resources.matchers import Exact, HeaderMatch, Pattern, Prefix, Present
from trxds.resources.regex import Regex
from trxds.resources.route import Route
from trxds.resources.route_action import RouteAction, WeightedCluster
from trxds.resources.route_match import RouteMatch

# -- how many routes are looked at


class Counting(HeaderMatch):
    """A condition that counts how often a route was evaluated; it never holds."""

    asked = 0

    def accepts(self, value):
        type(self).asked += 1
        return False


def evaluated(routes, path):
    select = selector(*routes, route(Prefix(""), "fallback"))
    Counting.asked = 0
    assert chosen(select, path) == "fallback"
    return Counting.asked


@pytest.mark.parametrize("kind", [Exact, Prefix])
@pytest.mark.parametrize("ignore_case", [False, True])
def test_an_rpc_evaluates_only_the_routes_of_its_path_among_10000(kind, ignore_case):
    condition = (Counting("h", Exact("")),)
    routes = [route(kind(f"/pkg.Service{number}/M", ignore_case), "a", headers=condition) for number in range(10_000)]
    assert evaluated(routes, "/pkg.Service9999/M") == 1
    assert evaluated(routes, "/pkg.Service12345/M") <= 1


def test_an_rpc_evaluates_only_the_prefixes_of_its_path_among_10000():
    condition = (Counting("h", Exact("")),)
    routes = [route(Prefix(f"/{'ab' * (number % 20)}{number}"), "a", headers=condition) for number in range(10_000)]
    assert evaluated(routes, "/" + "ab" * 19 + "9999") <= 50


@pytest.mark.parametrize("path", [Prefix(""), Exact("/s/m"), Pattern(Regex(".*"))])
def test_an_rpc_evaluates_only_the_routes_of_its_header_value_among_10000(path):
    conditions = [(HeaderMatch("user", Exact(f"u{number}")), Counting("h", Exact("a"))) for number in range(10_000)]
    routes = [route(path, "a", headers=headers) for headers in conditions]
    select = selector(*routes, route(Prefix(""), "fallback"))
    Counting.asked = 0
    assert [chosen(select, user="u9999"), chosen(select, user="x"), chosen(select)] == ["fallback"] * 3
    assert Counting.asked == 1


# -- the choice against a plain walk


PATHS = st.sampled_from(
    [Prefix(""), Prefix("/S/", ignore_case=True), Exact("/s/m"), Exact("/s/n"), Pattern(Regex("/s/[m]"))]
)
CONDITIONS = st.lists(
    st.builds(
        HeaderMatch,
        st.sampled_from(["x", "y", "x-bin", "content-type"]),
        st.one_of(
            st.builds(Exact, st.sampled_from(["a", "A", "b", "a,b", "application/grpc"]), st.booleans()),
            st.sampled_from([Present(), Present(False), Prefix("a")]),
        ),
        st.sampled_from([False, False, True]),
    ),
    max_size=2,
).map(tuple)
ROUTES = st.builds(RouteMatch, PATHS, CONDITIONS, st.sampled_from([None, None, 0, 500_000]))
CALLS = st.tuples(
    st.sampled_from(["/s/m", "/s/n", "/t/m"]),
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["x", "y"]), st.sampled_from(["a", "A", "b"])),
            st.tuples(st.just("x-bin"), st.just(b"a")),
        ),
        max_size=3,
    ).map(Metadata),
)


@st.composite
def tables(draw):
    """As many routes as an index takes: a few kinds of them, among tenants that no call has."""
    table = [RouteMatch(Prefix(""), (HeaderMatch("x", Exact(f"t{number}")),)) for number in range(40)]
    for match in draw(st.lists(ROUTES, min_size=1, max_size=8)):
        has_conditions = match.headers or match.fraction is not None
        # A route without conditions ends the walk, so it goes to the end.
        table.insert(draw(st.integers(0, len(table))) if has_conditions else len(table), match)
    return table


def by_the_walk(matches, path, metadata, random):
    """The position of the first match."""
    for position, match in enumerate(matches):
        if not match.path.matches(path) or not all(header.matches(metadata) for header in match.headers):
            continue
        if match.fraction is None or random.randrange(1_000_000) < match.fraction:
            return position
    return None


@given(tables(), st.lists(CALLS, min_size=1, max_size=5))
def test_the_choice_among_many_routes_is_that_of_a_plain_walk_with_the_same_draws(matches, calls):
    select = selector(*(Route(match, RouteAction((WeightedCluster("a"),))) for match in matches))
    assert select.routes.candidates("/t/m").header_index is not None
    random = Random(1)
    for path, metadata in calls:
        found = select.choose(path, metadata)
        number = found.route.number if isinstance(found, Selection) else None
        assert number == by_the_walk(matches, path, metadata, random)
        assert select.random.getstate() == random.getstate()


def test_routes_that_no_rpc_took_cost_no_binding():
    made = []
    select = selector(
        *(route(Exact(f"/s/{number}"), "a") for number in range(100)),
        make_chain=made.append,
    )
    chosen(select, "/s/7")
    assert len(select.routes._bound) == 1
