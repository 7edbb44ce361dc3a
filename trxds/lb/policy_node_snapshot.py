"""A snapshot of a node is what the live page, channelz and `trxds lb` show of one policy of the tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from trxds.core.connectivity import Connectivity

from .interfaces import SubchannelInterface


class NodeSnapshot(Struct, frozen=True):
    """The state of one node at one moment.

    `says` is the policy's description of what it sees. `hosts` are the leased subchannels by address, `ejected` the
    addresses that outlier detection has ejected for the subtree. `warm` is True for a deactivated node, which gets no
    picks (A56). `config` is None before the first one; `endpoints` are those of `PolicyInputs`.
    """

    path: str
    parent: str | None  # its path
    policy: str
    state: Connectivity
    says: str
    config: Any
    hosts: Mapping[str, SubchannelInterface]
    ejected: frozenset[str]
    warm: bool
    endpoints: Any
