"""Ring hash by a header that the policy's own configuration names, for channels without xDS (A76).

xDS has hash policies for that, in its routes.
"""

from __future__ import annotations

from dataclasses import dataclass

from xxhash import xxh64_intdigest

from trxds.ground.metadata import Metadata
from trxds.resources.matchers import header_value

from ..pick import QUEUE, Complete, PickArgs, PickResult
from .picker import RingPicker


def header_hash(metadata: Metadata, name: str) -> int | None:
    """Of all values of the header, joined by commas; None if there are none, or nothing in them."""
    value = header_value(metadata, name)
    return xxh64_intdigest(value.encode()) if value else None


@dataclass(frozen=True, slots=True)
class ByHeader:
    """An RPC without the header goes to any host that is READY, and has one at most connected.

    `connecting`: a host is on its way already, so it need not even do that.
    """

    ring: RingPicker
    header: str
    connecting: bool

    def pick(self, call: PickArgs) -> PickResult:
        hashed = header_hash(call.metadata, self.header)
        if hashed is None:
            return self._anybody()
        call.hash = hashed
        return self.ring.pick(call)

    def _anybody(self) -> PickResult:
        """Drawn anew by each pick: which host it is does not matter."""
        ring, asked = self.ring, self.connecting
        drawn = ring.random.getrandbits(64)
        for key in ring.around(drawn):
            endpoint = ring.awake.get(key)
            if endpoint is not None and endpoint.ready is not None:
                return Complete(endpoint.ready)
            if endpoint is None and not asked:
                asked = True
                ring.wish(key)
        return QUEUE if asked else ring.failed(drawn)
