"""Peers that may be missing. A fixture says so before an async test begins: within one pytest would lose the reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import envoy, go_peers, java_peers

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests with other people's programs are slow, as they begin processes; one in Java takes a second to begin."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)
            if isinstance(item, pytest.Function) and _needs_java(item):
                item.add_marker(pytest.mark.long)


def _needs_java(item: pytest.Function) -> bool:
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return "java_programs" in item.fixturenames or any("java" in str(each) for each in parameters)


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
