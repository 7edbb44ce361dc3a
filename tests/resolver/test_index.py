"""The index against the loop that it stands for."""

from hypothesis import example, given
from hypothesis import strategies as st

from trxds.resolver.index import RouteIndex
from trxds.resources.matchers import Exact, HeaderMatch, Pattern, Prefix, Present
from trxds.resources.regex import Regex
from trxds.resources.route_match import RouteMatch

# Few letters, so that entries meet; the last two fold only if case were more than ASCII's.
TEXTS = st.text(alphabet="aAb/\u212aé", max_size=5)
PATTERNS = ["", "a", "a.*", ".*b", "(?i)/A", "[^/]*"]
PATHS = st.one_of(
    st.builds(Exact, TEXTS, st.booleans()),
    st.builds(Prefix, TEXTS, st.booleans()),
    st.builds(Pattern, st.builds(Regex, st.sampled_from(PATTERNS))),
)
HEADERS = st.sampled_from([(), (HeaderMatch("h", Present()),)])
MATCHES = st.builds(RouteMatch, PATHS, HEADERS, st.sampled_from([None, 500_000]))


def by_the_loop(table, path):
    """Positions that match, up to the first that takes whatever has its path."""
    found = []
    for position, match in enumerate(table):
        if match.path.matches(path):
            found.append(position)
            if not match.headers and match.fraction is None:
                break
    return tuple(found)


@given(st.lists(MATCHES, max_size=12), TEXTS)
@example([RouteMatch(Prefix("")), RouteMatch(Exact("a"))], "a")
def test_the_route_index_finds_the_same_routes_as_a_loop_in_the_same_order(table, path):
    assert RouteIndex(table).candidates(path).positions == by_the_loop(table, path)


@given(st.lists(MATCHES, max_size=12), st.lists(TEXTS, max_size=5))
def test_a_cached_result_of_the_route_index_is_the_same(table, paths):
    index = RouteIndex(table)
    for path in paths + paths:
        assert index.candidates(path).positions == by_the_loop(table, path)


def test_the_cache_of_the_route_index_is_bounded():
    """Each path has another route of its own, so that no two share their candidates."""
    many = [RouteMatch(Prefix(""), (HeaderMatch("h", Present()),))] * 40
    index = RouteIndex([*many, *(RouteMatch(Exact(f"/s/{number}")) for number in range(5_000))])
    for number in range(5_000):
        assert len(index.candidates(f"/s/{number}").positions) == 41
    assert sum(len(found) for found in index._shared) < 65_536
    assert len(index._cache) <= len(index._shared)


def test_paths_of_the_same_routes_share_their_candidates():
    index = RouteIndex([RouteMatch(Prefix("/s/"), (HeaderMatch("h", Exact(str(each))),)) for each in range(40)])
    assert index.candidates("/s/a") is index.candidates("/s/b") is not index.candidates("/t/a")


class CountingPattern(Pattern):
    """Knows how often it was asked."""

    asked = 0

    def matches(self, value):
        type(self).asked += 1
        return super().matches(value)


def test_an_expression_is_tried_once_for_each_path():
    index = RouteIndex([RouteMatch(CountingPattern(Regex("/never/.*"))), RouteMatch(Prefix(""))])
    for _ in range(3):
        index.candidates("/s/m")
    assert CountingPattern.asked == 1


def test_an_expression_behind_the_route_that_takes_all_is_not_tried():
    index = RouteIndex([RouteMatch(Exact("/s/m")), RouteMatch(CountingPattern(Regex(".*")))])
    CountingPattern.asked = 0
    index.candidates("/s/m")
    assert CountingPattern.asked == 0
