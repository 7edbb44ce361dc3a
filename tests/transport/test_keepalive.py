"""Keepalive (A8): when a connection sends a PING, what happens without an answer, and `too_many_pings`."""

from __future__ import annotations

import logging
import math
from contextlib import suppress

import h2.config
import h2.connection
import h2.events
import pytest
import trio
from support.hostile.peer import ENHANCE_YOUR_CALM, Peer, script
from support.hostile.scripts import SCRIPTS
from support.hostile.stage import perform
from trio.testing import wait_all_tasks_blocked

from trxds.core.status import Status, StatusCode
from trxds.testing.network import memory_stream_pair
from trxds.transport.connection import Connection
from trxds.transport.events import GoAwayReceived
from trxds.transport.keepalive import Keepalive
from trxds.transport.options import WireOptions
from trxds.transport.request import Request

UNAVAILABLE = Status(StatusCode.UNAVAILABLE, "there: no answer to a PING within 20 s (keepalive)")


class Quiet:
    """A server that reads everything, and sends its SETTINGS and what the test tells it."""

    def __init__(self, nursery: trio.Nursery, keepalive: Keepalive | None) -> None:
        ours, self.transport = memory_stream_pair()
        self.connection = Connection(ours, peer="there", keepalive=keepalive)
        self.pings: list[float] = []
        self.answers = False
        self._began = trio.current_time()
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        nursery.start_soon(self.connection.run)
        nursery.start_soon(self._live)

    async def _live(self) -> None:
        self._h2.initiate_connection()
        await self.transport.send_all(self._h2.data_to_send())
        with suppress(trio.BrokenResourceError):  # the client may hang up before it has read our last answer
            await self._answer()

    async def _answer(self) -> None:
        while data := await self.transport.receive_some():
            events = self._h2.receive_data(data)
            said = self._h2.data_to_send()
            if any(isinstance(event, h2.events.PingReceived) for event in events):
                self.pings.append(trio.current_time() - self._began)
                if not self.answers:
                    continue
            await self.transport.send_all(said)

    async def say(self, data: bytes) -> None:
        await self.transport.send_all(data)


async def test_a_connection_without_keepalive_sends_no_ping(nursery, autojump_clock) -> None:
    server = Quiet(nursery, None)
    server.connection.open_stream(Request("/s/M", "s"))
    await trio.sleep(10_000)
    assert server.pings == [] and server.connection.closed_status is None


async def test_a_quiet_peer_that_answers_keepalive_pings_stays_connected(nursery, autojump_clock) -> None:
    server = Quiet(nursery, Keepalive(30))
    server.answers = True
    server.connection.open_stream(Request("/s/M", "s"))
    await trio.sleep(200)
    # A look at its answer is due when the timeout is over, and the quiet is counted from the answer.
    assert server.pings == pytest.approx([30, 60, 90, 120, 150, 180], abs=1)
    assert server.connection.closed_status is None


async def test_keepalive_pings_again_after_its_time_though_the_timeout_is_longer(nursery, autojump_clock) -> None:
    server = Quiet(nursery, Keepalive(10, 25))
    server.answers = True
    stream = server.connection.open_stream(Request("/s/M", "s"))
    began = trio.current_time()
    await trio.sleep(35)
    assert server.pings == pytest.approx([10, 20, 30], abs=1)
    server.answers = False
    assert await stream.receive() is None
    assert trio.current_time() - began == pytest.approx(40 + 25, abs=1)


async def test_a_peer_that_answers_no_keepalive_ping_is_disconnected_and_its_calls_end(nursery, autojump_clock) -> None:
    server = Quiet(nursery, Keepalive(30))
    stream = server.connection.open_stream(Request("/s/M", "s"))
    began = trio.current_time()
    assert await stream.receive() is None
    assert trio.current_time() - began == 50
    assert stream.status == UNAVAILABLE and not stream.refused


async def test_any_received_byte_counts_for_keepalive(nursery, autojump_clock) -> None:
    server = Quiet(nursery, Keepalive(30))
    server.connection.open_stream(Request("/s/M", "s"))
    for _ in range(20):
        await trio.sleep(29)
        await server.say(b"\0\0\0\x63\0\0\0\0\0")  # of a kind that nobody knows
    assert server.pings == []
    await trio.sleep(40)
    await server.say(b"\0\0\0\x63\0\0\0\0\0")  # in place of an answer
    await trio.sleep(15)
    assert len(server.pings) == 1 and server.connection.closed_status is None


async def test_keepalive_sends_no_ping_without_calls_unless_configured(nursery, autojump_clock) -> None:
    servers = [Quiet(nursery, Keepalive(30)), Quiet(nursery, Keepalive(30, without_calls=True))]
    await trio.sleep(100)
    assert [(server.pings, server.connection.closed_status) for server in servers] == [([], None), ([30], UNAVAILABLE)]


