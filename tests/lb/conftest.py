import pytest
from support.tree import Tree


@pytest.fixture
def tree(nursery, mock_clock):
    """Return a tree of nodes without any node, on a clock that the test moves."""
    return Tree(nursery)
