"""Peers that may be missing. A fixture says so before an async test begins: within one pytest would lose the reason."""

from __future__ import annotations

import pytest
from support import envoy, go_peers


@pytest.fixture(scope="session")
def envoy_peer() -> None:
    envoy.program()


@pytest.fixture(scope="session")
def go_programs() -> None:
    for name in go_peers.NAMES:
        go_peers.program(name)
