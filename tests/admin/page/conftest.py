import pytest
from support import chromium

from . import big_mesh


@pytest.fixture(scope="session")
def browser():
    """The DevTools of one Chromium for all tests: it takes a second to start."""
    with chromium.running(chromium.program()) as devtools:
        yield devtools


@pytest.fixture(scope="package")  # it is a thread that runs on, which no later test should have beside it
def big_program():
    with big_mesh.running() as program:
        yield program


@pytest.fixture
def mesh(big_program):
    """The program with 4 channels, 12 clusters and 600 sessions; it makes calls only while a test looks at it."""
    big_program.mesh.pace = big_mesh.PACE
    yield big_program
    big_program.mesh.pace = 0
