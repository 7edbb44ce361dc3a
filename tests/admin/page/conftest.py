import pytest
from support import chromium

from . import big_mesh


@pytest.fixture(scope="session")
def browser():
    """The DevTools of one Chromium for all tests: it takes a second to start."""
    with chromium.running(chromium.program()) as devtools:
        yield devtools


@pytest.fixture(scope="session")
def mesh():
    """The program with 4 channels, 12 clusters and 600 sessions, for all tests that only look at it."""
    with big_mesh.running() as program:
        yield program
