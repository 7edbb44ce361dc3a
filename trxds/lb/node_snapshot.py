"""One node of the policy tree as it stands, for a reader of the whole tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trxds.core.connectivity import Connectivity

from .interfaces import SubchannelInterface


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    """One node. `hosts` are those that it has a lease on; `ejected` what outlier detection has taken out below it.

    `warm`: it is kept for the case that it is wanted again, and gets no picks. `config` is None before the first;
    `endpoints` are what is beside it, as in `Inputs`.
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
