import pytest
from support import chromium


@pytest.fixture(scope="session")
def browser():
    """The DevTools of one Chromium for all tests: it takes a second to start."""
    with chromium.running(chromium.program()) as devtools:
        yield devtools
