"""How an RPC ended: a value. The three exceptions that users see are built from it.

Inside trxds a failure that can be expected travels as a `Status`; it becomes an exception
only at the two doors to the user, `channel/call.py` and `channel/channel.py`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar, cast

from .metadata import EMPTY, Metadata

if TYPE_CHECKING:
    from google.protobuf.message import Message

M = TypeVar("M", bound="Message")


class StatusCode(enum.IntEnum):
    """The status codes of gRPC; the values are those of `grpc-status` on the wire."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


# gRPC's http-grpc-status-mapping.md.
_HTTP = {
    400: StatusCode.INTERNAL,
    401: StatusCode.UNAUTHENTICATED,
    403: StatusCode.PERMISSION_DENIED,
    404: StatusCode.UNIMPLEMENTED,
    429: StatusCode.UNAVAILABLE,
    502: StatusCode.UNAVAILABLE,
    503: StatusCode.UNAVAILABLE,
    504: StatusCode.UNAVAILABLE,
}


def from_http(status: int) -> StatusCode:
    """For answers that come from a proxy or a server that is no gRPC server, and for injected faults."""
    # Of a response only if it has no grpc-status: that one counts, whatever HTTP says (http-grpc-status-mapping.md).
    return _HTTP.get(status, StatusCode.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Status:
    """The outcome of an RPC: `code`, a `message` for people, and `details`.

    `details` holds the bytes of `grpc-status-details-bin` (a serialised `google.rpc.Status`), or None when the
    server sent none; `rich` and `detail` read them. `note` is what there is to say besides where gRPC fixes the
    message, of a drop or for want of a route: which resource it is, and why. `str` has it too.
    """

    code: StatusCode
    message: str = ""
    details: bytes | None = None
    note: str = ""
    ok: bool = field(init=False, repr=False, compare=False)
    """Whether the code is OK."""

    def __post_init__(self) -> None:
        # Worked out once: an RPC asks several times, and a property would be a call each time.
        object.__setattr__(self, "ok", self.code is StatusCode.OK)

    @property
    def text(self) -> str:
        """The message, with the note in brackets."""
        return f"{self.message} ({self.note})" if self.note else self.message

    @property
    def rich(self) -> Message | None:
        """`details` as a `google.rpc.Status`; None if there are none, or they cannot be read."""
        if self.details is None:
            return None
        from google.protobuf.message import DecodeError  # few statuses have any
        from google.rpc.status_pb2 import Status as RichStatus

        try:
            return cast("Message", RichStatus.FromString(self.details))
        except DecodeError:
            return None

    def detail(self, kind: type[M]) -> M | None:
        """The first detail of that type, `google.rpc.error_details_pb2.ErrorInfo` say; None if there is none."""
        from google.protobuf.message import DecodeError

        for packed in getattr(self.rich, "details", ()):
            # By its type URL alone: the bytes of one message may well parse as another.
            if packed.Is(kind.DESCRIPTOR):
                try:
                    return kind.FromString(packed.value)
                except DecodeError:
                    return None
        return None

    def __str__(self) -> str:
        return f"{self.code.name}: {self.text}" if self.text else self.code.name

    def __repr__(self) -> str:
        """With the size of `details` only: they came as metadata, whose values no log shows."""
        details = "" if self.details is None else f" ({len(self.details)} bytes of details)"
        return f"<Status {self}{details}>"


OK = Status(StatusCode.OK)


def unavailable(message: str) -> Status:
    """The one code that everything xDS ends in: control-plane codes never reach RPCs (A54)."""
    return Status(StatusCode.UNAVAILABLE, message)


# Those would look as if the application had said so (A54).
_THE_SERVERS_OWN = frozenset(
    {
        StatusCode.OK,
        StatusCode.INVALID_ARGUMENT,
        StatusCode.NOT_FOUND,
        StatusCode.ALREADY_EXISTS,
        StatusCode.FAILED_PRECONDITION,
        StatusCode.ABORTED,
        StatusCode.OUT_OF_RANGE,
        StatusCode.DATA_LOSS,
    }
)


def made_here(status: Status, who: str) -> Status:
    """What a plug-in of this side fails an RPC with; a code that only a server may say becomes INTERNAL (A54)."""
    if status.code not in _THE_SERVERS_OWN:
        return status
    # A54: the first code and its words stay in the message, or nobody would find what was wrong.
    return Status(StatusCode.INTERNAL, f"{who} set a status that only a server may set: {status}")


class RpcError(Exception):
    """An RPC did not end with OK. Match on `.status.code`.

    `.initial_metadata` and `.trailing_metadata` are what the server had sent by then; both
    are empty when the failure is the client's own (no route, no host, a deadline). `.peer` is the
    address of the host that had the call, empty if none had.
    """

    def __init__(
        self, status: Status, initial: Metadata | None = None, trailing: Metadata | None = None, peer: str = ""
    ) -> None:
        # All of it, for that is what pickle and copy make the exception anew from.
        super().__init__(status, initial, trailing, peer)
        self.status = status
        self.peer = peer
        self.initial_metadata = initial if initial is not None else EMPTY
        self.trailing_metadata = trailing if trailing is not None else EMPTY

    def __str__(self) -> str:
        if not self.peer or self.peer in self.status.message:
            return str(self.status)
        return f"{self.status} (host {self.peer})"


class BootstrapError(Exception):
    """The bootstrap is missing or wrong; raised by `open_channel` before anything runs."""


class TrxdsInternalError(Exception):
    """A bug in trxds ended the channel; `__cause__` has what went wrong. Please report it."""
