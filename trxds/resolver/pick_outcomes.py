"""The steps and outcomes of an RPC after its route is chosen, as `explain` shows them: filters, then policies.

These are values with a readable `str`; the session filter and the policies fill them in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from msgspec import Struct

from trxds.core.connectivity import Connectivity
from trxds.core.policy_names import short_policy_name
from trxds.core.status import Status


class PickedSubchannel(Struct, frozen=True):
    """The RPC is sent to this host.

    `security` says what TLS verifies it by, and is empty without TLS. An `authority`, if any, is the host's own, in
    place of the channel's (A81). `connections` says how many it has, and how many calls wait for a stream there; it is
    empty for one that has room.
    """

    address: str
    state: Connectivity
    security: str = ""
    authority: str = ""
    connections: str = ""

    def __str__(self) -> str:
        security = f" by {self.security}" if self.security else ""
        rewritten = f", with the authority {self.authority}" if self.authority else ""
        state = ", ".join(filter(None, (self.state.name, self.connections)))
        return f"goes to {self.address} ({state}){security}{rewritten}"


class PickQueued(Struct, frozen=True):
    """The RPC waits until the tree changes; `address` is set if it waits for one host."""

    what_for: str
    address: str = ""

    def __str__(self) -> str:
        return f"waits for {self.what_for}"


class PickFailed(Struct, frozen=True):
    """The RPC fails, unless it waits for ready."""

    status: Status

    def __str__(self) -> str:
        return f"fails, unless it waits for ready: {self.status}"


class PickDropped(Struct, frozen=True):
    """The RPC fails, even if it waits for ready."""

    status: Status

    def __str__(self) -> str:
        return f"fails: {self.status}"


class Unknown(Struct, frozen=True):
    """The outcome is unknown, because a policy does not explain itself."""

    policy: str

    def __str__(self) -> str:
        return f"is up to {self.policy}, which does not explain itself"


Outcome: TypeAlias = PickedSubchannel | PickQueued | PickFailed | PickDropped | Unknown


class FaultStep(Struct, frozen=True):
    """The effect of a fault filter on the RPC (A33): `odds` describe all RPCs with this metadata, the rest this draw.

    `delay` is in seconds; with a `status` the RPC ends there, after the delay.
    """

    odds: str
    verdict: str
    delay: float = 0.0
    status: Status | None = None

    def __str__(self) -> str:
        return f"fault: {self.verdict} ({self.odds})"


class SessionStep(Struct, frozen=True):
    """The session that a filter reads from the RPC, and its effect (A55, A60).

    `carrier` names the cookie or header. `addresses` and `cluster` are its content, if it can be read and applies;
    `cluster` is set even if the route does not have it.
    """

    carrier: str
    addresses: tuple[str, ...]
    cluster: str
    verdict: str

    def __str__(self) -> str:
        return f"session by {self.carrier}: {self.verdict}"


@dataclass(frozen=True, slots=True)
class FilterStep:
    """The decision of a program's own HTTP filter about the RPC, in words; `name` is set by the client.

    `delay` is in seconds; with a `status` the RPC ends there, after the delay. `is_opaque`: the filter does not explain
    itself, and the explanation goes on as if it let the RPC pass.
    """

    verdict: str
    delay: float = 0.0
    status: Status | None = None
    name: str = ""
    is_opaque: bool = False

    def __str__(self) -> str:
        return f'filter "{self.name}": {self.verdict}'


FilterDecision: TypeAlias = FaultStep | SessionStep | FilterStep
"""The decision of an HTTP filter, in an explanation."""


class TraceStep(Struct, frozen=True):
    """One policy's decision: what it saw, what it chose, and why.

    `path` is the policy's path in the tree. `outcome` is set at the last policy of the RPC's way.
    """

    path: str
    policy: str
    saw: str
    chose: str
    why: str
    outcome: Outcome | None = None

    def __str__(self) -> str:
        return f"{short_policy_name(self.policy)} sees {self.saw}; chooses {self.chose}: {self.why}"
