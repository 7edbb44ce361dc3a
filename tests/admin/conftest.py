import pytest


@pytest.fixture
def looks_that_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the state stream look at no cost: it looks less often where a look costs much CPU time."""
    monkeypatch.setattr("trxds.admin.state_stream.stream.thread_time", lambda: 0.0)
