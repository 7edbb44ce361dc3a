"""What passes between a node and those below it without any letter: ejections down, trackers up, and security."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from trxds.ground.channels import Mailbox

from .health import Health
from .host_trackers import HostTrackers
from .pick import Tracker
from .policy import Decision
from .ports import Hosts
from .security import Security


class Subtree:
    """One level of it. `health` and `trackers` are what the level above gave; the next one gets those below."""

    __slots__ = (
        "_all_hosts",
        "_attached",
        "_security",
        "_trackers",
        "health",
        "health_below",
        "hosts",
        "trackers_below",
    )

    def __init__(self, hosts: Hosts, health: Health | None = None, trackers: HostTrackers | None = None) -> None:
        self.hosts = hosts  # to be leased below
        self._all_hosts = hosts
        self.health = health or Health()  # with the ejections of the levels above
        self._trackers = trackers  # where we attach ours, if anybody above wants to know
        self._attached: Mapping[str, Tracker] | None = None
        self._security: Security | None = None  # how our policy wants the hosts below to be reached
        self.health_below = self.health  # another one once our policy ejects hosts itself
        self.trackers_below = trackers

    def follow(self, mailbox: Mailbox[Any], leased: Collection[str]) -> None:
        """Tell `mailbox` of ejections of what is leased."""
        self.health.follow(mailbox, leased)

    def match(self, decision: Decision) -> None:
        """Have it be as the policy has decided."""
        if decision.ejected is not None:
            if self.health_below is self.health:
                self.health_below = Health(self.health)
            self.health_below.eject(decision.ejected)
        if decision.security is not self._security:
            security = self._security = decision.security
            self.hosts = self._all_hosts.over(security.of) if security is not None else self._all_hosts
        if decision.collects is not None:
            self.trackers_below = decision.collects
        if decision.trackers is not self._attached:
            self._attached = decision.trackers
            if self._trackers is not None:
                self._trackers.attach(self, decision.trackers or {})

    def end(self, mailbox: Mailbox[Any]) -> None:
        self.health.leave(mailbox)
        if self.health_below is not self.health:
            self.health_below.end()
        if self._trackers is not None:
            self._trackers.detach(self)
