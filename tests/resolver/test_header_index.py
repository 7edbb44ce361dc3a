"""The index by header values against the walk that it stands for."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trxds.core.metadata import Metadata
from trxds.resolver import header_index
from trxds.resolver.header_index import HeaderIndex
from trxds.resources.matchers import Contains, Exact, HeaderMatch, Pattern, Prefix, Present, Range, Suffix
from trxds.resources.regex import Regex
from trxds.resources.route_match import RouteMatch

NAMES = ["x", "y", "x-bin", "content-type", ""]
VALUES = ["", "a", "A", "a,b", "b", "7", "\u212a", "application/grpc"]
TESTS = st.one_of(
    st.builds(Exact, st.sampled_from(VALUES), st.booleans()),
    st.builds(Exact, st.sampled_from(VALUES)),  # twice, so that most routes are indexed
    st.builds(Prefix, st.sampled_from(["", "a"]), st.booleans()),
    st.builds(Suffix, st.sampled_from(["b", "B"]), st.booleans()),
    st.builds(Contains, st.sampled_from([","])),
    st.builds(Present, st.booleans()),
    st.just(Range(0, 10)),
    st.just(Pattern(Regex("a.*"))),
)
HEADERS = st.lists(st.builds(HeaderMatch, st.sampled_from(NAMES), TESTS, st.booleans()), max_size=3).map(tuple)
MATCHES = st.builds(RouteMatch, st.just(Prefix("")), HEADERS, st.sampled_from([None, 500_000]))
PAIRS = st.one_of(
    st.tuples(st.sampled_from(["x", "y", "z"]), st.sampled_from(["", "a", "A", "b", "B", "7"])),
    st.tuples(st.just("x-bin"), st.just(b"a")),
)
METADATA = st.lists(PAIRS, max_size=4).map(Metadata)


def exact(*values):
    headers = (HeaderMatch(name, Exact(value)) for name, value in zip("xyz", values, strict=False))
    return RouteMatch(Prefix(""), tuple(headers))


def index_of(*matches):
    return HeaderIndex(dict(enumerate(matches)))


def those_accepted(matches, positions, metadata):
    return [at for at in positions if all(header.matches(metadata) for header in matches[at].headers)]


@given(st.lists(MATCHES, max_size=12), METADATA, st.sampled_from([0, 100]))
@example([exact("a"), RouteMatch(Prefix("")), exact("a")], Metadata([("x", "a")]), 0)
def test_the_header_index_leaves_out_only_routes_whose_headers_differ_and_keeps_their_order(table, metadata, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(header_index, "MAX_SORTED", most)
        candidates = list(index_of(*table).candidates(metadata))
    assert candidates == sorted(set(candidates))
    assert those_accepted(table, candidates, metadata) == those_accepted(table, range(len(table)), metadata)


def test_a_route_is_found_by_the_header_with_the_most_values():
    table = [exact("prod", str(number)) for number in range(100)]
    assert list(index_of(*table).candidates(Metadata([("x", "prod"), ("y", "7")]))) == [7]


def test_a_value_is_found_in_any_case_where_its_matcher_ignores_case():
    table = [RouteMatch(Prefix(""), (HeaderMatch("x", Exact(text, ignore_case=True)),)) for text in ("Aa", "b")]
    assert list(index_of(*table).candidates(Metadata([("x", "aA")]))) == [0]


def test_several_values_of_a_header_are_found_joined():
    assert list(index_of(exact("a"), exact("a,b")).candidates(Metadata([("x", "a"), ("x", "b")]))) == [1]


def test_an_index_that_leaves_most_routes_to_try_is_not_worthwhile():
    present = RouteMatch(Prefix(""), (HeaderMatch("x", Present()),))
    few, many = [exact(str(number)) for number in range(10)], [exact("a")] * 10
    assert index_of(*few, present).is_worthwhile
    assert not index_of(*few, *[present] * 10).is_worthwhile
    assert not index_of(*many, present).is_worthwhile
