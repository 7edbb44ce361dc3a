"""A `CallPlan` is a call of the simulation: what was asked for, and what its observer saw."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from trxds.core.observe import Pick, SessionPick

from .world import Client, World

AFTER_DRILL = 5.0  # seconds: a drill resets connections, perhaps of a client that had just begun to make new ones


@dataclass(eq=False)
class CallPlan:
    """One call."""

    client: Client
    path: str
    kind: str
    timeout: float | None
    is_session: bool = False
    is_alone: bool = False  # no other call of its session runs beside it
    cancel_after: float | None = None
    cancel_at_step: int = 0
    cancelled_at: float = math.inf  # when that step came
    waits_for_ready: bool = False
    began: float = 0.0
    session: object = None
    released: bool = False  # the program gave the session's host up before
    idle_since: float = math.inf  # the end of the session's last call
    hosts_before: tuple[tuple[str, str], ...] = ()  # (host, cluster) that the session had when the call began
    routed_to: str = ""
    routes: frozenset[str] | None = None  # the clusters that the route had then
    routes_at_first: frozenset[str] | None = None  # those that it had when the call began: a filter may make it wait
    session_pick: SessionPick | None = None
    picks: list[Pick] = field(default_factory=list)
    is_in_calm: bool = False
    size: int = 0  # of the request of a unary call
    idled: float = 0.0  # seconds in which the program itself did something else

    def __repr__(self) -> str:
        return f"{self.kind} {self.path} of {self.client.name} begun at {self.began:.3f}"


def has_been_well(world: World, call: CallPlan) -> bool:
    """Whether the call began in a calm, and not just after a drill."""
    return call.is_in_calm and world.changed_at + AFTER_DRILL < call.began
