"""How the way to an xDS server stands, for who asks (A14): a stream there has a connection of its own."""

from __future__ import annotations

import math

from trxds.ground.connectivity import Connectivity
from trxds.wire.traffic import Traffic


class Line:
    """`kind` is what is spoken over it, "ads" or "lrs". Between two streams it is in TRANSIENT_FAILURE."""

    def __init__(self, kind: str, uri: str) -> None:
        self.kind = kind
        self.uri = uri
        self.state = Connectivity.IDLE
        self.error = ""  # why the last stream ended, until the next is up
        self.changed_at = -math.inf  # when it came to its state, on Trio's clock
        self.traffic = Traffic()

    def become(self, state: Connectivity, now: float, error: str = "") -> None:
        self.state, self.changed_at, self.error = state, now, error

    def __repr__(self) -> str:
        return f"<Line {self.kind}/{self.uri} {self.state.value}>"
