"""What becomes of an RPC behind its route, told by those who decide it: sessions, then policy by policy.

Plain values with a good `str`; the policies that fill them in stand above this floor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from trxds.core.connectivity import Connectivity
from trxds.core.policy_names import short_policy_name
from trxds.core.status import Status


@dataclass(frozen=True, slots=True)
class PickedSubchannel:
    """The RPC is sent to this host."""

    address: str
    state: Connectivity

    def __str__(self) -> str:
        return f"goes to {self.address} ({self.state.name})"


@dataclass(frozen=True, slots=True)
class PickQueued:
    """The RPC waits until the tree changes; `address` is the host it waits for, if it is for one."""

    what_for: str
    address: str = ""

    def __str__(self) -> str:
        return f"waits for {self.what_for}"


@dataclass(frozen=True, slots=True)
class PickFailed:
    """The RPC fails, unless it waits for ready."""

    status: Status

    def __str__(self) -> str:
        return f"fails, unless it waits for ready: {self.status}"


@dataclass(frozen=True, slots=True)
class PickDropped:
    """The RPC fails, even if it waits for ready."""

    status: Status

    def __str__(self) -> str:
        return f"fails: {self.status}"


@dataclass(frozen=True, slots=True)
class Unknown:
    """A policy on the way does not explain itself."""

    policy: str

    def __str__(self) -> str:
        return f"is up to {self.policy}, which does not explain itself"


Outcome: TypeAlias = PickedSubchannel | PickQueued | PickFailed | PickDropped | Unknown


@dataclass(frozen=True, slots=True)
class FaultStep:
    """What a fault filter does to the RPC (A33): `odds` are those of RPCs with this metadata, the rest is this draw.

    `delay` is in seconds; with a `status` the RPC ends there, after the delay.
    """

    odds: str
    verdict: str
    delay: float = 0.0
    status: Status | None = None

    def __str__(self) -> str:
        return f"fault: {self.verdict} ({self.odds})"


@dataclass(frozen=True, slots=True)
class SessionStep:
    """What a session filter reads from the RPC, and what follows.

    `carrier` names the cookie or header. `addresses` and `cluster` are what it says, if it can be read
    and counts; `cluster` also where the route does not have it.
    """

    carrier: str
    addresses: tuple[str, ...]
    cluster: str
    verdict: str

    def __str__(self) -> str:
        return f"session by {self.carrier}: {self.verdict}"


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One policy's line: what it saw, what it chose, and why.

    `path` is the policy's place in the tree. `outcome` is there where the RPC's way ends.
    """

    path: str
    policy: str
    saw: str
    chose: str
    why: str
    outcome: Outcome | None = None

    def __str__(self) -> str:
        return f"{short_policy_name(self.policy)} sees {self.saw}; chooses {self.chose}: {self.why}"
