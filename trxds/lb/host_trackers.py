"""What the policies of one cluster want to hear of every RPC to a host, whoever chose the host.

A session's RPC passes by the policy that balances everybody else. Without this least_request would not see it in flight
(A48) and weighted_round_robin would not read the load report that it brings (A58). So a policy attaches its trackers to
addresses, and who picks hosts above it takes them along: a port from below to above, as `Health` is one to below.
"""

from __future__ import annotations

from collections.abc import Mapping

from .pick import Tracker


class HostTrackers:
    """`changes` counts up with each change, for those who keep what they looked up."""

    __slots__ = ("_attached", "changes")

    def __init__(self) -> None:
        self._attached: dict[object, Mapping[str, Tracker]] = {}
        self.changes = 0

    def attach(self, owner: object, trackers: Mapping[str, Tracker]) -> None:
        """These by address, instead of those that `owner` had attached."""
        if trackers:
            self._attached[owner] = trackers
            self.changes += 1
        else:
            self.detach(owner)

    def detach(self, owner: object) -> None:
        """Also if it has attached none."""
        if self._attached.pop(owner, None) is not None:
            self.changes += 1

    def of(self, address: str) -> tuple[Tracker, ...]:
        """Those for one host; several if several policies have it, as the leaves of two localities may."""
        found = [trackers[address] for trackers in self._attached.values() if address in trackers]
        return tuple(found)
