"""A pinned call goes to one host, whatever the policies would choose (`Method.on`).

Each of its attempts goes to that host. The call has a lease of its own, so a host that no policy has connected is
connected for it. Circuit breaker, drops, load reports and outlier detection of the host's cluster count it like others:
the pick goes down the cluster's pickers to override_host, which takes the host that it is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio
from msgspec import structs

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.connectivity import Connectivity
from trxds.core.status import unavailable
from trxds.lb.interfaces import Lease, SubchannelPoolInterface
from trxds.lb.pick import QUEUE, Complete, Fail, Override, PickArgs, PickResult

from .attempt import Attempt
from .channel_state import ChannelState
from .dataplane import DataPlane
from .hosts import Host, find_cluster
from .rpc import Rpc

# How long a wait for the host lasts at most before the configuration is looked at again: the host may have left.
_LOOK_AGAIN = 1.0  # seconds


class PinnedRpc(Rpc):
    """An RPC to one host. It belongs to no session, takes no cookie, and is neither hedged nor copied (mirroring)."""

    is_pinned = True
    __slots__ = ("_host", "_pinned")

    def __init__(self, host: Host, channel: ChannelState, *of_call: Any) -> None:
        super().__init__(channel, *of_call)
        self._host = host
        self._pinned = PinnedChannel(channel, host)

    def new_attempt(self, number: int = 0, refusals: int = 0, transparent: bool = False) -> Attempt:
        route = self.route
        # The session filter, which has run by now, does not choose the host.
        route.args.cluster, route.args.override = self._host.cluster, None
        # `Rpc.open` leaves this out for a pinned call: it has the route's cluster, and the call goes to the host's.
        if self.telemetry is not None and self.attempt is None:
            self.telemetry.record_route(self._host.cluster, False)
        attempt = super().new_attempt(number, refusals, transparent)
        attempt.channel = self._pinned
        return attempt

    def close(self) -> None:
        super().close()
        self._pinned.close()


class PinnedChannel:
    """The channel as the attempts of a pinned call see it: its picker always gives the call's host.

    It takes the place of the channel's state and of its data plane.
    """

    def __init__(self, channel: ChannelState, host: Host) -> None:
        self.authority = channel.authority
        self.now: Callable[[], float] = channel.now
        self._channel = channel
        self._host = host
        self._queue: ConflatingQueue[Any] = ConflatingQueue()
        self._lease: Lease | None = None
        self._pool: SubchannelPoolInterface | None = None
        self._found_in: object = None  # the endpoints that have the host

    @property
    def data_plane(self) -> PinnedChannel:
        return self

    @property
    def current(self) -> DataPlane | None:
        """Return the data plane in force, with this picker."""
        current = self._channel.data_plane.current
        return None if current is None else structs.replace(current, picker=self)

    async def wait_for_change(self, plane: DataPlane) -> DataPlane:
        """Wait for news of the host, or of the configuration; return the data plane then."""
        live = self._channel.data_plane
        # The identity of `plane` says nothing here, because `current` makes another one each time.
        if self._lease is not None:
            await self._queue.next(trio.current_time() + _LOOK_AGAIN)
        elif live.current is not None:
            with trio.move_on_after(_LOOK_AGAIN):
                await live.wait_for_change(live.current)
        return structs.replace(await live.wait_for_change(None), picker=self)

    def pick(self, call: PickArgs) -> PickResult:
        """Give the call its host; connect it if it is IDLE."""
        host, tree = self._host, self._channel.data_plane.tree
        assert tree is not None  # it ends with the data plane, whose picker this is
        cluster = find_cluster(tree, self._channel.lifecycle.target, host.cluster, host.aggregate)
        if cluster is None:
            return _fail(host, f"no policy has cluster {host.cluster} any more")
        # A cluster may have ten thousand endpoints, and a call that waits picks again and again.
        if cluster.source is not self._found_in:
            if not cluster.has(host.address):
                return _fail(host, f"it is no endpoint of cluster {host.cluster} any more")
            self._found_in = cluster.source
        subchannel = self._lease_from(cluster.pool).subchannel
        if subchannel.state is Connectivity.TRANSIENT_FAILURE:
            return _fail(host, subchannel.error.message if subchannel.error is not None else "it cannot be reached")
        if subchannel.state is not Connectivity.READY or cluster.picker is None:
            subchannel.request_connection()
            return QUEUE
        # Without override_host there is no picker that can be told a host.
        if not cluster.overrides:
            return Complete(subchannel)
        call.override = Override(pinned=subchannel)
        try:
            return cluster.picker.pick(call)
        finally:
            call.override = None  # the session filter finds no host, and so writes no cookie

    def _lease_from(self, pool: SubchannelPoolInterface) -> Lease:
        if self._lease is None or self._pool is not pool:
            # Leased before the old lease goes: with its last lease a host would lose its connection.
            before, self._pool, self._lease = self._lease, pool, pool.lease(self._host.address, self._queue)
            if before is not None:
                before.release()
        return self._lease

    def close(self) -> None:
        """Release the host. Idempotent."""
        if self._lease is not None:
            self._lease.release()


def _fail(host: Host, why: str) -> Fail:
    return Fail(unavailable(f"the call is pinned to host {host.address}: {why}"))
