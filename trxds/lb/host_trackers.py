"""Policies attach trackers to hosts, to be called for every RPC there, also for those that they did not pick.

A session's RPC goes past the policy that balances all others. Without this least_request would not see it in flight
(A48) and weighted_round_robin would not read the load report that it brings (A58). So a policy attaches its trackers to
addresses, and override_host adds them to its picks. Trackers go up the tree, as `Ejections` go down.
"""

from __future__ import annotations

from collections.abc import Mapping

from .pick import Tracker


class HostTrackers:
    """The trackers of one cluster by address. `changes` counts the changes, so that callers can cache."""

    __slots__ = ("_attached", "changes")

    def __init__(self) -> None:
        self._attached: dict[object, Mapping[str, Tracker]] = {}
        self.changes = 0

    def attach(self, owner: object, trackers: Mapping[str, Tracker]) -> None:
        """Attach these trackers, by address, in place of those that `owner` had attached."""
        if trackers:
            self._attached[owner] = trackers
            self.changes += 1
        else:
            self.detach(owner)

    def detach(self, owner: object) -> None:
        """Remove the trackers of `owner`, if it has attached any."""
        if self._attached.pop(owner, None) is not None:
            self.changes += 1

    def of(self, address: str) -> tuple[Tracker, ...]:
        """Return the trackers of one host; several if several policies have it, as the leaves of two localities may."""
        return tuple([trackers[address] for trackers in self._attached.values() if address in trackers])
