"""The resolver of targets without xDS: addresses, for the policy of a service config.

The tree is that policy alone. If the addresses come from a name, the name is resolved again when a connection is lost,
so that a replaced fleet is found (A61's policies do not request that themselves).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import trio

from trxds.core.conflating_queue import ConflatingQueue
from trxds.resources.endpoint import Endpoint, Locality, LocalityId

from .clusters import Clusters
from .dns_resolver import DnsResolver, DnsWatch, Resolve
from .http_filters import EffectiveFilter
from .service_config import ServiceConfig
from .service_config_selector import MethodSelector
from .target_uri import NonXdsTarget
from .xds_resolver import ResolverResultHandler, RootReport

_NOWHERE = LocalityId()


@dataclass(frozen=True, slots=True)
class ResolvedAddress:
    """The endpoints of a target; `note` says why there may be none."""

    locality: Locality
    note: str = ""


class NonXdsResolver:
    """The resolver of one target. `queue` gets the root's reports as "root", and the name's states as "name".

    `filters` are those of all calls.
    """

    def __init__(
        self,
        target: NonXdsTarget,
        config: ServiceConfig,
        look_up: Resolve,
        result_handler: ResolverResultHandler,
        random: Random,
        filters: tuple[EffectiveFilter, ...] = (),
    ) -> None:
        self.queue: ConflatingQueue[Any] = ConflatingQueue()
        self._target = target
        self._config = config
        self._look_up = look_up
        self._result_handler = result_handler
        self._random = random
        self._filters = filters
        self._generation = 0
        self._is_updating = False
        self._watch: DnsWatch | None = None

    async def run(self) -> None:
        try:
            async with trio.open_nursery() as nursery:
                name = self._target.text
                table = Clusters(nursery, self.queue).route_table([name])
                chain = self._result_handler.make_chain(tuple(each.config for each in self._filters))
                self._selector = MethodSelector(self._config, name, table, self._filters, chain)
                self._names = DnsResolver(nursery, self._look_up, self._random)
                self._start_generation()
                while True:
                    self._handle_messages(await self.queue.next())
        finally:
            self.queue.close()
            # Otherwise the pool would keep subchannels for ever that this update leaves out.
            self._on_generation_done()

    def reset(self) -> None:
        """Configure a new tree, which knows nothing. The addresses are old by then, so a name is resolved again."""
        if self._watch is not None:
            self._watch.cancel()
        self._start_generation()

    def _start_generation(self) -> None:
        if self._target.name:
            self._watch = self._names.watch(self._target.name, self.queue, "name")
        else:
            self._configure(self._target.addresses)

    def re_resolve(self, name: str) -> None:
        """Resolve that name again soon, because its addresses seem to be out of date."""
        self._names.re_resolve(name)

    def request_re_resolution(self) -> None:
        """Resolve the target's name again soon, if it has one."""
        self._names.re_resolve(self._target.name)

    def re_resolve_all(self) -> None:
        self.request_re_resolution()

    def _handle_messages(self, messages: Mapping[Hashable, Any]) -> None:
        # The name goes first: a report in the same batch is about an older list of addresses.
        state = messages.get("name")
        if state is not None:
            self._configure(state.value or (), state.error.message if state.error else "")
        report = messages.get("root")
        if report is not None:
            self._on_report(report)

    def _configure(self, addresses: tuple[str, ...], note: str = "") -> None:
        """Give the tree a new list of addresses; `note` says why it may be empty."""
        if self._result_handler.log is not None:
            self._result_handler.log.addresses_in_force(addresses, note)
        locality = Locality(_NOWHERE, 1, tuple(Endpoint((address,)) for address in addresses))
        self._generation += 1
        # All lists before the tree has answered are one update.
        if not self._is_updating:
            self._is_updating = True
            # The pool closes no subchannel until the tree has answered, so an address that stays keeps its connection.
            self._result_handler.pool.begin_update()
        self._result_handler.configure(ResolvedAddress(locality, note), self._generation)

    def _on_report(self, report: RootReport) -> None:
        if report.generation >= self._generation:
            self._on_generation_done()
        # A31's order does not matter here: the selector never changes, and any picker fits it.
        self._result_handler.publish(self._selector, report.picker)

    def _on_generation_done(self) -> None:
        if self._is_updating:
            self._is_updating = False
            self._result_handler.pool.end_update()
