"""Fixtures for pytest: a network, a control plane that is reachable in it, its bootstrap, and a clock that jumps.

It is loaded by name, in a conftest.py or a test module, or by `-p trxds.testing.pytest`:

    pytest_plugins = ["trxds.testing.pytest"]

All fixtures are made for each test. `trxds_plane` and `trxds_bootstrap` are for async tests, which need pytest-trio or
anyio's plugin; the others work in all tests.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from typing import Any

import pytest
from trio.testing import MockClock

from trxds.core.event_loop import check_in_trio

from . import resources
from .management import ManagementServer, Request
from .network import MemoryNetwork

PLANE_ADDRESS = "192.0.2.1:18000"
"""The address of `trxds_plane` in `trxds_network`; 192.0.2.0/24 is kept for documentation (RFC 5737)."""


_MAX_REQUESTS = 50
_PLANE = pytest.StashKey[ManagementServer]()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test that asks for the control plane, and that nothing runs as an async test."""
    names = getattr(item, "fixturenames", ())
    is_trio_test = item.get_closest_marker("trio") is not None and item.config.pluginmanager.has_plugin("trio")
    if trxds_plane.__name__ in names and not is_trio_test and "anyio_backend" not in names:
        pytest.fail(
            f"{trxds_plane.__name__} is for async tests. Install pytest-trio, and set trio_mode = true in pytest's "
            "configuration, or mark the test with @pytest.mark.trio",
            pytrace=False,
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show in a failed test's report what the control plane was asked: a rejected resource is a frequent reason."""
    report = yield
    plane = item.stash.get(_PLANE, None)
    if report.failed and plane is not None:
        lines = [_as_line(request) for request in plane.requests[-_MAX_REQUESTS:]]
        report.sections.append(("Requests to trxds_plane", "\n".join(lines) or "none"))
    return report


def _as_line(request: Request) -> str:
    return f"{request.at:9.3f} s  {request}{f': {request.error}' if request.error else ''}"


@pytest.fixture
def trxds_clock() -> MockClock:
    """A clock that skips the time, in seconds, in which all tasks sleep; it begins at 0.

    pytest-trio runs a test by this clock if the test has it as a parameter. Otherwise it is for `trio.run(clock=...)`.
    """
    return MockClock(autojump_threshold=0)


@pytest.fixture
def trxds_network() -> MemoryNetwork:
    """An empty network in memory, for `network=` of servers and channels."""
    return MemoryNetwork()


@pytest.fixture
async def trxds_plane(trxds_network: MemoryNetwork, request: pytest.FixtureRequest) -> AsyncIterator[ManagementServer]:
    """A control plane without resources, which listens at `PLANE_ADDRESS` in `trxds_network` until the test's end."""
    check_in_trio(trxds_plane.__name__, 'define the fixture anyio_backend, which returns "trio"')
    plane = request.node.stash[_PLANE] = ManagementServer()
    async with plane.serve(PLANE_ADDRESS, trxds_network):
        yield plane


@pytest.fixture
def trxds_bootstrap(trxds_plane: ManagementServer) -> dict[str, Any]:
    """The bootstrap, as a dict, of a client of `trxds_plane` without TLS: for `bootstrap=` of a channel."""
    return resources.bootstrap(PLANE_ADDRESS)
