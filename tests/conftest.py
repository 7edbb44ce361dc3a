"""Trio shuffles its tasks on purpose, and trxds draws hosts, clusters and pauses. Each test does so alike in every run.

A test that fails once in a thousand runs would otherwise fail a landing that has nothing to do with it.
TRXDS_SHUFFLE=1 leaves all of it to chance, to look for tests that depend on it.
"""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from itertools import count
from random import Random

import pytest
import trustme
from hypothesis import HealthCheck, settings
from msgspec import structs
from trio._core import _run  # hypothesis' integration sets the same two

from trxds.core import determinism
from trxds.transport import connection
from trxds.transport.h2_engine import H2LibraryEngine

# How fast the machine is says nothing about the code: with other work on it, both limits are exceeded by chance.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the tests from the garbage collector: it needs half a second to look at their half a million objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if "TRXDS_SHUFFLE" not in os.environ:
        _run._ALLOW_DETERMINISTIC_SCHEDULING = True
        _run._r.seed(item.nodeid)
        numbers = count()  # each part of a program has a generator of its own
        determinism._MACHINE = structs.replace(
            determinism._MACHINE, new_random=lambda: Random(f"{item.nodeid} {next(numbers)}")
        )


@pytest.fixture
def sigint() -> Iterator[None]:
    """Have SIGINT interrupt this process and those that it starts: a shell ignores it for its background jobs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(params=["the lean engine", "h2"])
def either_engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test with the client's own engine, and once more with python-h2."""
    if request.param == "h2":
        monkeypatch.setattr(connection, "_engine", lambda options: H2LibraryEngine(client=True, options=options))


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    """Return a certificate authority, which the tests of a file share."""
    return trustme.CA()
