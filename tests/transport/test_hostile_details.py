"""Details of docs/hostile-servers.md besides status, connection and memory, on both engines."""

from __future__ import annotations

import pytest
import trio
from support.hostile.peer import HEADERS
from support.hostile.scripts import SCRIPTS
from support.hostile.stage import Outcome, perform

from trxds.transport.options import WireOptions


@pytest.fixture(params=[True, False], ids=["fast", "h2"])
def options(request: pytest.FixtureRequest) -> WireOptions:
    return WireOptions(lean=request.param)


def requests(outcome: Outcome) -> list[int]:
    """Return the number of requests on each connection."""
    return [peer.heard[HEADERS] for peer in outcome.peers]


async def test_each_call_has_a_connection_of_its_own_at_a_server_that_always_sends_goaway(
    options: WireOptions, autojump_clock
) -> None:
    outcome = await perform(SCRIPTS["goaway"], options)
    assert requests(outcome) == [1, 1]


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("goaway_below_ours", 2),
        ("goaway_before_any", 1),
        ("goaway_that_takes_back", 1),
        ("goaway_that_rises", 1),
        ("goaway_first_of_all", 1),
    ],
)
async def test_a_call_that_a_goaway_excludes_is_on_the_next_connection(
    name: str, first: int, options: WireOptions, autojump_clock
) -> None:
    outcome = await perform(SCRIPTS[name], options)
    assert requests(outcome) == [first, 1]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("http_1", "10.0.0.1:443: FRAME_SIZE_ERROR: it does not speak HTTP/2: its first bytes are HTTP/1"),
        ("name_in_capitals", "10.0.0.1:443: it sent a header by the name b'X-Case', which HTTP/2 forbids"),
        ("broken_message_and_details", "%zz�%"),
        ("goaway_with_an_error", "10.0.0.1:443: GOAWAY ENHANCE_YOUR_CALM: too_many_pings"),
        ("goaway_and_end", "10.0.0.1:443: connection closed by the peer, after GOAWAY NO_ERROR"),
        ("gzip_bomb", "received message of 65250 bytes of gzip is larger than the limit of 4194304 when decompressed"),
        ("window_overflow_of_a_stream", "10.0.0.1:443: FLOW_CONTROL_ERROR: "),
    ],
)
async def test_the_status_message_names_what_the_hostile_server_did(
    name: str, message: str, options: WireOptions, autojump_clock
) -> None:
    (status,) = (await perform(SCRIPTS[name], options)).statuses
    assert status.message.startswith(message)


@pytest.mark.parametrize("name", ["headers_of_no_sense", "data_on_stream_0", "settings_of_5_bytes"])
async def test_the_same_failure_of_hostile_servers_has_the_same_message(
    name: str, options: WireOptions, autojump_clock
) -> None:
    """Failures are grouped by their messages, so no message contains the address of an object, for example."""
    first, second = [await perform(SCRIPTS[name], options) for _ in range(2)]
    assert first.statuses == second.statuses and "0x" not in first.statuses[0].message


async def test_a_connection_waits_20_s_for_the_first_settings(options: WireOptions, autojump_clock) -> None:
    began = trio.current_time()
    await perform(SCRIPTS["settings_never_sent"], options)
    assert trio.current_time() - began == pytest.approx(20, abs=1)


@pytest.mark.parametrize("name", ["ping_flood_of_the_deaf", "settings_flood_of_the_deaf"])
async def test_a_server_that_reads_no_acknowledgements_is_not_read(
    name: str, options: WireOptions, autojump_clock
) -> None:
    outcome = await perform(SCRIPTS[name], options)
    assert not outcome.peers[0].said_all


async def test_each_refused_call_is_retried_transparently_once(options: WireOptions, autojump_clock) -> None:
    outcome = await perform(SCRIPTS["rapid_reset"], options)
    assert requests(outcome) == [200]  # on one connection
