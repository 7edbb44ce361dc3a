"""The leases of one node keep its subchannels: those that its decisions name, and those that its picks acquire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trxds.core.conflating_queue import ConflatingQueue
from trxds.resources.cooperative_parse import Slices

from .interfaces import Lease, SubchannelInterface, SubchannelPoolInterface
from .subtree import Ejections

_SLICE_SIZE = 256  # hosts, at 10 µs each

# One for all nodes that lease nothing, which are most; replaced by a dict of its own with a node's first lease.
_NO_LEASES: dict[str, Lease] = {}
_NO_HOSTS: Mapping[str, SubchannelInterface] = {}


class Leases:
    """The leases of one node. Each change of a leased host's state is a message in `queue`.

    From the first decision that leases, the queue also gets a message when `ejections` of a leased address change.
    """

    __slots__ = ("_ejections", "_hosts", "_is_closed", "_of_picks", "_queue", "hosts", "of_decision", "wanted")

    def __init__(self, hosts: SubchannelPoolInterface, queue: ConflatingQueue[Any], ejections: Ejections) -> None:
        self.of_decision = _NO_LEASES
        # Apart, because a decision releases every lease that it does not name.
        self._of_picks = _NO_LEASES
        self._hosts = hosts
        self._queue = queue
        self._ejections = ejections
        self.wanted: tuple[str, ...] = ()  # the argument of the last `lease_exactly`
        self.hosts: Mapping[str, SubchannelInterface] = _NO_HOSTS  # of the last decision, for the next one
        self._is_closed = False

    def all_hosts(self) -> Mapping[str, SubchannelInterface]:
        """Return all leased hosts by address, those of picks too."""
        if not self._of_picks:
            return self.hosts
        return {**self.hosts, **{address: lease.subchannel for address, lease in self._of_picks.items()}}

    def lease_exactly(self, wanted: tuple[str, ...]) -> Slices[bool]:
        """Lease these addresses and release all others; return whether any is new."""
        self.wanted = wanted
        if self.of_decision is _NO_LEASES:
            self.of_decision = {}
            # The live dict and not a copy: an ejection is compared with what is leased when it happens.
            self._ejections.subscribe(self._queue, self.of_decision)
        # Without duplicates: a decision may name an address twice.
        addresses = dict.fromkeys(wanted)
        new = [address for address in addresses if address not in self.of_decision]
        for number, address in enumerate(new, 1):
            self.of_decision[address] = self._hosts.lease(address, self._queue)
            if not number % _SLICE_SIZE:
                yield
        # All wanted addresses are leased by now, so equal sizes mean that there is nothing to release.
        if len(self.of_decision) > len(addresses):
            # In order, so that connections end in the same order in each process.
            for address in [address for address in self.of_decision if address not in addresses]:
                self.of_decision.pop(address).release()
        self.hosts = {address: lease.subchannel for address, lease in self.of_decision.items()}
        return bool(new)

    def connect(self, addresses: Iterable[str]) -> Slices[None]:
        """Ask those of the addresses for a connection that are leased."""
        for number, address in enumerate(addresses, 1):
            lease = self.of_decision.get(address) or self._of_picks.get(address)
            if lease is not None:
                lease.subchannel.request_connection()
            if not number % _SLICE_SIZE:
                yield

    def acquire(self, address: str) -> SubchannelInterface:
        """Lease an address for a pick, once."""
        if address not in self._of_picks:
            lease = self._hosts.lease(address, self._queue)
            if self._is_closed:
                # The picker has outlived the node, so nothing else would release this lease.
                lease.release()
                return lease.subchannel
            if self._of_picks is _NO_LEASES:
                self._of_picks = {}
            self._of_picks[address] = lease
        return self._of_picks[address].subchannel

    def release(self, address: str) -> None:
        """Release the lease of a pick, if there is one."""
        lease = self._of_picks.pop(address, None)
        if lease is not None:
            lease.release()
            # The lease takes the host's unread message with it, so an RPC that waits for the host has to pick again.
            self._queue.put("released", None)

    def release_all(self) -> None:
        """Release all leases, because the node has ended."""
        self._is_closed = True
        for lease in (*self.of_decision.values(), *self._of_picks.values()):
            lease.release()
