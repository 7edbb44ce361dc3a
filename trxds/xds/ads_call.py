"""The state of one ADS stream: what was requested on it, what is to be sent, and its timers.

`AdsCall` is the C++ client's name for the same. What outlives the stream is in `Subscription` and `Resource`.
"""

from __future__ import annotations

import math
from itertools import takewhile

from msgspec import Struct, field

from trxds.resources.types import ResourceType

from .resource import Resource
from .resource_type_state import ResourceTypeState


class AdsCall(Struct, eq=False):
    """The state of one stream with an ADS server, over all types of resources; it ends with the stream."""

    types: dict[ResourceType, ResourceTypeState]
    pending_types: dict[ResourceType, None]  # types that may have a request to send, in the order in which it came up
    delayed_nacks: dict[ResourceType, float] = field(default_factory=dict)  # when each type's delayed NACK may go
    node_sent: bool = False  # only the first request of a stream has the node
    received_response: bool = False  # after a response, the stream's end is no failure (A57)
    # When each resource that was requested, and has not arrived, counts as absent or late (A57). All waits of a stream
    # are equally long (`ResourceErrorPolicy.wait`), so the first one that began is the first to end.
    resource_timers: dict[Resource, float] = field(default_factory=dict)
    # Resources that came from another server and are requested on a stream with responses: the next response may have
    # been made before the request.
    just_requested: set[Resource] = field(default_factory=set)

    def expire_timers(self, now: float) -> list[Resource]:
        """Return the resources that timed out, and mark the types whose delayed NACK may go now."""
        for type in [type for type, when in self.delayed_nacks.items() if when <= now]:
            del self.delayed_nacks[type]
            self.pending_types[type] = None
        late = list(takewhile(lambda resource: self.resource_timers[resource] <= now, self.resource_timers))
        for resource in late:
            del self.resource_timers[resource]
        return late

    def schedule_next(self, type: ResourceType, *, sent: bool) -> None:
        """Mark the type for another request if there is more to send, or note when its delayed NACK may go."""
        state = self.types[type]
        self.delayed_nacks.pop(type, None)
        if sent and state.has_more:
            self.pending_types[type] = None
        elif state.next_due < math.inf:
            self.delayed_nacks[type] = state.next_due

    @property
    def next_deadline(self) -> float:
        """Return the time at which `expire_timers` has something to do; infinite if never."""
        first_timer = next(iter(self.resource_timers.values()), math.inf)
        return min(first_timer, *self.delayed_nacks.values(), math.inf)

    @property
    def unsent_bytes(self) -> int:
        """Return roughly the bytes of pending ACKs and NACKs."""
        return sum(state.unsent_bytes for state in self.types.values())
