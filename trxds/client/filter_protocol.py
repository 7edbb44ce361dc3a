"""What an HTTP filter is on the call side (A39)."""

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
    """What a filter has to wait for before it can say; the RPC does, within its own time."""

    step: Callable[[], Awaitable[Respond | Status | None]]


class Filter(Protocol):
    """One filter of a route, shared by its RPCs.

    `start` runs before the pick and may switch the cluster or set the override; a filter that has to wait
    returns a `Wait`. A Status ends the RPC. A function that it returns is given the response's initial
    metadata (the trailing one of a trailers-only response), and is plain, because the
    connection's reader calls it, or the caller that reads in its place.
    """

    def start(self, call: PickArgs) -> Respond | Status | Wait | None: ...
