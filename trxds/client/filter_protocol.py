"""A `Filter` is an HTTP filter as RPCs run it (A39)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from trxds.core.metadata import Metadata
from trxds.core.status import Status
from trxds.lb.pick import PickArgs

Respond: TypeAlias = Callable[[Metadata], Metadata]


@dataclass(frozen=True, slots=True)
class Wait:
    """A `Wait` is a step that the RPC awaits, within its own deadline, for the filter's result."""

    step: Callable[[], Awaitable[Respond | Status | None]]


class Filter(Protocol):
    """A `Filter` is one filter of a route, shared by the route's RPCs.

    `start` runs before the pick and may change the cluster or set the override host. It returns a Status to end the
    RPC, a `Wait` if it has to wait, or a function for the response's initial metadata (the trailing metadata of a
    trailers-only response). That function is synchronous, because the connection's reader calls it, or the caller that
    reads in its place.
    """

    def start(self, call: PickArgs) -> Respond | Status | Wait | None: ...
