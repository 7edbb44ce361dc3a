"""`CompletedCall` describes a call that has its one reply: `reply, call = await method.with_call(request)`."""

from __future__ import annotations

from msgspec import Struct

from trxds.core.metadata import Metadata
from trxds.core.status import Status


class CompletedCall(Struct, frozen=True):
    """The call that `with_call` returns with the reply; its attributes are those of an open `Call`."""

    status: Status
    """OK, with the server's message; any other status raises an `RpcError`."""

    initial_metadata: Metadata
    """The server's headers."""

    trailing_metadata: Metadata
    """The metadata that came with the status."""

    peer: str
    """The address of the host that had the call."""
