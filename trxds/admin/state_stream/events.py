"""Events for viewers: picks, ends of calls, and messages between the xDS client and its control plane.

The channel reports an event in the step in which it happens, so nothing here waits. An event is a small dict in a list
that goes with the next message to viewers. Events that do not fit are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import trio

from trxds.core.metadata import as_text
from trxds.core.observe import (
    AttemptObserver,
    CallObserver,
    CallStarted,
    Observer,
    Pick,
    SessionChanged,
    SessionPick,
    XdsRequest,
    XdsResponse,
)
from trxds.core.status import Status, StatusCode
from trxds.resources.types import RESOURCE_TYPES

from .call_counts import CallCounts, Destination
from .messages import PerSecondStats

MAX_EVENTS = 2000  # events in a message
_NACK, _ACK = "NACK", "ACK"


class Events:
    """The events since the last message. `now` returns the time that viewers see."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.calls = count(1)
        self._events: list[Mapping[str, Any]] = []
        self._missed = 0
        self._seconds: dict[tuple[int, str], _SecondStats] = {}
        self.counts_destinations = False  # whether a viewer wants counts by method and host
        self._destinations: dict[tuple[int, str], CallCounts] = {}

    def note(self, event: Mapping[str, Any]) -> None:
        if len(self._events) < MAX_EVENTS:
            self._events.append(event)
        else:
            self._missed += 1

    def call_ended(self, channel: str, to: Destination, code: str, seconds: float) -> None:
        """Count a call that has ended."""
        key = int(self.now()), channel
        if self.counts_destinations:
            self._destinations.setdefault(key, CallCounts()).note(to, code, seconds)
        if key not in self._seconds:
            self._seconds[key] = _SecondStats()
        self._seconds[key].note(code, seconds)

    def take(self) -> list[Mapping[str, Any]]:
        """Return the events, with the statistics of each second that is over, and forget them."""
        events, self._events = self._events, []
        if self._missed:
            events.append({"kind": "missed", "count": self._missed})
        self._missed = 0
        present = int(self.now())
        for key in [key for key in self._seconds if key[0] < present]:
            events.append(self._seconds.pop(key).to_json(*key))
            if key in self._destinations:
                events += self._destinations.pop(key).to_json(*key)
        return events


