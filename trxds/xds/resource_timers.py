"""The resource timeout (A57): how long a requested resource may take to arrive before it counts as absent or late."""

from __future__ import annotations

import math

from .resource import Resource


class ResourceTimers:
    """One deadline for each resource that a stream has requested and not received.

    All deadlines of a stream are equally far from their requests (`ResourceErrorPolicy.wait`, 15 s, or 30 s by A88), so
    the first that was started is the first to expire.
    """

    __slots__ = ("_deadlines",)

    def __init__(self) -> None:
        self._deadlines: dict[Resource, float] = {}

    @property
    def next_deadline(self) -> float:
        """The time on Trio's clock at which the first resource times out; infinite if none can."""
        return next(iter(self._deadlines.values()), math.inf)

    def start(self, resource: Resource, deadline: float) -> None:
        """Start a resource's timer, unless it runs already."""
        # A57: a request that names the resource again does not extend its time.
        self._deadlines.setdefault(resource, deadline)

    def stop(self, resource: Resource) -> None:
        """Stop a resource's timer, if it runs: the resource came, or nobody wants it."""
        self._deadlines.pop(resource, None)

    def expire(self, now: float) -> list[Resource]:
        """Return the resources whose deadline has come, and stop their timers."""
        late = []
        for resource, deadline in self._deadlines.items():
            if deadline > now:
                break
            late.append(resource)
        for resource in late:
            del self._deadlines[resource]
        return late
