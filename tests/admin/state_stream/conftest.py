import pytest


@pytest.fixture(autouse=True)
def on_any_machine(looks_that_cost_nothing: None) -> None:
    """The tests here say how often the state stream looks, and may not depend on how busy the machine is."""
