"""The ring picker walks the ring from an RPC's hash on, past endpoints that have failed (A42, A61).

With xDS the hash policies of routes yield the hash. Without it the policy's own configuration names a header (A76).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from random import Random

from msgspec import Struct
from xxhash import xxh64_intdigest

from trxds.core.connectivity import Connectivity
from trxds.resources.endpoint import Endpoint
from trxds.resources.matchers import header_value

from ..endpoint_list import EndpointState, Key, count_states, last_error
from ..pick import QUEUE, Explainable, Fail, PickArgs, PickResult, Trace
from .ring import Ring


class RingPicker(Explainable, Struct, frozen=True):
    """A picker over the ring; `states` is the policy's own table: a pick reads the endpoints' states live.

    `may_fail` says that the policy reported TRANSIENT_FAILURE with this picker, and `header` is the header that hashes
    are made of, if the policy's own configuration names one (A76).
    """

    ring: Ring
    keys: Sequence[Key]  # by position on the ring
    endpoints: Mapping[Key, Endpoint]
    states: Mapping[Key, EndpointState]
    notify_policy: Callable[[Hashable], None]
    random: Random
    may_fail: bool
    header: str = ""

    def pick(self, call: PickArgs) -> PickResult:
        drawn_because = ""
        if call.hash is None:
            random = self.random if call.trace is None else call.trace.random(self.random)
            # Stored, so that a retry of the RPC goes on from the same place (A42).
            call.hash, drawn_because = random.getrandbits(64), "no hash policy yields one"
        for owner in self.ring.walk(call.hash):
            result: PickResult = QUEUE
            key = self.keys[owner]
            endpoint = self.states.get(key)
            if endpoint is None:
                if call.trace is None:
                    self.notify_policy(key)
            elif endpoint.ready is not None:
                result = endpoint.complete
            # A61: walk on past failed endpoints; any other state below READY makes the RPC wait.
            elif endpoint.state is Connectivity.TRANSIENT_FAILURE:
                continue
            if call.trace is not None:
                is_first = self.keys[self.ring.owner(call.hash)] == key
                why = "its entry is the next on the ring" + ("" if is_first else ", after those that failed")
                self.note(call.trace, why, call.hash, drawn_because, key)
            return result
        if call.trace is not None:
            ending = "the error is the hash's own endpoint's" if self.may_fail else "the next picker is on its way"
            self.note(call.trace, f"all have failed; {ending}", call.hash, drawn_because)
        return self.fail(call.hash)

    def walk(self, hashed: int) -> Iterator[Key]:
        """Yield the endpoints from the hash on, once around the ring."""
        return map(self.keys.__getitem__, self.ring.walk(hashed))

    def fail(self, hashed: int) -> PickResult:
        """Fail with the error of the hash's own endpoint, because all endpoints have failed.

        If they failed after this picker was made, wait for the next one: priority may fail over meanwhile (A42, A56).
        """
        if not self.may_fail:
            return QUEUE
        return Fail(last_error((self.states[self.keys[self.ring.owner(hashed)]],)))

    def note(self, trace: Trace, why: str, hashed: int, drawn_because: str, key: Key | None = None) -> None:
        """Add to the explanation that the endpoint `key` was chosen, which may have to be connected."""
        source = f", drawn because {drawn_because}" if drawn_because else f" of header {self.header}"
        hash_text = f"hash {hashed:#018x}{source if self.header or drawn_because else ''}"
        saw = f"{describe_endpoints(self.keys, self.states)}; {hash_text}"
        address = self.endpoints[key].addresses[0] if key is not None else ""
        trace.note(why, saw=saw, waits_for=f"{address or 'an endpoint'} to connect", address=address)


class HeaderHashPicker(Explainable, Struct, frozen=True):
    """A picker by a header's hash; an RPC without the header goes to any READY host and connects at most one (A76).

    `is_connecting` says that an endpoint is CONNECTING already, so it does not even connect one.
    """

    ring: RingPicker
    is_connecting: bool

    def pick(self, call: PickArgs) -> PickResult:
        # A76: all values of the header, joined by commas.
        value = header_value(call.metadata, self.ring.header)
        if not value:
            return self._pick_any(call)
        call.hash = xxh64_intdigest(value.encode())
        return self.ring.pick(call)

    def _pick_any(self, call: PickArgs) -> PickResult:
        """Pick the next READY endpoint after a random hash, drawn by each pick (A76)."""
        ring, trace, is_connecting = self.ring, call.trace, self.is_connecting
        reason = f"the RPC has no header {ring.header}" if trace is not None else ""
        random = ring.random if trace is None else trace.random(ring.random)
        drawn = random.getrandbits(64)
        connected: Key | None = None
        for key in ring.walk(drawn):
            endpoint = ring.states.get(key)
            if endpoint is not None and endpoint.ready is not None:
                if trace is not None:
                    why = "the next on the ring that is READY; without the header any host will do"
                    ring.note(trace, why, drawn, reason, key)
                return endpoint.complete
            # A76: at most one endpoint is connected, so that such RPCs do not connect the whole ring.
            if endpoint is None and not is_connecting:
                is_connecting, connected = True, key
                if trace is None:
                    ring.notify_policy(key)
        if trace is not None:
            why = "none is READY, and one is on its way" if is_connecting else "all have failed"
            ring.note(trace, why, drawn, reason, connected)
        return QUEUE if is_connecting else ring.fail(drawn)


def describe_endpoints(keys: Sequence[Key], awake: Mapping[Key, EndpointState]) -> str:
    """Return the numbers of endpoints by state, in words; those that no RPC has asked for are IDLE."""
    if not keys:
        return "no endpoints"
    return count_states(awake[key].state if key in awake else Connectivity.IDLE for key in keys)
