"""Mirroring has limits: on calls, bytes and time, and those of the mirror cluster."""

import logging

import pytest
import trio
from support.logs import lines
from support.mesh import ask, method
from support.mirroring import settled, shadowed

from trxds import Mirroring
from trxds.testing import resources as xds


async def test_copies_beyond_max_calls_are_dropped_and_counted(autojump_clock):
    async with shadowed(mirroring=Mirroring(max_calls=2)) as made:
        made.shadow.seconds = 1
        for _ in range(5):
            await ask(made.channel)
        assert made.notes.results == ["too_many"] * 3
        await trio.sleep(2)
        assert made.notes.results == ["too_many"] * 3 + ["completed"] * 2
        await ask(made.channel)
        await trio.sleep(2)
        assert made.notes.results[-1] == "completed"


async def test_a_copy_of_a_request_beyond_max_bytes_is_dropped_and_counted(autojump_clock):
    async with shadowed(mirroring=Mirroring(max_bytes=10)) as made:
        await method(made.channel)(b"x" * 11)
        await method(made.channel)(b"x" * 10)
        await settled()
        assert made.notes.results == ["too_large", "completed"]
        assert made.shadow.requests == [b"x" * 10]


async def test_copies_share_max_bytes(autojump_clock):
    async with shadowed(mirroring=Mirroring(max_bytes=10)) as made:
        made.shadow.seconds = 1
        await method(made.channel)(b"x" * 6)
        await method(made.channel)(b"x" * 6)
        await trio.sleep(2)
        await method(made.channel)(b"x" * 6)
        await trio.sleep(2)
        assert made.notes.results == ["too_large", "completed", "completed"]


async def test_a_copy_has_a_deadline_of_its_own(autojump_clock):
    async with shadowed(mirroring=Mirroring(timeout=3)) as made:
        made.shadow.seconds = 10
        await ask(made.channel)
        await trio.sleep(2.9)
        assert not made.notes.all
        await trio.sleep(0.2)
        assert made.notes.results == ["timeout"]
        assert made.shadow.calls[0].timeout == pytest.approx(3, abs=0.1)


async def test_the_calls_deadline_ends_its_copy_too(autojump_clock):
    async with shadowed(mirroring=Mirroring(timeout=30)) as made:
        made.shadow.seconds = 10
        await ask(made.channel, timeout=2)
        await trio.sleep(2.1)
        assert made.notes.results == ["timeout"]


async def test_a_copy_does_not_wait_for_ready(autojump_clock):
    async with shadowed() as made:
        made.mesh.endpoints("shadow")
        await ask(made.channel)
        await settled()
        await ask(made.channel, wait_for_ready=True)
        await settled()
        assert made.notes.results[-1] == "not_sent"


async def test_the_circuit_breaker_of_the_mirror_cluster_counts_copies(autojump_clock):
    async with shadowed() as made:
        made.mesh.plane.put({**xds.cluster("shadow"), "circuit_breakers": {"thresholds": [{"max_requests": 1}]}})
        made.shadow.seconds = 1
        await ask(made.channel)
        await settled()
        await ask(made.channel)
        await settled()
        assert made.notes.results == ["not_sent"]
        assert made.notes.all[0].status.message.endswith("circuit breaker drop")
        await trio.sleep(2)
        assert made.notes.results == ["not_sent", "completed"]


async def test_the_load_report_of_the_mirror_cluster_has_copies(autojump_clock):
    async with shadowed() as made:
        made.mesh.plane.put(xds.cluster("shadow") | xds.load_reports())
        made.mesh.plane.load.ask(interval=10)
        await ask(made.channel)
        await ask(made.channel)
        stats = (await made.mesh.plane.load.next_report()).clusters["shadow"]
        assert sum(each.total_successful_requests for each in stats.upstream_locality_stats) == 2


async def test_the_first_copy_that_was_dropped_is_logged(autojump_clock, caplog):
    caplog.set_level(logging.INFO, "trxds.client")
    async with shadowed(mirroring=Mirroring(max_calls=1)) as made:
        made.shadow.seconds = 1
        for _ in range(4):
            await ask(made.channel)
    assert [each for each in lines(caplog, "client") if "copy" in each] == [
        'xds:///shop: a copy of a call to cluster "shadow" was not completed: '
        "as many as Mirroring.max_calls are under way"
    ]
