"""A hash header makes ring_hash usable without xDS: the policy's own configuration names it (A76).

With xDS, the hash policies of routes do this.
"""

from __future__ import annotations

from msgspec import Struct
from xxhash import xxh64_intdigest

from trxds.core.metadata import Metadata
from trxds.resources.matchers import header_value

from ..endpoint_list import Key
from ..pick import QUEUE, Explainable, PickArgs, PickResult
from .picker import RingPicker


def hash_header(metadata: Metadata, name: str) -> int | None:
    """Return the hash of all values of the header, joined by commas; None if it is missing or empty (A76)."""
    value = header_value(metadata, name)
    return xxh64_intdigest(value.encode()) if value else None


class HeaderHashPicker(Explainable, Struct, frozen=True):
    """A picker by a header's hash; an RPC without the header goes to any READY host and connects at most one (A76).

    `is_connecting` says that an endpoint is CONNECTING already, so it does not even connect one.
    """

    ring: RingPicker
    header: str
    is_connecting: bool

    def pick(self, call: PickArgs) -> PickResult:
        hashed = hash_header(call.metadata, self.header)
        if hashed is None:
            return self._pick_any(call)
        call.hash = hashed
        return self.ring.pick(call)

    def _pick_any(self, call: PickArgs) -> PickResult:
        """Pick the next READY endpoint after a random hash, drawn by each pick (A76)."""
        ring, trace, is_connecting = self.ring, call.trace, self.is_connecting
        random = ring.random if trace is None else trace.random(ring.random)
        drawn = random.getrandbits(64)
        connected: Key | None = None
        for key in ring.walk(drawn):
            endpoint = ring.states.get(key)
            if endpoint is not None and endpoint.ready is not None:
                if trace is not None:
                    why = "the next on the ring that is READY; without the header any host will do"
                    ring.note(trace, why, drawn, self._reason, key)
                return endpoint.complete
            # A76: at most one endpoint is connected, so that such RPCs do not connect the whole ring.
            if endpoint is None and not is_connecting:
                is_connecting, connected = True, key
                if trace is None:
                    ring.notify_policy(key)
        if trace is not None:
            why = "none is READY, and one is on its way" if is_connecting else "all have failed"
            ring.note(trace, why, drawn, self._reason, connected)
        return QUEUE if is_connecting else ring.fail(drawn)

    @property
    def _reason(self) -> str:
        return f"the RPC has no header {self.header}"
