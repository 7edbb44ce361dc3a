"""The HTTP filters that follow one call to its end (`FilterCall`); a call without such filters has none of this."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from trxds.core import metadata as md
from trxds.core.metadata import Metadata, Value
from trxds.core.status import CANCELLED, Status, StatusCode

from .filter_protocol import FilterCall, Respond

_log = logging.getLogger("trxds.client")


class FollowedCall:
    """A filter's `FilterCall`; `label` is for messages. After `end_headers` no headers follow."""

    __slots__ = ("_has_headers", "call", "label")

    def __init__(self, call: FilterCall, label: str) -> None:
        self.call = call
        self.label = label
        self._has_headers = True

    def end_headers(self) -> None:
        """Note that the metadata that follows is that of trailers."""
        self._has_headers = False

    def respond(self, metadata: Metadata) -> Metadata | Iterable[tuple[str, Value]]:
        """Return the response's initial metadata as the filter leaves it."""
        return self.call.on_headers(metadata) if self._has_headers else metadata


class CallFilters:
    """The filters that follow one call, the first one outermost."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._followed: list[FollowedCall] = []

    def add(self, call: FilterCall, label: str) -> Respond:
        """Add the next filter; return the function for the response's initial metadata."""
        self._followed.append(FollowedCall(call, label))
        return self._followed[-1].respond

    def send(self, message: bytes) -> bytes | Status:
        """Return the message as the filters leave it; a status if one of them raises."""
        for each in self._followed:
            try:
                message = _checked(each.call.on_send(message), "on_send")
            except Exception:
                return self._exception(each, "on_send")
        return message

    def receive(self, message: bytes) -> bytes | Status:
        """Return the message that the caller gets; a status if a filter raises."""
        for each in reversed(self._followed):
            try:
                message = _checked(each.call.on_receive(message), "on_receive")
            except Exception:
                return self._exception(each, "on_receive")
        return message

    def end_headers(self) -> None:
        """Note a trailers-only response, of which the filters get no headers."""
        for each in self._followed:
            each.end_headers()

    def trailers(self, status: Status, metadata: Metadata) -> Metadata:
        """Return the trailing metadata as the filters leave it."""
        for each in reversed(self._followed):
            try:
                # The server has ended the call already, so a mistake of a filter cannot change the status.
                metadata = as_metadata(each.call.on_trailers(status, metadata))
            except Exception:
                text = "the filter %s raised on the trailers of %s; they stay as they are"
                _log.exception(text, each.label, self._path)
        return metadata

    def close(self, status: Status | None) -> None:
        """Tell the filters the status of the call; None is CANCELLED. Idempotent."""
        # Emptied first, so that a second close, or a filter that ends the call again, tells nobody twice.
        followed, self._followed = self._followed, []
        for each in reversed(followed):
            try:
                each.call.on_close(status or CANCELLED)
            except Exception:
                _log.exception("the filter %s raised at the end of %s", each.label, self._path)

    def _exception(self, followed: FollowedCall, method: str) -> Status:
        _log.exception("the filter %s raised in %s; the RPC to %s fails", followed.label, method, self._path)
        return Status(StatusCode.INTERNAL, f"the filter {followed.label} raised in {method}, see the log")


def _checked(message: object, method: str) -> bytes:
    # Checked here, where the filter has a name: later it would be an error inside the transport.
    if isinstance(message, bytes):
        return message
    raise TypeError(f"{method}() must return bytes, not {type(message).__name__}")


def as_metadata(pairs: object) -> Metadata:
    """Return what a filter made of a response's metadata, checked."""
    # `Metadata` was checked when it was made. Of pairs of the filter's own, `check` tests the type too.
    return pairs if isinstance(pairs, Metadata) else md.check(pairs, is_sent=False)  # type: ignore[arg-type]
