"""The leases of one node: those that its decisions ask for, and those that its picks take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trxds.core.conflating_queue import ConflatingQueue
from trxds.resources.cooperative_parse import Slices

from .interfaces import Lease, SubchannelInterface, SubchannelPoolInterface

_A_SLICE = 256  # hosts, at 10 µs each


class Leases:
    """`decided` are the former, by address. News of all of them come to `mailbox`."""

    __slots__ = ("_hosts", "_mailbox", "_over", "_picked", "decided", "hosts", "wanted")

    def __init__(self, hosts: SubchannelPoolInterface, mailbox: ConflatingQueue[Any]) -> None:
        self.decided: dict[str, Lease] = {}
        self._picked: dict[str, Lease] = {}
        self._hosts = hosts
        self._mailbox = mailbox
        self.wanted: tuple[str, ...] = ()  # at the last `lease_exactly`; seldom anything else, for any news of a host
        self.hosts: Mapping[str, SubchannelInterface] = {}  # by that: what a decision may look at
        self._over = False

    def all(self) -> Mapping[str, SubchannelInterface]:
        """Those that picks have taken as well."""
        if not self._picked:
            return self.hosts
        return {**self.hosts, **{address: lease.subchannel for address, lease in self._picked.items()}}

    def lease_exactly(self, wanted: tuple[str, ...]) -> Slices[bool]:
        """Take what is missing and let go of what is not wanted; True if there are new ones."""
        self.wanted = wanted
        addresses = dict.fromkeys(wanted)
        new = [address for address in addresses if address not in self.decided]
        for number, address in enumerate(new, 1):
            self.decided[address] = self._hosts.lease(address, self._mailbox)
            if not number % _A_SLICE:
                yield
        if len(self.decided) > len(addresses):
            for address in self.decided.keys() - addresses.keys():
                self.decided.pop(address).release()
        self.hosts = {address: lease.subchannel for address, lease in self.decided.items()}
        return bool(new)

    def connect(self, addresses: Iterable[str]) -> Slices[None]:
        """Those of them that are leased at all."""
        for number, address in enumerate(addresses, 1):
            lease = self.decided.get(address) or self._picked.get(address)
            if lease is not None:
                lease.subchannel.request_connection()
            if not number % _A_SLICE:
                yield

    def acquire(self, address: str) -> SubchannelInterface:
        """For a pick: lease the address, once."""
        if address not in self._picked:
            lease = self._hosts.lease(address, self._mailbox)
            if self._over:
                # The picker outlived us by a moment; nobody else would let go of what it takes.
                lease.release()
                return lease.subchannel
            self._picked[address] = lease
        return self._picked[address].subchannel

    def release(self, address: str) -> None:
        """Of what a pick has taken."""
        lease = self._picked.pop(address, None)
        if lease is not None:
            lease.release()
            # The host's last letter went with the lease; whoever waits for it has to look again.
            self._mailbox.put("released", None)

    def release_all(self) -> None:
        """All of them: the node has ended."""
        self._over = True
        for lease in (*self.decided.values(), *self._picked.values()):
            lease.release()