class _SecondStats:
    """Statistics of one channel's calls that ended in one second."""

    __slots__ = ("_codes", "_times")

    def __init__(self) -> None:
        self._codes: Counter[str] = Counter()
        self._times: list[float] = []

    def note(self, code: str, seconds: float) -> None:
        self._codes[code] += 1
        self._times.append(seconds)

    def to_json(self, at: int, channel: str) -> PerSecondStats:
        times, codes = sorted(self._times), self._codes
        errors = {code: number for code, number in sorted(codes.items()) if code != StatusCode.OK.name}
        p50, p99 = (times[min(len(times) * share // 100, len(times) - 1)] for share in (50, 99))
        return {
            "kind": "per_second_stats",
            "time": float(at),
            "channel": channel,
            "requests": len(times),
            "errors": errors,
            "p50": round(p50, 6),
            "p99": round(p99, 6),
        }


class CallWatcher(Observer):
    """This observer notes the events of one channel's calls."""

    __slots__ = ("_channel", "_events")

    def __init__(self, channel: str, events: Events) -> None:
        self._channel = channel
        self._events = events

    def call(self, call: CallStarted) -> CallObserver:
        return _Call(self._channel, self._events, call)

    def session_opened(self, number: int) -> None:
        self._session(number, "opened")

    def session_closed(self, number: int) -> None:
        self._session(number, "closed")

    def session_changed(self, changed: SessionChanged) -> None:
        self._session(changed.session, changed.kind, changed)

    def _session(self, number: int, event: str, changed: SessionChanged | None = None) -> None:
        said = changed or SessionChanged(number, event, "", "", "")
        self._events.note(
            {
                "kind": "session",
                "time": self._events.now(),
                "channel": self._channel,
                "session": f"{self._channel}/{number}",
                "event": event,
                "cookie": said.cookie,
                "cluster": said.cluster,
                "host": said.address,
                "before": said.before,
                "reason": said.reason,
                "change": said.change,
            }
        )


class AdsWatcher(Observer):
    """This observer notes the messages of an xDS client, under the name of one of its channels."""

    __slots__ = ("_channel", "_events")

    def __init__(self, channel: str, events: Events) -> None:
        self._channel = channel
        self._events = events

    def xds_request_sent(self, request: XdsRequest) -> None:
        answer = "" if not request.answers else _NACK if request.error else _ACK
        names = [*request.names, *(f"-{name}" for name in request.removed)]
        self._ads("sent", request, names, answer, request.error)

    def xds_response_received(self, response: XdsResponse) -> None:
        self._ads("received", response, [*response.valid, *response.invalid], "", "; ".join(response.errors))

    def _ads(self, direction: str, said: XdsRequest | XdsResponse, names: list[str], answer: str, error: str) -> None:
        self._events.note(
            {
                "kind": "ads",
                "time": self._events.now(),
                "channel": self._channel,
                "server": said.server,
                "direction": direction,
                "type": _kind(said.type),
                "version": said.version,
                "nonce": said.nonce,
                "resources": names,
                "answer": answer,
                "error": error,
            }
        )


def _kind(type: str) -> str:
    """Return the short name of a resource type: CDS for `envoy.config.cluster.v3.Cluster`."""
    known = RESOURCE_TYPES.get(f"type.googleapis.com/{type}")
    return known.kind if known is not None else type


class _Call(CallObserver):
    __slots__ = ("_began", "_call", "_channel", "_events", "_number", "_session", "cluster", "host")

    def __init__(self, channel: str, events: Events, call: CallStarted) -> None:
        self.cluster = self.host = ""
        self._channel = channel
        self._events = events
        self._call = call
        self._number = next(events.calls)
        self._began = trio.current_time()
        self._session = f"{channel}/{call.session}" if call.session is not None else None

    def attempt(self, previous: int, transparent: bool) -> AttemptObserver:
        return _Attempt(self)

    def ended(self, status: Status) -> None:
        seconds = trio.current_time() - self._began
        to = Destination(self._call.path, self.cluster, self.host)
        self._events.call_ended(self._channel, to, status.code.name, seconds)
        event = self._call_event("call_ended")
        self._events.note({**event, "status": status.code.name, "message": status.text, "seconds": round(seconds, 6)})

    @property
    def in_session(self) -> bool:
        return self._session is not None

    def picked(self, why: str) -> None:
        metadata = {key: as_text(value) for key, value in self._call.metadata}
        self._events.note({**self._call_event("pick"), "why": why, "metadata": metadata})

    def _call_event(self, kind: str) -> dict[str, Any]:
        return {
            "kind": kind,
            "time": self._events.now(),
            "channel": self._channel,
            "call": self._number,
            "method": self._call.path,
            "cluster": self.cluster,
            "host": self.host,
            "session": self._session,
        }


class _Attempt(AttemptObserver):
    __slots__ = ("_call", "_picked", "_why")

    def __init__(self, call: _Call) -> None:
        self._call = call
        self._why = "balanced"
        self._picked = False

    def session_picked(self, pick: SessionPick) -> None:
        if pick.result != "fallback":
            self._why = "session"
        elif self._call.in_session or pick.wanted:
            self._why = f"balanced: {pick.reason}"  # a session that is not on its host

    def delayed(self, why: str) -> None:
        self._call.picked(f"waits: {why}")

    def picked(self, pick: Pick) -> None:
        self._picked = True
        self._call.cluster, self._call.host = pick.cluster, pick.address
        self._call.picked(self._why)

    def ended(self, status: Status) -> None:
        if not self._picked and not status.ok:
            self._call.picked(f"no host: {status.text}")
