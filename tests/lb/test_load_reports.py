"""A stream of load reports (A51) survives everything that a host sends, except UNIMPLEMENTED."""

import math
from itertools import pairwise
from random import Random

import pytest
import trio
from support.policies import READY, FakeHost
from xds.data.orca.v3.orca_load_report_pb2 import OrcaLoadReport

from trxds.core.status import Status, StatusCode
from trxds.lb.load_report.orca_oob import watch_load_reports
from trxds.resources.orca import LoadReport


class Reporting(FakeHost):
    """A host whose calls for reports send the next of these lists, raise its exceptions, and are then UNIMPLEMENTED."""

    def __init__(self, *calls):
        super().__init__("a", READY)
        self.calls = list(calls)
        self.began = []

    async def listen(self, path, request, heard):
        self.began.append(trio.current_time())
        if not self.calls:
            return Status(StatusCode.UNIMPLEMENTED)
        for said in self.calls.pop(0):
            if isinstance(said, Exception):
                raise said
            heard(said)
            await trio.sleep(1)
        return Status(StatusCode.UNAVAILABLE)


def orca(**fields):
    return OrcaLoadReport(**fields).SerializeToString()


GOOD = orca(cpu_utilization=0.5, rps_fractional=100)


async def test_an_invalid_load_report_is_skipped_and_the_next_one_read(autojump_clock):
    taken = []
    host = Reporting([b"\xff", orca(cpu_utilization=math.nan, eps=-50), GOOD])
    await watch_load_reports(host, 1.0, lambda report, now: taken.append(report), Random(1))
    assert taken == [LoadReport(), LoadReport(0.5, 100)]


async def test_an_exception_of_the_report_handler_does_not_end_the_stream(autojump_clock, caplog):
    taken = []

    def take(report, now):
        taken.append(report)
        if len(taken) == 1:
            raise ZeroDivisionError

    await watch_load_reports(Reporting([GOOD, GOOD], [GOOD]), 1.0, take, Random(1))
    assert len(taken) == 3
    assert "a load report of a made its policy raise" in caplog.text


async def test_a_load_report_stream_that_ends_after_a_report_is_opened_again_at_once(autojump_clock):
    host = Reporting([GOOD], [GOOD])
    with trio.move_on_after(1.5):
        await watch_load_reports(host, 1.0, lambda report, now: None, Random(1))
    assert host.began == [0.0, 1.0]


async def test_a_load_report_stream_that_ends_without_a_report_is_opened_again_after_a_backoff(autojump_clock):
    host = Reporting([], [], [])
    await watch_load_reports(host, 1.0, lambda report, now: None, Random(1))
    delays = [later - earlier for earlier, later in pairwise(host.began)]
    assert delays == [pytest.approx(1, rel=0.2), pytest.approx(1.6, rel=0.2), pytest.approx(2.56, rel=0.2)]


async def test_a_host_that_ends_each_load_report_stream_is_not_asked_without_a_pause(autojump_clock):
    host = Reporting([GOOD], [GOOD], [GOOD], [GOOD])
    await watch_load_reports(host, 1.0, lambda report, now: None, Random(1))
    pauses = [round(later - earlier - 1.0, 6) for earlier, later in pairwise(host.began)]
    assert pauses == [0.0, pytest.approx(1, rel=0.2), 0.0, pytest.approx(1, rel=0.2)]


async def test_a_load_report_stream_that_raises_is_opened_again(autojump_clock, caplog):
    taken = []
    host = Reporting([RuntimeError("of the connection")], [GOOD])
    await watch_load_reports(host, 1.0, lambda report, now: taken.append(report), Random(1))
    assert len(taken) == 1
    assert "listening to the load reports of a failed" in caplog.text
