"""How an RPC's hash comes to a host: round the ring from where it stands, past those that have failed (A42, A61)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from trxds.ground.connectivity import Connectivity

from ..endpoints import EndpointState, last_error
from ..petiole import Key
from ..pick import QUEUE, Complete, Fail, PickArgs, PickResult
from .ring import Ring


@dataclass(frozen=True, slots=True)
class RingPicker:
    """`awake` is the policy's own table: what is READY is read at the pick, and a ring outlives many states."""

    ring: Ring
    keys: Sequence[Key]  # by position on the ring
    awake: Mapping[Key, EndpointState]
    wish: Callable[[Hashable], None]
    random: Random

    def pick(self, call: PickArgs) -> PickResult:
        if call.hash is None:
            call.hash = self.random.getrandbits(64)
        for owner in self.ring.around(call.hash):
            endpoint = self.awake.get(self.keys[owner])
            if endpoint is None:
                self.wish(self.keys[owner])
                return QUEUE
            if endpoint.ready is not None:
                return Complete(endpoint.ready)
            if endpoint.state is not Connectivity.TRANSIENT_FAILURE:
                return QUEUE
        return self.failed(call.hash)

    def around(self, hashed: int) -> Iterator[Key]:
        """The endpoints from there on, once around."""
        return map(self.keys.__getitem__, self.ring.around(hashed))

    def failed(self, hashed: int) -> PickResult:
        """All have: the error is that of the hash's own endpoint."""
        return Fail(last_error((self.awake[self.keys[self.ring.owner(hashed)]],)))
