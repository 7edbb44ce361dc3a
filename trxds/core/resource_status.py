"""How an xDS resource stands, as each message begins that blames one.

Whoever reads "no healthy upstream" at night wants to know which resource, of which server, for which node, in
which state and since when. It is a fixed text for as long as the resource stands like that: a time and not an
age, and nothing of single RPCs or hosts, so that equal failures can be counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .status import Status, unavailable


@dataclass(frozen=True, slots=True)
class ResourceStatus:
    """`kind` is "LDS", "RDS", "CDS" or "EDS". `where` is empty where nobody was asked, in tests say."""

    kind: str
    name: str
    where: str = ""  # "server 10.0.0.5:18000"
    node: str = ""
    state: str = ""  # as CSDS has it: REQUESTED, DOES_NOT_EXIST, ACKED, NACKED, RECEIVED_ERROR, TIMEOUT
    since: str = ""  # the time of day

    def __str__(self) -> str:
        which = f'{self.kind} resource "{self.name}"'
        if not self.where:
            return which
        since = f" since {self.since}" if self.since else ""
        return f'{which} ({self.where}, node "{self.node}"): {self.state}{since}'


def resource_error(standing: ResourceStatus | None, reason: str) -> Status:
    """What an RPC fails with because of a resource; None for a policy that stands alone."""
    return unavailable(reason if standing is None else f"{standing}: {reason}")


def error_with_note(standing: ResourceStatus | None, message: str, reason: str = "") -> Status:
    """What an RPC fails with by what an accepted resource says. The message is gRPC's, so the note has the resource."""
    return replace(unavailable(message), note=": ".join(filter(None, (str(standing or ""), reason))))
