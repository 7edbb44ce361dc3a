"""Whether hosts can do what a step of a script says, at its time.

A step that can do nothing is an error: otherwise the report looks as if nothing came of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec import structs

from .mesh_of_files import addresses, hosts_with_health, logical_dns_hosts, names
from .plan import Resource, Step

Hosts: TypeAlias = tuple[str, ...]

_NO_HEALTH = "is a host of the logical DNS cluster {!r}, and clients read no health of those"


class HostCheck:
    """Checks steps in the order of their times. The mesh begins with `before`; `later` are all resources of steps."""

    def __init__(self, before: Iterable[Resource], later: Iterable[Resource]) -> None:
        self._served = tuple(before)
        everything = (*self._served, *later)
        self._names = names(everything)
        self._known = addresses(everything, self._names)
        self._down: dict[str, float] = {}  # hosts, and when they come back

    def checked(self, step: Step) -> tuple[Step, str]:
        """Return the step with the hosts that it concerns, and which of `all` it leaves out, or "".

        `ValueError` says what hosts cannot do.
        """
        if step.action == "replace":
            self._served = step.resources
        if unknown := [host for host in step.hosts if host not in self._known and host != "all"]:
            raise ValueError(f"{unknown[0]} is no endpoint in any of the files")
        if "all" in step.hosts:
            step = structs.replace(step, hosts=self._known)
            return self._of_all(step)
        return self._of_named(step), ""

    def _of_named(self, step: Step) -> Step:
        able = self._able(step)
        if unable := [host for host in step.hosts if not able(host)]:
            raise ValueError(self._reason(step, unable[0]))
        self._note(step)
        return step

    def _of_all(self, step: Step) -> tuple[Step, str]:
        able = self._able(step)
        hosts = tuple(filter(able, step.hosts))
        if not hosts:
            raise ValueError(
                self._reason(step, step.hosts[0]) if step.hosts else "there is no host in any of the files"
            )
        left = logical_dns_hosts(self._served, self._names) if step.action == "drain" else {}
        texts = (f"leaves out {host}: it {_NO_HEALTH.format(left[host])}" for host in left if host not in hosts)
        step = structs.replace(step, hosts=hosts)
        self._note(step)
        return step, "; ".join(texts)

    def _able(self, step: Step) -> Callable[[str], bool]:
        match step.action:
            case "drain":
                return hosts_with_health(self._served).__contains__
            case "start":
                return lambda host: self._down.get(host, 0.0) > step.at
            case _:
                return lambda host: True

    def _reason(self, step: Step, host: str) -> str:
        if step.action == "start":
            return f"{host} is up at {step.at:g} s; start is for a host that kill or vanish has taken down"
        # A37: the addresses of such a cluster come from DNS, which knows of no health.
        if cluster := logical_dns_hosts(self._served, self._names).get(host):
            return f"{host} {_NO_HEALTH.format(cluster)}; take kill, vanish, slow or fail"
        where = f"in no ClusterLoadAssignment (EDS) that is served at {step.at:g} s"
        return f"{host} is {where}, so it cannot be declared DRAINING"

    def _note(self, step: Step) -> None:
        if step.action in ("kill", "vanish"):
            end = math.inf if step.lasts is None else step.at + step.lasts
            self._down |= {host: max(end, self._down.get(host, 0.0)) for host in step.hosts}
        elif step.action == "start":
            for host in step.hosts:
                self._down.pop(host, None)
