"""Changes follow each other at once, until they never stop."""

import pytest

from trxds.resolver.dependency_manager import BURST, INTERVAL, UpdateRateLimiter


def spend(pace, changes, now=0.0):
    for _ in range(changes):
        pace.take(now)


def test_the_first_configuration_changes_need_not_wait():
    pace = UpdateRateLimiter()
    spend(pace, BURST - 1)
    assert pace.ready_at(0.0) == pytest.approx(0.0)


def test_configuration_changes_after_a_burst_come_one_an_interval():
    pace = UpdateRateLimiter()
    spend(pace, BURST)
    assert pace.ready_at(0.0) == pytest.approx(INTERVAL)
    pace.take(INTERVAL)
    assert pace.ready_at(INTERVAL) == pytest.approx(2 * INTERVAL)


def test_a_pause_allows_one_more_burst_of_configuration_changes():
    pace = UpdateRateLimiter()
    spend(pace, BURST)
    spend(pace, BURST, now=1000.0)
    assert pace.ready_at(1000.0) > 1000.0
