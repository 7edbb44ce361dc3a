"""`Backoff` has the numbers of gRPC's connection backoff."""

from random import Random

import pytest

from trxds.core.backoff import Backoff


class Middle(Random):
    """A generator that always returns the middle."""

    def uniform(self, low, high):
        return (low + high) / 2


def test_backoff_delays_grow_by_the_multiplier_up_to_the_maximum():
    backoff = Backoff(Middle())
    assert [backoff.next() for _ in range(4)] == pytest.approx([1, 1.6, 2.56, 4.096])
    for _ in range(20):
        last = backoff.next()
    assert last == 120


def test_backoff_delays_vary_by_20_percent():
    backoff = Backoff(Random(1), multiplier=1)
    delays = [backoff.next() for _ in range(1000)]
    assert 0.8 <= min(delays) < 0.82
    assert 1.18 < max(delays) <= 1.2


def test_a_reset_backoff_begins_with_the_first_delay():
    backoff = Backoff(Middle())
    backoff.next()
    backoff.next()
    backoff.reset()
    assert backoff.next() == 1
