import pytest
from support.hedged import Hedged


@pytest.fixture
def hedged(monkeypatch):
    """Return a function that opens a world of hedged calls."""
    return lambda **more: Hedged(monkeypatch, **more)
