"""From a target without a control plane to a data plane: its addresses, for the policy of a service config.

The tree is that policy alone, and what it makes of the addresses is no affair of this room. Where they come from a
name, it is looked up again when a host is lost, so that a fleet that was replaced is found (A61's policies do not
say so by themselves).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import trio

from trxds.ground.channels import ConflatingQueue
from trxds.resources.endpoint import Endpoint, Locality, LocalityId

from .clusters import Clusters
from .dns import LookUp, Names, NameWatch
from .methods import MethodSelector
from .resolver import Downstream, RootReport
from .service_config import ServiceConfig
from .target import PlainTarget

_NOWHERE = LocalityId()


@dataclass(frozen=True, slots=True)
class Located:
    """Where a target is; `note` says why it may be nowhere."""

    place: Locality
    note: str = ""


class PlainResolver:
    """`mailbox` takes the root's reports as "root", and what is known of the name as "name"."""

    def __init__(
        self, target: PlainTarget, config: ServiceConfig, look_up: LookUp, downstream: Downstream, random: Random
    ) -> None:
        self.mailbox: ConflatingQueue[Any] = ConflatingQueue()
        self._target = target
        self._config = config
        self._look_up = look_up
        self._downstream = downstream
        self._random = random
        self._generation = 0
        self._changing = False
        self._watch: NameWatch | None = None

    async def run(self) -> None:
        try:
            async with trio.open_nursery() as nursery:
                name = self._target.text
                table = Clusters(nursery, self.mailbox).route_table([name])
                self._selector = MethodSelector(self._config, name, table)
                self._names = Names(nursery, self._look_up, self._random)
                self._begin()
                while True:
                    self._read(await self.mailbox.next())
        finally:
            self.mailbox.close()
            # Or the pool would wait for ever to let go what this change has left out.
            self._settle()

    def begin_anew(self) -> None:
        """The tree is another one and knows nothing. The addresses are old: a name is looked up anew. Plain."""
        if self._watch is not None:
            self._watch.cancel()
        self._begin()

    def _begin(self) -> None:
        if self._target.name:
            self._watch = self._names.watch(self._target.name, self.mailbox, "name")
        else:
            self._configure(self._target.addresses)

    def resolve_again(self, name: str) -> None:
        """The addresses of that name seem to be out of date. Plain."""
        self._names.resolve_again(name)

    def lost(self) -> None:
        """Those of the one name there is, in that case. Plain."""
        self._names.resolve_again(self._target.name)

    def _read(self, letters: Mapping[Hashable, Any]) -> None:
        # The name first: a report in the same batch is of an older list of addresses, and settles nothing.
        state = letters.get("name")
        if state is not None:
            self._configure(state.value or (), state.error.message if state.error else "")
        report = letters.get("root")
        if report is not None:
            self._heard(report)

    def _configure(self, addresses: tuple[str, ...], note: str = "") -> None:
        """`note` says why there may be no address."""
        place = Locality(_NOWHERE, 1, tuple(Endpoint((address,)) for address in addresses))
        self._generation += 1
        # One change, however many lists come before the tree has answered.
        if not self._changing:
            self._changing = True
            # Until the tree has answered no host is let go, so one that stays in the list keeps its connection.
            self._downstream.pool.begin_change()
        self._downstream.configure(Located(place, note), self._generation)

    def _heard(self, report: RootReport) -> None:
        if report.generation >= self._generation:
            self._settle()
        # At once, without A31's order: the selector never changes, and any picker will do for it.
        self._downstream.publish(self._selector, report.picker)

    def _settle(self) -> None:
        if self._changing:
            self._changing = False
            self._downstream.pool.end_change()
