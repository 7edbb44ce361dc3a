"""Trio shuffles its tasks on purpose. Here it does so in an order that each test can have again.

TRXDS_SHUFFLE=1 leaves the order to chance, to look for tests that depend on it.
"""

import os
import signal
from collections.abc import Iterator

import pytest
from trio._core import _run  # hypothesis' integration sets the same two


def pytest_runtest_setup(item: pytest.Item) -> None:
    if "TRXDS_SHUFFLE" not in os.environ:
        _run._ALLOW_DETERMINISTIC_SCHEDULING = True
        _run._r.seed(item.nodeid)


@pytest.fixture
def sigint() -> Iterator[None]:
    """Have SIGINT interrupt this process and those that it starts: a shell ignores it for its background jobs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