async def test_keepalive_watches_a_call_that_begins_after_a_long_silence(nursery, autojump_clock) -> None:
    server = Quiet(nursery, Keepalive(30))
    await trio.sleep(1000)
    stream = server.connection.open_stream(Request("/s/M", "s"))
    began = trio.current_time()
    assert await stream.receive() is None
    assert trio.current_time() - began <= 30 + 30 + 20


async def test_the_keepalive_task_ends_with_its_connection(autojump_clock) -> None:
    async with trio.open_nursery() as nursery:
        server = Quiet(nursery, Keepalive(30))
        await wait_all_tasks_blocked()
        began = trio.current_time()
        server.connection.close(Status(StatusCode.CANCELLED, "channel closed"))
    assert trio.current_time() - began < 1


def test_ten_seconds_are_the_shortest_keepalive_time() -> None:
    assert Keepalive(10).time == 10


@pytest.mark.parametrize("time", [9.999, 1, 0, -1, math.nan])
def test_a_keepalive_time_below_the_least_is_refused_with_the_least(time: float) -> None:
    with pytest.raises(
        ValueError, match=f"keepalive_time is {time!r}; it must be a number of seconds from 10, or None"
    ):
        Keepalive(time)


@pytest.mark.parametrize("timeout", [0, -1, math.inf, math.nan])
def test_a_keepalive_timeout_that_makes_no_sense_is_refused(timeout: float) -> None:
    with pytest.raises(
        ValueError, match=f"keepalive_timeout is {timeout!r}; it must be a finite number of seconds above 0"
    ):
        Keepalive(30, timeout)


@pytest.mark.parametrize(
    ("code", "debug", "time"),
    [(ENHANCE_YOUR_CALM, b"too_many_pings", 60), (ENHANCE_YOUR_CALM, b"slow down", 30), (0, b"too_many_pings", 30)],
)
@pytest.mark.parametrize("lean", [True, False])
async def test_too_many_pings_halves_the_rate_for_the_channel_and_is_logged(
    lean: bool, code: int, debug: bytes, time: float, autojump_clock, caplog
) -> None:
    @script()
    async def too_many_pings(peer: Peer) -> None:
        stream = await peer.request()
        if peer.number == 1:
            await peer.goaway(0, code, debug)
        else:
            await peer.answer(stream)

    keepalive = Keepalive(30)
    with caplog.at_level(logging.WARNING, "trxds.transport"):
        outcome = await perform(too_many_pings, WireOptions(lean=lean), keepalive)
    assert [status.code for status in outcome.statuses] == [StatusCode.OK]
    assert keepalive.time == time
    said = [record.getMessage() for record in caplog.records]
    warning = "10.0.0.1:443 says too_many_pings: keepalive asks after 60 s from now on; raise keepalive_time"
    assert said == ([warning] if time == 60 else [])


async def test_a_repeated_too_many_pings_of_one_connection_counts_once(autojump_clock) -> None:
    @script()
    async def complains(peer: Peer) -> None:
        stream = await peer.request()  # it goes on, and so does the connection
        for _ in range(100):
            await peer.goaway(stream, ENHANCE_YOUR_CALM, b"too_many_pings")
        await peer.answer(stream)

    keepalive = Keepalive(30)
    await perform(complains, WireOptions(), keepalive)
    assert keepalive.time == 60


def test_complaints_of_too_many_pings_neither_end_the_pings_nor_fill_the_log(caplog) -> None:
    keepalive = Keepalive(30)
    complaint = GoAwayReceived(0, ENHANCE_YOUR_CALM, b"too_many_pings")
    with caplog.at_level(logging.WARNING, "trxds.transport"):
        assert all(keepalive.on_too_many_pings(complaint, "10.0.0.1:443") for _ in range(2000))
    assert keepalive.time < 48 * 3600
    assert len(caplog.records) == 12


@pytest.mark.parametrize("name", ["silence", "goaway_then_silence", "no_streams_allowed", "window_never_opened"])
async def test_keepalive_keeps_a_connection_to_an_unresponsive_server_that_answers_pings(
    name: str, autojump_clock
) -> None:
    """These servers answer PINGs, so only the callers' deadlines end the calls."""
    outcome = await perform(SCRIPTS[name], WireOptions(), Keepalive(10, 5))
    assert {status.code for status in outcome.statuses} == {StatusCode.DEADLINE_EXCEEDED}


@pytest.mark.parametrize("name", ["open_windows_and_no_reading", "ping_flood_of_the_deaf"])
async def test_keepalive_ends_the_calls_of_a_server_that_reads_no_more(name: str, autojump_clock) -> None:
    outcome = await perform(SCRIPTS[name], WireOptions(), Keepalive(10, 5))
    assert {status.code for status in outcome.statuses} == {StatusCode.UNAVAILABLE}
