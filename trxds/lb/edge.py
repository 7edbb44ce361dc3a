"""A parent's end of one edge of the tree: what it sent its child, and what the child said last."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import trio

from trxds.ground.channels import Mailbox
from trxds.ground.connectivity import Connectivity

from .endpoint_set import NO_ENDPOINTS
from .explain import TreeNode
from .policy import RETENTION, LbConfig, Report
from .ports import Hosts


@dataclass(frozen=True, slots=True)
class Configure:
    """The letter from the parent."""

    config: LbConfig | None
    generation: int
    endpoints: Any = NO_ENDPOINTS  # ... or what else is beside it


class Child:
    """Also the child's report slot: a dead child cannot speak for a namesake.

    When a name gets another policy, or other `hosts` to lease, the old child becomes the new one's
    `predecessor`: it goes on picking until the new one has something to say (graceful switch), is
    sent nothing, and nobody waits for it.
    """

    __slots__ = (
        "config",
        "endpoints",
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
        self.endpoints: Any = None  # ... with it
        self.generation = 0  # ... and its stamp
        self.report: Report | None = None
        self.node: TreeNode | None = None  # once its task has begun
        self.kept = False  # only warm: sent nothing, not waited for

    def send(self, config: LbConfig, endpoints: Any, generation: int) -> None:
        """Nothing, if it is what was sent before; what is equal stays the same object."""
        if self.config is config or self.config == config:
            if self.endpoints is endpoints or self.endpoints == endpoints:
                return
            assert self.config is not None
            config = self.config
        self.config, self.endpoints, self.generation = config, endpoints, generation
        self.mailbox.put("config", Configure(config, generation, endpoints))

    def tell(self, report: Report) -> None:
        """The child has decided: its parent will read it, unless it wants the child no more."""
        if not self.scope.cancel_called:
            self.parent.put(self, report)

    def take(self, report: Report) -> bool:
        """Read what the child said; return whether its parent has anything new to decide about."""
        before, self.report = self.report, report
        if self.kept:
            return False  # who is only kept warm is not heard
        if before is None or self.predecessor is not None:
            return True
        return before.picker is not report.picker or before.state is not report.state

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
