"""The resolver of targets without xDS: endpoints, for the policy of a service config.

The tree is that policy alone. If the addresses come from a name, the name is resolved again when a connection is lost,
so that a replaced fleet is found (A61's policies do not request that themselves).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import trio

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.resource_update import ResourceUpdate
from trxds.core.status import Status
from trxds.resources.endpoint import Endpoint

from .address_source import SENDER, AddressSource, Resolution, TargetConfig
from .clusters import Clusters, RouteTable
from .resolver_result_handler import ResolverResultHandler, RootReport
from .service_config_selector import MethodSelector


class NonXdsResolver:
    """The resolver of one target. `queue` gets the root's reports as "root", and the source's states as "name".

    `config` is in force until the source brings another one.
    """

    def __init__(
        self,
        target: str,
        source: AddressSource,
        config: TargetConfig,
        result_handler: ResolverResultHandler,
    ) -> None:
        self.queue: ConflatingQueue[Any] = ConflatingQueue()
        self._target = target
        self._source = source
        self._config = config
        self._result_handler = result_handler
        self._generation = 0
        self._is_updating = False
        self._sent: Resolution | None = None  # to the present tree
        self._problem: Status | None = None  # of the source, while the last good state stays in force

    async def run(self) -> None:
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self._table: RouteTable = Clusters(nursery, self.queue).route_table([self._target])
                self._selector = self._next_selector = self._make_selector(self._config)
                self._result_handler.apply_config(self._config.config)
                self._source.open(nursery, self.queue)
                while True:
                    self._handle_messages(await self.queue.next())
        finally:
            self.queue.close()
            # Otherwise the pool would keep subchannels for ever that this update leaves out.
            self._on_generation_done()

    def pause(self) -> None:
        """Resolve nothing while the channel is IDLE."""
        self._source.close()

    def reset(self) -> None:
        """Configure a new tree, which knows nothing. The addresses are old by then, so a name is resolved again."""
        self._sent = None
        self._source.open(self._nursery, self.queue)

    def re_resolve(self, name: str) -> None:
        """Do nothing: there are no clusters with names of their own."""

    def request_re_resolution(self) -> None:
        """Resolve the target again soon, if its addresses can change."""
        self._source.request()

    def re_resolve_all(self) -> None:
        self.request_re_resolution()

    def _handle_messages(self, messages: Mapping[Hashable, Any]) -> None:
        # The name goes first: a report in the same batch is about an older list of addresses.
        state = messages.get(SENDER)
        if state is not None:
            self._on_state(state)
        report = messages.get("root")
        if report is not None:
            self._on_report(report)

    def _on_state(self, state: ResourceUpdate) -> None:
        self._problem = state.ambient
        value: Any = state.value
        if value is None:
            self._configure(Resolution((), self._config, state.error.message if state.error else ""))
        elif not isinstance(value, Resolution):
            endpoints = tuple(Endpoint((address,)) for address in value)
            self._configure(Resolution(endpoints, self._config))
        elif value is not self._sent:
            self._configure(value)

    def _configure(self, resolution: Resolution) -> None:
        """Give the tree a new list of endpoints."""
        self._sent = resolution
        first_addresses = tuple(endpoint.addresses[0] for endpoint in resolution.endpoints)
        self._result_handler.log.addresses_in_force(first_addresses, resolution.note)
        if resolution.config is not self._config:
            self._config = resolution.config
            self._result_handler.log.service_config_in_force()
            self._next_selector = self._make_selector(resolution.config)
            self._result_handler.apply_config(resolution.config.config)
        self._generation += 1
        # All lists before the tree has answered are one update.
        if not self._is_updating:
            self._is_updating = True
            # The pool closes no subchannel until the tree has answered, so an address that stays keeps its connection.
            self._result_handler.pool.begin_update()
        self._result_handler.configure(resolution, self._generation)

    def _make_selector(self, config: TargetConfig) -> MethodSelector:
        chain = self._result_handler.make_chain(tuple(each.config for each in config.filters))
        return MethodSelector(config.config, self._target, self._table, config.filters, chain, self._warnings)

    def _warnings(self) -> tuple[str, ...]:
        return (self._problem.message,) if self._problem is not None else ()

    def _on_report(self, report: RootReport) -> None:
        if report.generation >= self._generation:
            self._on_generation_done()
            self._selector = self._next_selector
        # Any picker fits any selector of the target. A new one waits for its tree as the routes of xDS do (A31).
        self._result_handler.publish(self._selector, report)

    def _on_generation_done(self) -> None:
        if self._is_updating:
            self._is_updating = False
            self._result_handler.pool.end_update()
