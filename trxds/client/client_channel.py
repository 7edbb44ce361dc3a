"""The control side of a channel: what resolves its target, and the tree of policies that this configures.

After some time without a call the tree ends, and with it every connection to a host; the next call has it grow
anew. So a program that holds a hundred channels and uses one does not burden the servers of the others. What resolves
the target stays. A DNS name is looked up anew then; but what is watched of a control plane is at hand at once,
whether that can be reached or not.
"""

from __future__ import annotations

import math
import os
from functools import partial
from typing import Any

import trio

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.policy_names import short_policy_name
from trxds.lb.child_policy import Configure
from trxds.lb.configs import OverrideHostConfig
from trxds.lb.custom_policy import make_checked_factory
from trxds.lb.node import Node, PolicyContext
from trxds.lb.override_host.policy import OverrideHost
from trxds.lb.pick import Picker
from trxds.lb.policy import PolicyFactory
from trxds.lb.registry import Registry
from trxds.lb.ring_hash.policy import RingHash
from trxds.lb.ring_hash.ring import read_size_cap
from trxds.resolver.config_selector import Selector
from trxds.resolver.xds_resolver import ResolverResultHandler
from trxds.resources.leaf_policy import RingHash as RingHashConfig
from trxds.transport.pool import SubchannelPool

from .channel_state import ChannelState
from .filter_chain import FilterContext, make_chain
from .resolver_setup import ResolverInterface, ResolverSetup

IDLE_TIMEOUT = 30 * 60.0  # seconds, as in other gRPC clients
_LOOKS = 8  # within the time: so much later than it may the channel become idle


def idle_after(timeout: float | None) -> float:
    """`ValueError` for what is no time; None is never."""
    if timeout is None:
        return math.inf
    if not timeout > 0:
        raise ValueError(f"idle_timeout is a number of seconds above 0, or None for never, not {timeout!r}")
    return timeout


class ClientChannel:
    """Publishes to `state`, and has its hosts from `pool`; sleeps after `idle_timeout` seconds without a call."""

    def __init__(self, origin: ResolverSetup, state: ChannelState, pool: SubchannelPool, idle_timeout: float) -> None:
        self._origin = origin
        self._state = state
        self._pool = pool
        self._idle_timeout = idle_timeout
        self._make_chain = partial(make_chain, FilterContext(state.random))
        custom = {name: make_checked_factory(kind.make) for name, kind in origin.policies.items()}
        ring_hash = partial(RingHash, size_cap=read_size_cap(os.environ))
        own: dict[str, PolicyFactory] = {OverrideHostConfig.policy: OverrideHost, RingHashConfig.policy: ring_hash}
        self._registry = Registry({**custom, **own})
        self._letters: ConflatingQueue[Any] = ConflatingQueue()  # of the tree's root

    async def run(self) -> None:
        """Until cancelled."""
        resolver = self._origin.begin(
            ResolverResultHandler(self._configure, self._publish, self._make_chain, self._pool)
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(resolver.run, name="resolver")
            while True:
                await self._awake(resolver)
                resolver.mailbox.discard("root")
                await self._state.data_plane.wait_exit_idle()
                self._letters = ConflatingQueue()
                resolver.reset()

    async def _awake(self, resolver: ResolverInterface) -> None:
        """Have a tree until there were no calls for long."""
        root = self._state.data_plane.tree = self._grown(resolver)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(root.run, name="lb/root")
            await self._until_idle()
            self._state.data_plane.enter_idle()
            nursery.cancel_scope.cancel(reason="the channel is idle")

    def _grown(self, resolver: ResolverInterface) -> Node:
        origin = self._origin
        tree = PolicyContext(
            self._registry,
            self._pool,
            self._state.random,
            re_resolve=resolver.re_resolve,
            limits=origin.limits,
            loads=origin.loads,
            request_re_resolution=resolver.request_re_resolution,
            observers=self._state.observers,
        )
        mailbox = resolver.mailbox
        name = short_policy_name(origin.root_policy)
        return Node(name, origin.root_policy, tree, self._letters, lambda report: mailbox.put("root", report))

    def _configure(self, resolved: Any, generation: int) -> None:
        update = self._origin.to_update(resolved)
        self._letters.put("config", Configure(update.config, generation, update.endpoints))

    def _publish(self, selector: Selector, picker: Picker) -> None:
        if self._state.data_plane.tree is not None:  # a picker of the last tree would lead nowhere
            self._state.data_plane.publish(selector, picker)

    async def _until_idle(self) -> None:
        """Looks now and then whether there were calls, so that no call has to note when it ended."""
        calls, timeout = self._state.calls, self._idle_timeout
        begun, since = calls.started, trio.current_time()
        while (left := since + timeout - trio.current_time()) > 0:
            await trio.sleep(min(left, timeout / _LOOKS))
            if calls.open or calls.started != begun:
                begun, since = calls.started, trio.current_time()
