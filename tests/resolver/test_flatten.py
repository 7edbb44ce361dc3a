"""Aggregates of aggregates become one list (A37), by graphs: name -> the names below it."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trxds.resolver.assemble import MAX_DEPTH, flatten


def leaves(graph, root="root"):
    return flatten(root, graph.get)


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"root": ("a", "b")}, "ab"),
        ({"root": ("b", "a")}, "ba"),
        ({"root": ("a", "sub", "d"), "sub": ("b", "c")}, "abcd"),
        ({"root": ("a", "a", "b", "a")}, "ab"),
        ({"root": ("sub", "a"), "sub": ("b", "a")}, "ba"),
        ({"root": ("sub", "other"), "sub": ("a",), "other": ("sub", "b")}, "ab"),
        ({"root": ("sub", "a"), "sub": ("root", "b")}, "ba"),
        ({"root": ("root",)}, ""),
        ({"root": ("sub",), "sub": ("root",)}, ""),
    ],
    ids=["one level", "in order", "depth first", "twice", "in two levels", "shared", "loop", "itself", "only a loop"],
)
def test_the_first_position_of_a_cluster_in_an_aggregate_counts(graph, expected):
    assert leaves(graph) == tuple(expected)


def test_a_cluster_that_is_no_aggregate_is_its_own_only_leaf():
    assert leaves({}) == ("root",)


def chain(length):
    """So many aggregates, one within the other, and a leaf in the last."""
    names = ["root", *(f"level {number}" for number in range(1, length)), "leaf"]
    return {name: (below,) for name, below in pairwise(names)}


def test_an_aggregate_may_be_sixteen_levels_deep_and_no_deeper():
    assert leaves(chain(MAX_DEPTH - 1)) == ("leaf",)
    assert leaves(chain(MAX_DEPTH)) is None


NAMES = st.sampled_from("abcdefgh")
# Fewer aggregates than levels, so that nothing is too deep.
GRAPHS = st.dictionaries(NAMES, st.lists(NAMES, max_size=5).map(tuple), max_size=8)


def every_path(graph, name, above=()):
    """The leaves as they come, over each path that does not go in circles: the long way round."""
    if name in above:
        return
    if name not in graph:
        yield name
    for part in graph.get(name, ()):
        yield from every_path(graph, part, (*above, name))


@given(GRAPHS, NAMES)
def test_flatten_finds_each_leaf_of_every_path_once(graph, root):
    assert leaves(graph, root) == tuple(dict.fromkeys(every_path(graph, root)))


@given(st.dictionaries(st.integers(0, 40), st.lists(st.integers(0, 40), max_size=6).map(tuple)))
def test_flatten_ends_on_any_graph_and_visits_each_name_once(graph):
    asked = []

    def below(name):
        asked.append(name)
        return graph.get(name)

    found = flatten(0, below)
    assert len(asked) == len(set(asked))
    assert found is None or len(found) == len(set(found))
