"""Peers that may be missing. A fixture says so before an async test begins: within one pytest would lose the reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import envoy, go_peers, java_peers

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests with other people's programs are slow: they begin processes."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def envoy_peer() -> None:
    envoy.program()


@pytest.fixture(scope="session")
def go_programs() -> None:
    for name in go_peers.NAMES:
        go_peers.program(name)


@pytest.fixture(scope="session")
def java_programs() -> None:
    for name in java_peers.NAMES:
        java_peers.command(name)
