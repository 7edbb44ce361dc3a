"""The subchannel pool: users lease the subchannel of an address, and the last release retires it.

Every live subchannel is a task in the pool's nursery and in no policy's, so a host that moves from one policy to
another keeps its connection. In an update one policy releases hosts before another leases them; between `begin_update`
and `end_update` the pool keeps them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from random import Random
from typing import Any, TypeAlias

import trio
from msgspec import Struct, structs

from trxds.core.backoff import Backoff
from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.connection_limit import ConnectionLimit
from trxds.core.observers import Observers
from trxds.core.status import Status, StatusCode

from .connect import Network
from .connection import Connection
from .connection_age import ConnectionAge
from .health_watch import HealthCheck
from .http_proxy import Proxied, proxied, through_proxy
from .keepalive import Keepalive
from .options import WireOptions
from .subchannel import DEFAULT_MAX_CONNECTIONS_CAP, Subchannel, SubchannelContext

Key: TypeAlias = tuple[str, Hashable]
"""An address, and the security that a user requires of the connection: None for no particular one."""

CLOSED = Status(StatusCode.CANCELLED, "channel closed")

_MAX_STARTS_PER_SLICE = 64  # subchannels, which take 30 µs each to start


class SubchannelPool:
    """All subchannels of a channel. Hosts can be leased at any time; they connect while `run()` runs.

    `subchannels` are the hosts that are leased, or kept for the present update. `secured` returns the network for a
    security that a user requires of its connections; without it none can be required. With a `health_check` the hosts
    are asked for their health (A17). `limit` is for users that bring none of their own (A105), and all limits are
    capped. Connections are replaced at their `age`. `on_stale` can be set to a function that has names resolved again.
    """

    def __init__(
        self,
        network: Network,
        options: WireOptions,
        random: Random,
        secured: Callable[[Hashable], Network] | None = None,
        keepalive: Keepalive | None = None,
        observers: Observers | None = None,
        health_check: HealthCheck | None = None,
        limit: ConnectionLimit | None = None,
        max_connections_cap: int = DEFAULT_MAX_CONNECTIONS_CAP,
        age: ConnectionAge | None = None,
    ) -> None:
        self.subchannels: dict[Key, Subchannel] = {}
        self._network = network
        self._secured = secured
        self._random = random
        self._limit = limit or ConnectionLimit()
        self._limit.bind(self.on_limit_change)
        self._leases: dict[Subchannel, Counter[tuple[ConflatingQueue[Any], ConnectionLimit]]] = {}
        self.on_stale: Callable[[], object] | None = None
        self._connections: dict[Connection, Subchannel] = {}  # with the draining ones of retired subchannels
        self._updates = 0
        # Subchannels to connect; None ends `run`.
        self._connect_requests: ConflatingQueue[Subchannel | None] = ConflatingQueue()
        self._context = SubchannelContext(
            options,
            keepalive,
            observers or Observers(),
            self._connections,
            self._request_connection,
            self._post_state,
            health_check,
            max_connections_cap,
            age,
            self._request_resolution,
        )
        self._is_closed = False
        self.for_policies = ClusterSubchannelPool(self, _no_security, self._limit)
        """The pool as load balancing policies see it, before any cluster's settings."""

    def __repr__(self) -> str:
        return f"<Pool {len(self.subchannels)} subchannels, {len(self._connections)} connections>"

    @property
    def has_security(self) -> bool:
        """Whether users can require a security of their connections."""
        return self._secured is not None

    @property
    def hosts(self) -> tuple[Subchannel, ...]:
        """The subchannels that are leased now, or kept for the present update."""
        return tuple(self.subchannels.values())

    @property
    def connections(self) -> tuple[Connection, ...]:
        """All open connections, with the draining ones of subchannels that were retired."""
        return tuple(self._connections)

    @property
    def draining(self) -> tuple[Subchannel, ...]:
        """The subchannels that were retired, and whose connections still have streams."""
        return tuple(dict.fromkeys(each for each in self._connections.values() if each.is_retired))

    async def run(self) -> None:
        """Run the subchannels until the pool is closed and the last connection has ended, or until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                while not self._is_closed:
                    await self._start(await self._connect_requests.next(), nursery)
        finally:
            self.close()

    async def _start(self, requests: Mapping[Hashable, Subchannel | None], nursery: trio.Nursery) -> None:
        """Start subchannels in slices, because ten thousand may be asked for in one step.

        The pool's task starts them, so a connection does not inherit the context of the pick that needed it (a tracing
        span, say).
        """
        for number, subchannel in enumerate(requests.values(), 1):
            if subchannel is not None:
                nursery.start_soon(subchannel.run, name=f"subchannel/{subchannel.address}")
            if not number % _MAX_STARTS_PER_SLICE:
                await trio.lowlevel.checkpoint()

    def set_max_connections(self, number: int) -> None:
        """Allow so many connections to each host, for users that do not say it themselves (A105). Synchronous."""
        self._limit.set(number)

    def use_health_check(self, check: HealthCheck | None) -> None:
        """Ask all hosts for this health from now on; with None, for none. Synchronous."""
        self._context.health_check = check
        # As in the C++ client and grpc-java: a check that is taken back keeps no host from calls.
        for subchannel in tuple(self.subchannels.values()):
            subchannel.watch_health()

    def close(self, status: Status = CLOSED) -> None:
        """Fail all streams with `status`, and make no more connections. Plain and idempotent."""
        # First, so that a policy that leases in its last step gets a subchannel that never connects.
        self._is_closed = True
        self._connect_requests.put("closed", None)
        for key in tuple(self.subchannels):
            self._retire(key)
        for connection in tuple(self._connections):
            connection.close(status)

    # -- leases

    def lookup(self, address: str, security: Hashable) -> Subchannel | None:
        """Return the subchannel of that address if it is leased or kept; take no lease."""
        return self.subchannels.get((address, security))

    def lease(self, address: str, queue: ConflatingQueue[Any], security: Hashable, limit: ConnectionLimit) -> Lease:
        """Lease a subchannel. Each later change of its state is an item `("host", address)` in `queue`."""
        key = (address, security)
        subchannel = self.subchannels.get(key)
        if subchannel is None:
            subchannel = self.subchannels[key] = self._make(key)
            self._leases[subchannel] = Counter()
        self._leases[subchannel][queue, limit] += 1
        # Most users allow one connection, and then nothing has to be computed.
        if limit.value > subchannel.working.max:
            self._update_limit(subchannel)
        return Lease(self, key, subchannel, queue, limit)

    def release(self, key: Key, subchannel: Subchannel, queue: ConflatingQueue[Any], limit: ConnectionLimit) -> None:
        """End a lease. Called once, by the lease."""
        leases = self._leases.get(subchannel)
        if leases is None:
            return  # `close` has retired it
        leases[queue, limit] -= 1
        if not leases[queue, limit]:
            del leases[queue, limit]
            if subchannel.working.max > 1:
                self._update_limit(subchannel)
            # A policy must not get a state of a host that it has released.
            queue.discard(("host", subchannel.address))
        # In an update another policy may still lease it, and then it keeps its connection.
        if not leases and not self._updates:
            self._retire(key)

    def begin_update(self) -> None:
        """Keep subchannels that lose their last lease, because another policy may lease them in this update."""
        self._updates += 1

    def end_update(self) -> None:
        """Retire subchannels without a lease, unless another update is under way."""
        self._updates -= 1
        if not self._updates:
            for key in [key for key, subchannel in self.subchannels.items() if not self._leases[subchannel]]:
                self._retire(key)

    # -- subchannels

    def _make(self, key: Key) -> Subchannel:
        address, security = key
        subchannel = Subchannel(address, self._network_for(security), self._context, Backoff(self._random))
        # A closed pool still gives out subchannels, which never connect: its users need no special case.
        if self._is_closed:
            subchannel.shut_down()
        return subchannel

    def _network_for(self, security: Hashable) -> Network:
        if isinstance(security, Proxied):
            return through_proxy(self._network_for(security.security), security.proxy)
        return self._network if security is None or self._secured is None else self._secured(security)

    def _request_connection(self, subchannel: Subchannel) -> None:
        self._connect_requests.put(subchannel, subchannel)

    def _post_state(self, subchannel: Subchannel) -> None:
        for queue, _ in self._leases.get(subchannel, ()):
            queue.put(("host", subchannel.address), subchannel)

    def _update_limit(self, subchannel: Subchannel) -> None:
        # A105: of several users the one with the highest number counts.
        limits = [limit.value for _, limit in self._leases[subchannel]]
        if limits:  # otherwise it is kept for the present update, as it is
            subchannel.set_max_connections(max(limits))

    def on_limit_change(self, changed: ConnectionLimit) -> None:
        """Apply a limit that has changed to the hosts that are leased with it."""
        for subchannel, leases in self._leases.items():
            if any(limit is changed for _, limit in leases):
                self._update_limit(subchannel)

    def _request_resolution(self) -> None:
        if self.on_stale is not None:
            self.on_stale()

    def _retire(self, key: Key) -> None:
        subchannel = self.subchannels.pop(key)
        del self._leases[subchannel]
        subchannel.shut_down()


def _no_security(address: str) -> Hashable:
    return None


class ClusterSubchannelPool(Struct, eq=False):
    """The pool with the security, the proxies and the limit of one cluster.

    Each of the three methods that set one of them keeps the others.
    """

    _pool: SubchannelPool
    _security: Callable[[str], Hashable]
    _limit: ConnectionLimit

    def with_security(self, security: Callable[[str], Hashable]) -> ClusterSubchannelPool:
        """Return the same pool for a user that requires a security of the connection to each address."""
        return structs.replace(self, _security=security) if self._pool.has_security else self

    def with_limit(self, limit: ConnectionLimit) -> ClusterSubchannelPool:
        """Return the same pool for a user that allows so many connections to each host (A105)."""
        limit.bind(self._pool.on_limit_change)
        return structs.replace(self, _limit=limit)

    def with_proxies(self, proxy: Callable[[str], str]) -> ClusterSubchannelPool:
        """Return the same pool for a user that reaches each address through a proxy, or directly (A86)."""
        return structs.replace(self, _security=partial(proxied, self._security, proxy))

    def lookup(self, address: str) -> Subchannel | None:
        return self._pool.lookup(address, self._security(address))

    def lease(self, address: str, queue: ConflatingQueue[Any]) -> Lease:
        return self._pool.lease(address, queue, self._security(address), self._limit)


class Lease(Struct, eq=False):
    """One user's share in a subchannel, until `release()`."""

    _pool: SubchannelPool | None
    _key: Key
    subchannel: Subchannel
    _queue: ConflatingQueue[Any]
    _limit: ConnectionLimit

    def release(self) -> None:
        """Release the share. Plain and idempotent; any task may do it."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.release(self._key, self.subchannel, self._queue, self._limit)

    def __repr__(self) -> str:
        return f"<Lease {self.subchannel.address}{'' if self._pool else ' released'}>"
