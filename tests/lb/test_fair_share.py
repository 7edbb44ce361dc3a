"""The fair share of each host is that of round robin below its locality, over the hosts that take new sessions."""

import pytest

from trxds.lb.fair_share import fair_shares
from trxds.resources.endpoint import Endpoint, HealthStatus

A, B, C, D = (Endpoint((f"10.0.0.{number}:1",)) for number in range(1, 5))
DRAINING = Endpoint(("10.0.0.9:1", "10.0.0.10:1"), health=HealthStatus.DRAINING)


def shares(*priorities, down=()):
    return dict(fair_shares(priorities, lambda endpoint: endpoint not in down))


@pytest.mark.parametrize(
    ("priorities", "down", "expected"),
    [
        ([[(1, [A, B])]], (), {A: 0.5, B: 0.5}),
        ([[(1, [A, B]), (3, [C])]], (), {A: 0.125, B: 0.125, C: 0.75}),
        ([[(1, [A, DRAINING])]], (), {A: 1.0}),
        ([[(1, [A, B]), (3, [C])]], (C,), {A: 0.5, B: 0.5}),
        ([[(1, [A])], [(1, [B])]], (), {A: 1.0}),
        ([[(1, [A])], [(1, [B, C])]], (A,), {B: 0.5, C: 0.5}),
        ([[(1, [A])]], (A,), {}),
        ([], (), {}),
    ],
)
def test_hosts_that_take_new_sessions_share_them_by_the_weights_of_their_localities(priorities, down, expected):
    assert shares(*priorities, down=down) == expected
