"""grpc-go's servers as our hosts: how they go away, and how many calls they take."""

from __future__ import annotations

import signal

import pytest
from support import backends
from support.go_peers import program

from trxds import StatusCode

pytestmark = pytest.mark.usefixtures("go_programs", "sigint")

ABRUPT = {"Stop": signal.SIGINT, "SIGKILL": signal.SIGKILL}
abruptly = pytest.mark.parametrize("how", ABRUPT.values(), ids=ABRUPT)


def backend(*flags: str) -> list[str]:
    return [str(program("backend")), *flags]


# -- it goes


async def test_a_server_that_stops_gracefully_fails_no_call() -> None:
    await backends.stops_gracefully(backend)


@abruptly
async def test_a_stream_to_a_server_that_ends_abruptly_is_unavailable(how: signal.Signals) -> None:
    status = await backends.ends_abruptly_in_a_stream(backend, how)
    assert status.code is StatusCode.UNAVAILABLE


@abruptly
async def test_a_session_whose_server_ends_abruptly_moves_once_and_stays(how: signal.Signals) -> None:
    await backends.ends_abruptly_in_a_session(backend, how)


# -- it stays, and keeps to its limits


async def test_connections_that_grow_too_old_fail_no_call() -> None:
    """MaxConnectionAge: GOAWAY, and later the end; the next connection takes over."""
    await backends.ends_old_connections(backend, "200ms", 5)


async def test_no_more_calls_are_under_way_than_the_server_takes() -> None:
    """MaxConcurrentStreams: the calls beyond it wait for their turn, and none fails."""
    assert await backends.allows_three_calls(backend, 12) == (3, 1)


async def test_a_host_that_may_have_two_connections_takes_twice_as_many_calls() -> None:
    """MaxConcurrentStreams is a limit for each connection (A105)."""
    assert await backends.allows_three_calls(backend, 24, backends.TWO_CONNECTIONS) == (6, 2)


async def test_no_call_fails_while_the_client_replaces_its_connections() -> None:
    await backends.has_connections_replaced(backend)
