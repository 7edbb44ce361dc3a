"""A call that is over and has its one reply: `reply, call = await method.with_call(request)`."""

from __future__ import annotations

from dataclasses import dataclass

from trxds.core.metadata import Metadata
from trxds.core.status import Status


@dataclass(frozen=True, slots=True)
class CompletedCall:
    """What `with_call` gives beside the reply; its attributes are those of an open `Call`."""

    status: Status
    """OK, with what the server said along with it; any other status is an `RpcError`."""

    initial_metadata: Metadata
    """The server's headers."""

    trailing_metadata: Metadata
    """What came with the status."""

    peer: str
    """The address of the host that had the call."""
