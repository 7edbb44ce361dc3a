"""The connectivity states of gRPC (doc/connectivity-semantics-and-api.md), shared by wire and lb."""

from __future__ import annotations

import enum


class Connectivity(enum.Enum):
    IDLE = "IDLE"
    CONNECTING = "CONNECTING"
    READY = "READY"
    TRANSIENT_FAILURE = "TRANSIENT_FAILURE"

    # Members are singletons; the identity hash spares a call per look-up on the pick's path.
    __hash__ = object.__hash__
