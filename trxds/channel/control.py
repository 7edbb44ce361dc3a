"""The control side of a channel: what resolves its target, and the tree of policies that this configures."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import trio

from trxds.affinity.override_host import OverrideHost
from trxds.config.policies import LbConfig, OverrideHostConfig, RingHashConfig
from trxds.config.resolver import Downstream
from trxds.ground.channels import Mailbox
from trxds.lb.custom import checked
from trxds.lb.edge import Configure
from trxds.lb.node import Node, Tree
from trxds.lb.policy import PolicyFactory
from trxds.lb.registry import Registry
from trxds.lb.ring import size_cap
from trxds.lb.ring_hash import RingHash
from trxds.wire.pool import Pool

from .dataplane import ChannelState
from .filters import Shared, make_chain
from .origin import Origin, Resolving


class Control:
    """Publishes to `state`, and has its hosts from `pool`."""

    def __init__(self, origin: Origin, state: ChannelState, pool: Pool) -> None:
        self._origin = origin
        self._state = state
        self._pool = pool
        self._make_chain = partial(make_chain, Shared(state.random))
        custom = {name: checked(kind.make) for name, kind in origin.policies.items()}
        ring_hash = partial(RingHash, size_cap=size_cap(os.environ))
        own: dict[str, PolicyFactory] = {OverrideHostConfig.policy: OverrideHost, RingHashConfig.policy: ring_hash}
        self._registry = Registry({**custom, **own})

    async def run(self) -> None:
        """Until cancelled."""
        async with trio.open_nursery() as nursery:
            resolver, root = self._begin()
            nursery.start_soon(resolver.run, name="resolver")
            nursery.start_soon(root.run, name="lb/root")

    def _begin(self) -> tuple[Resolving, Node]:
        state, random = self._state, self._state.random
        letters: Mailbox[Any] = Mailbox()

        def configure(config: LbConfig, generation: int) -> None:
            letters.put("config", Configure(config, generation))

        downstream = Downstream(configure, state.publish, self._make_chain, self._pool)
        resolver = self._origin.begin(downstream)
        tree = Tree(
            self._registry,
            self._pool,
            random,
            resolve_again=resolver.resolve_again,
            limits=self._origin.limits,
            loads=self._origin.loads,
        )
        root = Node("root", resolver.root_policy, tree, letters, lambda report: resolver.mailbox.put("root", report))
        state.tree = root
        return resolver, root
