"""What was resolved last, and what is told of failures."""

import logging

import pytest
import trio

from trxds.core.conflating_queue import ConflatingQueue
from trxds.resolver.latest_resolution import LatestResolution


@pytest.fixture
def queue():
    return ConflatingQueue()


@pytest.fixture
def latest(queue):
    return LatestResolution("target my:///cart", queue, "name")


def fail(latest):
    latest.fail(lambda since: f"cannot be resolved since {since}", trio.current_time())


async def news(queue):
    """The present message, or None."""
    return (await queue.next(trio.current_time())).get("name")


async def test_a_failure_that_goes_on_is_told_once_with_the_time_of_the_first(latest, queue, autojump_clock):
    fail(latest)
    assert await news(queue)
    await trio.sleep(60)
    fail(latest)
    assert await news(queue) is None


async def test_each_outage_has_the_time_of_its_own_first_failure(latest, queue, autojump_clock, monkeypatch):
    monkeypatch.setattr("trxds.resolver.latest_resolution.time_of_day", lambda now: f"{now:.0f} s")
    fail(latest)
    assert (await news(queue)).error.message == "cannot be resolved since 0 s"
    latest.succeed("address")
    await trio.sleep(60)
    fail(latest)
    assert (await news(queue)).ambient.message == "cannot be resolved since 60 s"


async def test_the_same_result_again_is_no_news(latest, queue, autojump_clock):
    latest.succeed("address")
    assert (await news(queue)).value == "address"
    latest.succeed("address")
    assert await news(queue) is None


async def test_nothing_is_told_after_the_end(latest, queue, autojump_clock):
    latest.succeed("address")
    latest.close()
    assert await news(queue) is None
    latest.succeed("other")
    assert await news(queue) is None


async def test_a_failure_is_logged_whether_or_not_something_was_resolved_before(latest, queue, autojump_clock, caplog):
    fail(latest)
    latest.succeed("address")
    await trio.sleep(60)
    fail(latest)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2


async def test_the_end_of_a_failure_is_logged_once_also_if_the_result_is_the_one_before(
    latest, autojump_clock, caplog, monkeypatch
):
    monkeypatch.setattr("trxds.resolver.latest_resolution.time_of_day", lambda now: f"{now:.0f} s")
    caplog.set_level(logging.INFO)
    latest.succeed("address")
    fail(latest)
    caplog.clear()
    latest.succeed("address")
    latest.succeed("address")
    assert caplog.messages == ["target my:///cart is resolved again; it had failed since 0 s"]
