"""This file has gRPC's connectivity states (doc/connectivity-semantics-and-api.md)."""

from __future__ import annotations

import enum


class Connectivity(enum.Enum):
    """The state of a channel, subchannel or policy. A channel's SHUTDOWN is None, in `Channel.state`."""

    IDLE = "IDLE"
    CONNECTING = "CONNECTING"
    READY = "READY"
    TRANSIENT_FAILURE = "TRANSIENT_FAILURE"

    # Members are singletons, so the identity hash is right; Enum's own costs a Python call per look-up of a pick.
    __hash__ = object.__hash__
