"""Ring hash by a header that the policy's own configuration names, for channels without xDS (A76).

xDS has hash policies for that, in its routes.
"""

from __future__ import annotations

from dataclasses import dataclass

from xxhash import xxh64_intdigest

from trxds.core.metadata import Metadata
from trxds.resources.matchers import header_value

from ..endpoint_list import Key
from ..pick import QUEUE, Explainable, PickArgs, PickResult
from .picker import RingPicker


def header_hash(metadata: Metadata, name: str) -> int | None:
    """Of all values of the header, joined by commas; None if there are none, or nothing in them."""
    value = header_value(metadata, name)
    return xxh64_intdigest(value.encode()) if value else None


@dataclass(frozen=True, slots=True)
class HeaderHashPicker(Explainable):
    """An RPC without the header goes to any host that is READY, and has one at most connected.

    `connecting`: a host is on its way already, so it need not even do that.
    """

    ring: RingPicker
    header: str
    connecting: bool

    def pick(self, call: PickArgs) -> PickResult:
        hashed = header_hash(call.metadata, self.header)
        if hashed is None:
            return self._anybody(call)
        call.hash = hashed
        return self.ring.pick(call)

    def _anybody(self, call: PickArgs) -> PickResult:
        """Drawn anew by each pick: which host it is does not matter."""
        ring, trace, is_asked = self.ring, call.trace, self.connecting
        random = ring.random if trace is None else trace.random(ring.random)
        drawn = random.getrandbits(64)
        asked: Key | None = None
        for key in ring.around(drawn):
            endpoint = ring.awake.get(key)
            if endpoint is not None and endpoint.ready is not None:
                if trace is not None:
                    why = "the next on the ring that is READY; without the header anyone will do"
                    ring.note(trace, why, drawn, self._reason, key)
                return endpoint.complete
            if endpoint is None and not is_asked:
                is_asked, asked = True, key
                if trace is None:
                    ring.notify_policy(key)
        if trace is not None:
            why = "none is READY, and one is on its way" if is_asked else "all have failed"
            ring.note(trace, why, drawn, self._reason, asked)
        return QUEUE if is_asked else ring.failed(drawn)

    @property
    def _reason(self) -> str:
        return f"the RPC has no header {self.header}"
