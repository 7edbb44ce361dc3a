"""Both protocols of ADS, for the tests of what is the same in both; and the servers of an authority, as values."""

from __future__ import annotations

import pytest
from support.fallback_mesh import Mesh
from support.world import World

from trxds.xds.bootstrap import DELTA


@pytest.fixture(params=["state of the world", "delta"])
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every server of a `World` speaks this one."""
    monkeypatch.setattr(World, "features", frozenset({DELTA} if request.param == "delta" else ()))
    return str(request.param)


@pytest.fixture
def mesh() -> Mesh:
    """Return an authority with three servers, as values."""
    return Mesh()
