"""Metrics of a channel that are not about calls: control plane, connections, policies and open sessions."""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterator

from trxds.core.observe import (
    CallMirrored,
    Locate,
    Observer,
    OutlierEvent,
    SessionChanged,
    WrrUpdate,
    XdsResource,
    XdsResponse,
)
from trxds.core.status import Status

from . import instruments as of
from .meters import Labels, Meters

OLD_STYLE = "#old"  # in the place of an authority, for names that have none (A78)

# As lb/config_builder.py names a priority's node and a locality's.
_CLUSTER = re.compile(r"\{cluster=(.*), child_number=\d+\}")
_LOCALITY = re.compile(r'\{region="[^"]*", zone="[^"]*", sub_zone="[^"]*"\}')


class ChannelMetrics(Observer):
    """This observer records all metrics of one channel that are not about calls, and keeps the state for its gauges.

    The SDK reads gauges in a thread of its own. So a value that it reads is never changed: each change makes a new
    dict, or the read begins with a copy.
    """

    def __init__(self, meters: Meters, target: str, locate: Locate) -> None:
        self._meters = meters
        self._target = target
        self._locate = locate
        self._healthy: dict[str, bool] = {}  # by server
        self._states: dict[tuple[str, str], tuple[str, str, str]] = {}  # by type and name
        self._resources: Counter[tuple[str, str, str]] = Counter()  # by authority, state and type
        self._open: defaultdict[tuple[str, str], deque[Labels]] = defaultdict(deque)  # by address and security

    # -- the xDS client (A78)

    def xds_connected(self, server: str) -> None:
        # A78: a stream makes a server healthy the first time only. One that failed has to answer first.
        self._healthy = {server: True} | self._healthy

    def xds_failed(self, server: str, reason: str) -> None:
        # A78 counts how often it went from healthy to unhealthy, not each attempt while it is down.
        if self._healthy.get(server, True):
            self._meters.record(of.SERVER_FAILURE, 1, {of.TARGET: self._target, of.SERVER: server})
        self._healthy = self._healthy | {server: False}

    def xds_disconnected(self, server: str) -> None:
        self._healthy = {each: healthy for each, healthy in self._healthy.items() if each != server}

    def xds_response_received(self, response: XdsResponse) -> None:
        if not self._healthy.get(response.server):
            self._healthy = self._healthy | {response.server: True}
        labels = {of.TARGET: self._target, of.SERVER: response.server, of.RESOURCE_TYPE: response.type}
        for instrument, names in ((of.VALID, response.valid), (of.INVALID, response.invalid)):
            if names:
                self._meters.record(instrument, len(names), labels)

    def xds_resource(self, resource: XdsResource) -> None:
        key = resource.type, resource.name
        before = self._states.pop(key, None)
        if before is not None:
            self._resources[before] -= 1
        if resource.state:
            # The words of A78 and A88 for bad news beside a resource that is used on.
            state = f"{resource.state}_but_cached" if resource.cached else resource.state
            now = OLD_STYLE if resource.authority is None else resource.authority, state, resource.type
            self._states[key] = now
            self._resources[now] += 1

    # -- read by gauges, which may be those of another telemetry: an instrument that this one disables has no value

    def servers(self) -> Iterator[tuple[int, Labels]]:
        if not self._meters.has(of.CONNECTED):
            return
        for server, healthy in self._healthy.items():
            yield int(healthy), {of.TARGET: self._target, of.SERVER: server}

    def resources(self) -> Iterator[tuple[int, Labels]]:
        if not self._meters.has(of.RESOURCES):
            return
        for (authority, state, type), number in dict(self._resources).items():
            labels = {of.AUTHORITY: authority, of.CACHE_STATE: state, of.RESOURCE_TYPE: type}
            yield number, {of.TARGET: self._target, **labels}

    # -- sessions, and copies of calls

    def session_opened(self, number: int) -> None:
        self._meters.record(of.SESSIONS_ACTIVE, 1, {of.TARGET: self._target})

    def session_closed(self, number: int) -> None:
        self._meters.record(of.SESSIONS_ACTIVE, -1, {of.TARGET: self._target})

    def session_changed(self, changed: SessionChanged) -> None:
        if changed.kind == "draining":
            self._meters.record(of.SESSIONS_DRAINING, 1, {of.TARGET: self._target})
        elif changed.kind == "moved" and changed.reason == "requested":
            # Other moves are counted with the call that finds the new host, in a session or not.
            self._meters.record(of.SESSIONS_REPINNED, 1, {of.TARGET: self._target, of.REASON: changed.reason})

    def mirrored(self, copy: CallMirrored) -> None:
        status = copy.status.code.name if copy.status is not None else ""
        labels = {of.TARGET: self._target, of.RESULT: copy.result, of.STATUS: status, of.BACKEND: copy.cluster}
        self._meters.record(of.MIRRORED_CALLS, 1, labels)

    # -- connections to hosts (A94)

    def connection_failed(self, address: str, status: Status) -> None:
        self._meters.record(of.ATTEMPTS_FAILED, 1, self._labels_of_host(address))

    def connection_opened(self, address: str, security: str) -> None:
        labels = {**self._labels_of_host(address), of.SECURITY: security}
        self._open[address, security].append(labels)
        self._meters.record(of.ATTEMPTS_SUCCEEDED, 1, labels)
        self._meters.record(of.OPEN_CONNECTIONS, 1, labels)

    def connection_closed(self, address: str, security: str, why: str) -> None:
        opened = self._open[address, security]
        if not opened:
            return  # before we watched
        # Those of its opening: its locality may be another by now, and what goes up must come down where it went up.
        # The oldest: an event does not name its connection, and one that is replaced was opened before the new one.
        labels = opened.popleft()
        if not opened:
            del self._open[address, security]
        self._meters.record(of.OPEN_CONNECTIONS, -1, labels)
        self._meters.record(of.DISCONNECTIONS, 1, {**labels, of.DISCONNECT: why})

    def _labels_of_host(self, address: str) -> dict[str, str]:
        if not (self._meters.has_label(of.BACKEND) or self._meters.has_label(of.LOCALITY)):
            return {of.TARGET: self._target}
        at = self._locate(address)
        return {of.TARGET: self._target, of.BACKEND: at.backend, of.LOCALITY: at.locality}

    # -- weighted_round_robin and outlier detection (A78, A91)

    def weights(self, weights: WrrUpdate) -> None:
        labels = {of.TARGET: self._target, **_place(weights.policy)}
        for instrument, number in (
            (of.RR_FALLBACK, int(weights.fell_back)),
            (of.NOT_YET_USABLE, weights.not_yet_usable),
            (of.STALE, weights.stale),
        ):
            if number:
                self._meters.record(instrument, number, labels)
        for weight in weights.endpoints:
            self._meters.record(of.WEIGHTS, weight, labels)

    def outlier(self, outlier: OutlierEvent) -> None:
        labels = {of.TARGET: self._target, of.DETECTION: outlier.method, of.BACKEND: outlier.backend}
        if outlier.unenforced:
            self._meters.record(of.UNENFORCED_EJECTIONS, 1, {**labels, of.UNENFORCED: outlier.unenforced})
        else:
            self._meters.record(of.ENFORCED, 1, labels)


def _place(path: str) -> dict[str, str]:
    """Return the cluster and the locality of a leaf, read from its path in the tree."""
    cluster, locality = _CLUSTER.search(path), _LOCALITY.search(path)
    return {of.BACKEND: cluster[1] if cluster else "", of.LOCALITY: locality[0] if locality else ""}
