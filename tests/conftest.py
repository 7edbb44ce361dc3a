"""Trio shuffles its tasks on purpose. Here it does so in an order that each test can have again.

TRXDS_SHUFFLE=1 leaves the order to chance, to look for tests that depend on it.
"""

import os

import pytest
from trio._core import _run  # hypothesis' integration sets the same two


def pytest_runtest_setup(item: pytest.Item) -> None:
    if "TRXDS_SHUFFLE" not in os.environ:
        _run._ALLOW_DETERMINISTIC_SCHEDULING = True
        _run._r.seed(item.nodeid)
