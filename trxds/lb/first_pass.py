"""In the first pass of a cluster's hosts each of them connects or fails once; the first calls of sessions wait for it.

A session stays where its first call went. Without the wait all sessions that are opened on a new channel would stay on
the host that is READY first. grpc-go's pick_first has the term, `firstPass`, for the same of one list of addresses.
"""

from __future__ import annotations

import math

import trio

from trxds.core.arguments import check_number
from trxds.core.connectivity import Connectivity

SPREAD_WITHIN = 0.2  # seconds


class FirstPass:
    """The first pass of one cluster's hosts: it happens once, and hosts that are added later make no call wait.

    It begins when the first host is READY, because until then all calls wait. It ends when all hosts of the child
    policy are READY or have failed, at most `spread_within` seconds later, at `ends_at` (on Trio's clock).
    """

    def __init__(self, spread_within: float) -> None:
        self.ends_at = math.inf  # unknown until it begins
        self._spread_within = spread_within
        self._ended = trio.Event()

    def update(self, state: Connectivity, in_first_pass: bool, now: float) -> bool:
        """Take over the child policy's report; return whether the first calls of sessions have to wait."""
        if self._ended.is_set():
            return False
        if self.ends_at == math.inf:
            if state is not Connectivity.READY:
                return False
            self.ends_at = now + self._spread_within
        if not in_first_pass or now >= self.ends_at:
            self._ended.set()
            return False
        # In another state the child's picker says what happens: if the only READY host is lost, all calls wait again.
        return state is Connectivity.READY

    async def wait_ended(self) -> None:
        """Wait for the end. A caller has to stop at `ends_at`: the policy that updates this may be removed before."""
        await self._ended.wait()

    def __str__(self) -> str:
        return "all hosts to connect or fail, so that sessions spread"


def check_spread_within(seconds: float) -> float:
    """Return `spread_within`; `ValueError` unless it is a finite number of seconds from 0."""
    form = "a finite number of seconds from 0, which is no wait"
    check_number("spread_within", seconds, lambda seconds: 0 <= seconds < math.inf, form)
    return seconds
