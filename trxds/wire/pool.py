"""Address to subchannel, by lease: whoever uses a host leases it, and the last to let go retires it.

Every live subchannel is a task in the pool's nursery and in no policy's, so a host that moves from
one policy to another keeps its connection. A policy that is told of a new configuration lets go of
hosts before another takes them; between `begin_change` and `end_change` the pool keeps them for it.
"""

from __future__ import annotations

import contextvars
from collections import Counter
from functools import partial
from random import Random
from typing import Any

import trio

from trxds.ground.backoff import Backoff
from trxds.ground.channels import Mailbox
from trxds.ground.status import Status, StatusCode
from trxds.wire.connect import Network
from trxds.wire.connection import Connection
from trxds.wire.options import WireOptions
from trxds.wire.subchannel import Subchannel

CLOSED = Status(StatusCode.CANCELLED, "channel closed")


class Pool:
    """Lease hosts at any time; they connect while `run()` runs.

    `subchannels` are the hosts that are leased, or kept for the change that is under way.
    """

    def __init__(self, network: Network, options: WireOptions, random: Random) -> None:
        self.subchannels: dict[str, Subchannel] = {}
        self._network = network
        self._options = options
        self._random = random
        self._leases: dict[str, Counter[Mailbox[Any]]] = {}
        self._connections: set[Connection] = set()  # also the draining ones of retired subchannels
        self._changes = 0
        self._early: list[Subchannel] = []  # asked to connect before run() began
        self._nursery: trio.Nursery | None = None
        self._context = contextvars.Context()
        self._closed = trio.Event()

    def __repr__(self) -> str:
        return f"<Pool {len(self.subchannels)} subchannels, {len(self._connections)} connections>"

    async def run(self) -> None:
        """Until it is closed and the last connection is gone, or cancelled."""
        # A connection begun by a pick must not inherit that RPC's context (its tracing span, say).
        self._context = contextvars.copy_context()
        try:
            async with trio.open_nursery() as self._nursery:
                for subchannel in self._early:
                    self._start(subchannel)
                await self._closed.wait()
        finally:
            self._nursery = None
            self.close()

    def close(self, status: Status = CLOSED) -> None:
        """Fail all streams with `status`, and connect to nobody any more. Plain and idempotent."""
        self._closed.set()
        for address in tuple(self.subchannels):
            self._retire(address)
        for connection in tuple(self._connections):
            connection.close(status)

    # -- leases

    def find(self, address: str) -> Subchannel | None:
        """The host of that address if anybody leases it; takes no lease."""
        return self.subchannels.get(address)

    def lease(self, address: str, mailbox: Mailbox[Any]) -> Lease:
        """Have a share in a host. Each later change of its state is a letter `("host", address)`."""
        subchannel = self.subchannels.get(address)
        if subchannel is None:
            subchannel = self.subchannels[address] = self._make(address)
            self._leases[address] = Counter()
        self._leases[address][mailbox] += 1
        return Lease(self, subchannel, mailbox)

    def release(self, subchannel: Subchannel, mailbox: Mailbox[Any]) -> None:
        """Called by a lease, once."""
        leases = self._leases.get(subchannel.address)
        if leases is None or self.subchannels.get(subchannel.address) is not subchannel:
            return  # the pool was closed
        leases[mailbox] -= 1
        if not leases[mailbox]:
            del leases[mailbox]
            mailbox.withdraw(("host", subchannel.address))
        if not leases and not self._changes:
            self._retire(subchannel.address)

    def begin_change(self) -> None:
        """Keep hosts that lose their last lease, for somebody may be about to take them."""
        self._changes += 1

    def end_change(self) -> None:
        """Everybody has taken what they want: the rest is retired, unless another change is under way."""
        self._changes -= 1
        if not self._changes:
            for address in [address for address, leases in self._leases.items() if not leases]:
                self._retire(address)

    # -- subchannels

    def _make(self, address: str) -> Subchannel:
        subchannel = Subchannel(
            address,
            self._network,
            self._options,
            Backoff(self._random),
            connections=self._connections,
            start=self._start,
            changed=self._post,
        )
        if self._closed.is_set():
            subchannel.retire()
        return subchannel

    def _start(self, subchannel: Subchannel) -> None:
        if self._nursery is None:
            self._early.append(subchannel)
        else:
            name = f"subchannel/{subchannel.address}"
            self._context.run(partial(self._nursery.start_soon, subchannel.live, name=name))

    def _post(self, subchannel: Subchannel) -> None:
        for mailbox in self._leases.get(subchannel.address, ()):
            mailbox.put(("host", subchannel.address), subchannel)

    def _retire(self, address: str) -> None:
        del self._leases[address]
        self.subchannels.pop(address).retire()


class Lease:
    """One share in a host, until `release()`."""

    __slots__ = ("_mailbox", "_pool", "subchannel")

    def __init__(self, pool: Pool, subchannel: Subchannel, mailbox: Mailbox[Any]) -> None:
        self.subchannel = subchannel
        self._mailbox = mailbox
        self._pool: Pool | None = pool

    def release(self) -> None:
        """Let go. Plain and idempotent; any task may do it."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.release(self.subchannel, self._mailbox)

    def __repr__(self) -> str:
        return f"<Lease {self.subchannel.address}{'' if self._pool else ' released'}>"
