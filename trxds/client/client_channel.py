"""A `ClientChannel` is the control side of a channel: the resolver of its target, and the policy tree.

After the idle timeout the tree ends, and with it every connection to a host; the next call builds a new one
(connectivity-semantics-and-api.md). So a program with a hundred channels that uses one does not burden the servers of
the others. The resolver stays. A DNS name is then resolved again; but the resources of a control plane are in the
cache, whether it can be reached or not.
"""

from __future__ import annotations

import logging
import math
import os
from typing import Any

import trio

from trxds.core.arguments import check_number
from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.policy_names import short_policy_name
from trxds.lb.child_policy import Configure
from trxds.lb.custom_policy import make_checked_factory
from trxds.lb.policy_node import Node, PolicyContext
from trxds.lb.policy_options import PolicyOptions
from trxds.lb.registry import Registry
from trxds.resolver.config_log import ConfigLog
from trxds.resolver.config_selector import Selector
from trxds.resolver.resolver_result_handler import ResolverResultHandler, RootReport
from trxds.resolver.service_config import ServiceConfig
from trxds.transport.pool import SubchannelPool

from .channel_state import ChannelState
from .decision_log import policy_decision_log
from .filter_chain import FilterRegistry
from .health_check import health_check_service, make_health_check
from .mirroring import Mirrors
from .resolver_setup import ResolverInterface, ResolverSetup
from .retry_throttle import RetryThrottle

_log = logging.getLogger("trxds.client")

IDLE_TIMEOUT = 30 * 60.0  # seconds, as in other gRPC clients
_CHECKS = 8  # in one idle timeout, so the channel may become IDLE an eighth of it late
_SCALING_VARIABLE = "GRPC_EXPERIMENTAL_MAX_CONCURRENT_STREAMS_CONNECTION_SCALING"


def checked_idle_timeout(timeout: float | None) -> float:
    """Return the idle timeout in seconds, `inf` for None; `ValueError` unless it is above 0."""
    if timeout is None:
        return math.inf
    check_number("idle_timeout", timeout, lambda seconds: seconds > 0, "a number of seconds above 0, or None for never")
    return timeout


class ClientChannel:
    """A `ClientChannel` publishes to `state` and takes subchannels from `pool`; `idle_timeout` is in seconds."""

    def __init__(
        self,
        setup: ResolverSetup,
        state: ChannelState,
        pool: SubchannelPool,
        idle_timeout: float,
        policy_options: PolicyOptions,
        mirrors: Mirrors | None,
    ) -> None:
        self._setup = setup
        self._state = state
        self._pool = pool
        self._idle_timeout = idle_timeout
        self._bind_mirrors = mirrors.bind if mirrors is not None else None
        self._health_check_service: str | None = None  # the name that hosts are asked for
        state.sessions.pinned.subchannels = lambda: pool.hosts
        self._make_chain = FilterRegistry(state.lifecycle.target, state.random, setup.http_filters).make_chain
        custom = {name: make_checked_factory(kind.make) for name, kind in setup.policies.items()}
        self._registry = Registry(custom, policy_options)
        self._root_queue: ConflatingQueue[Any] = ConflatingQueue()  # of the tree's root

    async def run(self) -> None:
        """Resolve the target and run the policy tree, until cancelled."""
        resolver = self._setup.make_resolver(
            ResolverResultHandler(
                self._configure,
                self._publish,
                self._make_chain,
                self._pool,
                ConfigLog(self._state.lifecycle.target, self._state.now),
                self._bind_mirrors,
                self._apply_config,
            )
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(resolver.run, name="resolver")
            # For connections of whose end no policy knows, because their host gets another (A105) or they are too old.
            self._pool.on_stale = resolver.re_resolve_all
            while True:
                await self._run_tree(resolver)
                resolver.pause()
                # An unread report of the tree that has ended would pass for one of the next tree.
                resolver.queue.discard("root")
                await self._state.data_plane.wait_exit_idle()
                # The last root has closed its queue, so the next one needs another before `reset` configures it.
                self._root_queue = ConflatingQueue()
                resolver.reset()

    async def _run_tree(self, resolver: ResolverInterface) -> None:
        """Run a tree until the idle timeout has passed without a call."""
        root = self._state.data_plane.tree = self._new_tree(resolver)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(root.run, name="lb/root")
            await self._wait_idle()
            self._state.data_plane.enter_idle()
            text = "%s: no call for %g s, so the channel is IDLE and its connections end; the next call connects"
            _log.info(text, self._state.lifecycle.target, self._idle_timeout)
            nursery.cancel_scope.cancel(reason="the channel is idle")

    def _new_tree(self, resolver: ResolverInterface) -> Node:
        setup = self._setup
        tree = PolicyContext(
            self._registry,
            self._pool.for_policies,
            self._state.random,
            re_resolve=resolver.re_resolve,
            circuit_breakers=setup.limits,
            loads=setup.loads,
            request_re_resolution=resolver.request_re_resolution,
            observers=self._state.observers,
            log_decision=policy_decision_log(self._state.lifecycle.target),
        )
        queue = resolver.queue
        name = short_policy_name(setup.root_policy)
        return Node(name, setup.root_policy, tree, self._root_queue, lambda report: queue.put("root", report))

    def _configure(self, resolved: Any, generation: int) -> None:
        if self._setup.client is not None:
            self._state.ignored_tls.update(resolved)
        update = self._setup.to_update(resolved)
        pinned = self._state.sessions.pinned
        pinned.entries = update.endpoints
        if pinned.by_host:  # sessions learn it in any case: while the channel is IDLE no tree gets the update
            pinned.check()
        self._root_queue.put("config", Configure(update.config, generation, update.endpoints))

    def _apply_config(self, config: ServiceConfig) -> None:
        """Apply the parts of a service config that are the channel's: throttle, limit, health checks."""
        state = self._state
        state.throttle = RetryThrottle(config.throttling, state.throttle) if config.throttling is not None else None
        self._pool.set_max_connections(_max_connections(config))
        service = health_check_service(config)
        if service != self._health_check_service:
            self._health_check_service = service
            credentials = state.defaults.credentials
            self._pool.use_health_check(make_health_check(service, state.authority, credentials, state.random))

    def _publish(self, selector: Selector, report: RootReport) -> None:
        if self._state.data_plane.tree is not None:  # the subchannels of the last tree's picker have ended
            self._state.data_plane.publish(selector, report.picker, report.state)

    async def _wait_idle(self) -> None:
        """Wait until the idle timeout has passed without a call."""
        # Checking now and then spares each call the note of when it ended.
        calls, timeout = self._state.calls, self._idle_timeout
        started, since, was_open = calls.started, trio.current_time(), False
        while (left := since + timeout - trio.current_time()) > 0:
            await trio.sleep(min(left, timeout / _CHECKS))
            # All three, because a call may have begun, or ended, or both between two checks.
            if calls.open or was_open or calls.started != started:
                started, since, was_open = calls.started, trio.current_time(), bool(calls.open)


def _max_connections(config: ServiceConfig) -> int:
    """Return how many connections each host may have; 1 if the environment switches that off (A105)."""
    if config.max_connections is None:
        return 1
    # A105 has the variable for the time before its interop tests. C-core 1.85 does without it.
    if os.environ.get(_SCALING_VARIABLE, "").lower() == "false":
        text = "the service config's connectionScaling has no effect; take %s=false out of the environment to use it"
        _log.warning(text, _SCALING_VARIABLE)
        return 1
    return config.max_connections
