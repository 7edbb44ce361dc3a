"""A `ResourceStatus` is the state of an xDS resource, with which each error message about it begins (CSDS, A40).

An operator who reads "no healthy upstream" has to know the resource, its server, the node, the state and since when.
The text is fixed while the state is: it has a time and not an age, and nothing of single RPCs or hosts, so that equal
failures can be counted.
"""

from __future__ import annotations

from dataclasses import replace

from msgspec import Struct

from .status import Status, unavailable


class ResourceStatus(Struct, frozen=True, gc=False):
    """The state of one resource. `kind` is "LDS", "RDS", "CDS" or "EDS"; `where` is empty if no server was asked."""

    kind: str
    name: str
    where: str = ""  # "server 10.0.0.5:18000"
    node: str = ""
    state: str = ""  # as CSDS has it: REQUESTED, DOES_NOT_EXIST, ACKED, NACKED, RECEIVED_ERROR, TIMEOUT
    since: str = ""  # the time of day
    version: str = ""  # as its server calls it; not in the text, which counts equal failures

    @property
    def change(self) -> str:
        """The version that a session's move is put down to, such as `EDS resource "cart" version 7`."""
        return f'{self.kind} resource "{self.name}"{f" version {self.version}" if self.version else ""}'

    def __str__(self) -> str:
        which = f'{self.kind} resource "{self.name}"'
        if not self.where:
            return which
        since = f" since {self.since}" if self.since else ""
        return f'{which} ({self.where}, node "{self.node}"): {self.state}{since}'


def resource_error(resource: ResourceStatus | None, reason: str) -> Status:
    """Return the status of an RPC that fails because of a resource; `resource` is None for a policy without xDS."""
    return unavailable(reason if resource is None else f"{resource}: {reason}")


def error_with_note(resource: ResourceStatus | None, message: str, reason: str = "") -> Status:
    """Return the status of an RPC that fails by an accepted resource: gRPC's message, and the resource as a note."""
    return replace(unavailable(message), note=": ".join(filter(None, (str(resource or ""), reason))))
