"""A parent's end of one edge of the tree: what it sent its child, and what the child said last."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import trio

from trxds.ground.channels import Mailbox
from trxds.ground.connectivity import Connectivity

from .explain import Explained
from .policy import RETENTION, LbConfig, Report
from .ports import Hosts


@dataclass(frozen=True, slots=True)
class Configure:
    """The letter from the parent."""

    config: LbConfig
    generation: int


class Child:
    """Also the child's report slot: a dead child cannot speak for a namesake.

    When a name gets another policy, or other `hosts` to lease, the old child becomes the new one's
    `predecessor`: it goes on picking until the new one has something to say (graceful switch), is
    sent nothing, and nobody waits for it.
    """

    __slots__ = (
        "config",
        "generation",
        "hosts",
        "kept",
        "mailbox",
        "name",
        "node",
        "parent",
        "policy",
        "predecessor",
        "report",
        "scope",
    )

    def __init__(
        self, name: str, policy: str, hosts: Hosts, parent: Mailbox[Any], predecessor: Child | None = None
    ) -> None:
        self.name = name
        self.policy = policy
        self.hosts = hosts
        self.parent = parent
        self.predecessor = predecessor
        self.scope = trio.CancelScope()
        self.mailbox: Mailbox[Any] = Mailbox()
        self.config: LbConfig | None = None  # the last one sent
        self.generation = 0  # ... and its stamp
        self.report: Report | None = None
        self.node: Explained | None = None  # once its task has begun
        self.kept = False  # only warm: sent nothing, not waited for

    def send(self, config: LbConfig, generation: int) -> None:
        if self.config is not config and self.config != config:
            self.config, self.generation = config, generation
            self.mailbox.put("config", Configure(config, generation))

    def tell(self, report: Report) -> None:
        """The child has decided: its parent will read it, unless it wants the child no more."""
        if not self.scope.cancel_called:
            self.parent.put(self, report)

    @property
    def answered(self) -> bool:
        return self.report is not None and self.report.generation >= self.generation

    @property
    def speaks(self) -> bool:
        """Whether this one is heard, or its predecessor still is."""
        old = self.predecessor
        if old is None or old.report is None or old.report.state is not Connectivity.READY:
            return True
        return self.report is not None and self.report.state is not Connectivity.CONNECTING

    @property
    def heard(self) -> Report | None:
        """What the parent's policy is told under this name."""
        return self.speaker.report

    @property
    def speaker(self) -> Child:
        """Whose picker that is."""
        return self if self.predecessor is None else self.predecessor

    def keep(self, now: float) -> None:
        if not self.kept:
            self.kept, self.scope.deadline = True, now + RETENTION

    def revive(self) -> None:
        self.kept, self.scope.deadline = False, math.inf
