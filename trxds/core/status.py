"""A `Status` is the outcome of an RPC, as a value; this file also has the three exceptions for users.

Inside trxds an expected failure is a `Status`; it becomes an exception only at the user's call, in `client/rpc.py` and
`client/method.py`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar, cast

from .metadata import EMPTY, Metadata

if TYPE_CHECKING:
    from google.protobuf.message import Message

M = TypeVar("M", bound="Message")


# The last letter of a format that only numbers have (the format specification mini-language).
_NUMBER_FORMATS = frozenset("bcdeEfFgGnoxX%")


class StatusCode(enum.IntEnum):
    """The status codes of gRPC; the values are those of `grpc-status` on the wire.

    As text a code is its name, `UNAVAILABLE`; with a format of numbers, as `f"{code:d}"`, it is its value.
    """

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

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        # An `IntEnum` formats as its number since Python 3.11, which tells the reader of a log nothing.
        return int.__format__(self, spec) if spec[-1:] in _NUMBER_FORMATS else format(self.name, spec)


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
    """Return the code for an HTTP status: of a response without gRPC, such as a proxy's, or of an injected fault."""
    # A grpc-status in the response takes precedence over the HTTP status (http-grpc-status-mapping.md).
    return _HTTP.get(status, StatusCode.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Status:
    """The outcome of an RPC: `code`, a `message` for people, and `details`.

    `details` holds the bytes of `grpc-status-details-bin` (a serialised `google.rpc.Status`), or None when the
    server sent none; `rich` and `detail` parse them. `note` names the resource and the reason where gRPC fixes the
    message, such as for a drop or a missing route, or the likely cause of hosts that refuse; `str` includes it.
    """

    code: StatusCode
    message: str = ""
    details: bytes | None = None
    note: str = ""
    ok: bool = field(init=False, repr=False, compare=False)
    """Whether the code is OK."""

    def __post_init__(self) -> None:
        # Computed once, because an RPC reads it several times and a property would cost a call each time.
        object.__setattr__(self, "ok", self.code is StatusCode.OK)

    @property
    def text(self) -> str:
        """Return the message, with the note in brackets."""
        return f"{self.message} ({self.note})" if self.note else self.message

    @property
    def rich(self) -> Message | None:
        """Return `details` as a `google.rpc.Status`; None if there are none, or they cannot be parsed."""
        if self.details is None:
            return None
        from google.protobuf.message import DecodeError  # few statuses have any
        from google.rpc.status_pb2 import Status as RichStatus

        try:
            return cast("Message", RichStatus.FromString(self.details))
        except DecodeError:
            return None

    def detail(self, kind: type[M]) -> M | None:
        """Return the first detail of a type such as `google.rpc.error_details_pb2.ErrorInfo`; None if there is none."""
        from google.protobuf.message import DecodeError

        for packed in getattr(self.rich, "details", ()):
            # The type URL decides, because the bytes of one message may parse as another.
            if packed.Is(kind.DESCRIPTOR):
                try:
                    return kind.FromString(packed.value)
                except DecodeError:
                    return None
        return None

    def __str__(self) -> str:
        return f"{self.code.name}: {self.text}" if self.text else self.code.name

    def __repr__(self) -> str:
        """Show the size of `details` only: they came as metadata, whose values must not be logged."""
        details = "" if self.details is None else f" ({len(self.details)} bytes of details)"
        return f"<Status {self}{details}>"


OK = Status(StatusCode.OK)
"""The status of a call that succeeded, and the health of a host that takes calls."""
CANCELLED = Status(StatusCode.CANCELLED, "cancelled by the client")


def unavailable(message: str) -> Status:
    """Return UNAVAILABLE, the code of all xDS errors: a control plane's codes must not reach RPCs (A54)."""
    return Status(StatusCode.UNAVAILABLE, message)


# A54: from the client, these codes would look like the server application's.
_SERVER_ONLY_CODES = frozenset(
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


def rewrite_illegal_status(status: Status, source: str) -> Status:
    """Return the status of an RPC that a plug-in of the client fails; a server-only code becomes INTERNAL (A54)."""
    if status.code not in _SERVER_ONLY_CODES:
        return status
    # The original code and message stay in the message, or the cause could not be found.
    return Status(StatusCode.INTERNAL, f"{source} set a status that only a server may set: {status}")


class RpcError(Exception):
    """An RPC that ended without OK raises `RpcError`. Match on `.status.code`.

    `.initial_metadata` and `.trailing_metadata` are those that the server had sent by then; both are empty when the
    client itself failed the call (no route, no host, a deadline). `.peer` is the address of the host that had the call,
    empty if none had.
    """

    def __init__(
        self, status: Status, initial: Metadata | None = None, trailing: Metadata | None = None, peer: str = ""
    ) -> None:
        # All arguments, because pickle and copy build the exception again from them.
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
    """A bug in trxds ended the channel; `__cause__` has the exception. Please report it."""
