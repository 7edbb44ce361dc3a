"""`trxds tap`: the choice of events, and their lines. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from .words import coloured

KINDS = ("pick", "call_ended", "missed")


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of shell patterns, in which `*` is any text. None lets everything through.

    With a `status`, ends of calls with that status are shown. Without one, picks are shown, and ends that are failures.
    """

    method: str | None = None
    cluster: str | None = None
    host: str | None = None
    session: str | None = None
    status: str | None = None

    def shows(self, event: Mapping[str, Any]) -> bool:
        if event["kind"] == "missed":
            return True
        if self.status is None:
            wanted = event["kind"] == "pick" or event["status"] != "OK"
        else:
            wanted = event["kind"] == "call_ended" and fnmatchcase(event["status"], self.status.upper())
        return wanted and all(
            pattern is None or fnmatchcase(event[field] or "", pattern)
            for field, pattern in (
                ("method", self.method),
                ("cluster", self.cluster),
                ("host", self.host),
                ("session", self.session),
            )
        )


def event_line(event: Mapping[str, Any]) -> str:
    """Return an event's line: `03:12:45.120  #17  /shop.Cart/Add  cart  10.0.0.1:443  session shop/3  session`."""
    if event["kind"] == "missed":
        return f"... {event['count']} more did not fit"
    at = datetime.fromtimestamp(event["time"]).strftime("%H:%M:%S.%f")[:-3]
    session = f"session {event['session']}" if event["session"] else "no session"
    where = (f"#{event['call']}", event["method"], event["cluster"] or "-", event["host"] or "-", session)
    return "  ".join((at, *where, _end(event)))


def _end(event: Mapping[str, Any]) -> str:
    if event["kind"] == "call_ended":
        text = f"{coloured(event['status'])} after {event['seconds'] * 1000:.1f} ms"
        return f"{text}: {event['message']}" if event["message"] else text
    metadata = " ".join(f"{key}={value}" for key, value in event["metadata"].items())
    return f"{event['why']}  {metadata}".rstrip()
