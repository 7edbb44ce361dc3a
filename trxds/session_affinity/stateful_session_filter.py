"""The stateful session filter turns a cookie into an override, and the used host into a Set-Cookie (A55, A60)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from trxds.core.metadata import Metadata
from trxds.lb.pick import Override, PickArgs
from trxds.resolver.pick_outcomes import SessionStep
from trxds.resources.stateful_session import SessionState

from . import cookie
from .session_state import carrier

_log = logging.getLogger("trxds.session_affinity")

_NOTHING = cookie.SessionCookie("")
_MAX_KNOWN_COOKIES = 256


class StatefulSession:
    """The filter for all routes that share one configuration."""

    def __init__(self, state: SessionState, strict: bool = False, epoch: Callable[[], float] = time.time) -> None:
        self._carrier = carrier(state)
        self._strict = strict
        self._epoch = epoch
        # The last path and metadata, with their results: a method's calls often have the same ones.
        self._covered: str | None = None
        self._last: Metadata | None = None
        self._held = _NOTHING
        self._complaints: set[str] = set()
        self._known: dict[str, cookie.SessionCookie] = {}  # decoded values: a session repeats its own

    def start(self, call: PickArgs) -> Callable[[Metadata], Metadata] | None:
        """Apply the request's cookie; return a function for response metadata, or None if the filter does not apply."""
        held = self.apply_cookie(call)
        if held is None:
            return None

        def respond(metadata: Metadata) -> Metadata:
            override = call.override
            if override is None or not override.actual_address_list:
                return metadata
            addresses, cluster = self._carrier.encode(override.actual_address_list, call.cluster)
            if addresses == held.addresses and cluster in held.clusters:
                return metadata
            return self._carrier.write(metadata, addresses, cluster)

        return respond

    def apply_cookie(self, call: PickArgs) -> cookie.SessionCookie | None:
        """Set override and cluster of `call` by its cookie; return the cookie, or None if the filter does not apply."""
        if call.path != self._covered:
            if not self._carrier.matches_path(call.path):
                return None
            self._covered = call.path
        if self._carrier.session_headers:
            call.session_headers += self._carrier.session_headers
        held = self._read(call.metadata)
        # Set even without a cookie, because the pick stores the chosen host in it (A55). Of two filters the
        # later one wins, unless only the earlier one knows a host.
        if held.addresses or call.override is None:
            call.override = Override(held.hosts, strict=self._strict)
        if held.cluster != call.cluster and held.cluster and call.route is not None:
            call.cluster = next(filter(call.route.allows_cluster, held.clusters), call.cluster)
        return held

    def explain(self, call: PickArgs) -> SessionStep:
        """Apply the request's cookie and say in words what follows."""
        drawn = call.cluster
        held = self.apply_cookie(call)
        if held is None:
            return SessionStep(repr(self._carrier), (), "", f"takes no part in {call.path}")
        shown = self._cluster_shown(held, call)
        return SessionStep(repr(self._carrier), held.hosts, shown, self._verdict(held, call, drawn))

    def _cluster_shown(self, held: cookie.SessionCookie, call: PickArgs) -> str:
        """Return the cookie's cluster if it may be shown: the text of another program's cookie may be a secret."""
        if held.cluster and call.cluster in held.clusters:
            return call.cluster
        return held.cluster if held.is_list_of_hosts else ""

    def _verdict(self, held: cookie.SessionCookie, call: PickArgs, drawn: str) -> str:
        if not held.addresses and not held.cluster:
            return "cannot be read, or is too old" if self._carrier.read(call.metadata) else "none in the request"
        host = f"names {', '.join(held.hosts)}"
        shown = self._cluster_shown(held, call)
        if not shown:
            return f"{host} and no cluster{' of the route' if held.cluster else ''}"
        if shown != call.cluster:
            return f"{host} and cluster {shown}, which the route does not have"
        return f"{host} and cluster {shown}{f', in place of {drawn}' if drawn != call.cluster else ''}"

    def _read(self, metadata: Metadata) -> cookie.SessionCookie:
        if metadata is not self._last:  # by identity: a method's calls often pass the same object
            self._last, self._held = metadata, self._look_up(self._carrier.read(metadata))
        return self._held if self._held.expires >= self._epoch() else _NOTHING

    def _look_up(self, text: str | None) -> cookie.SessionCookie:
        if not text:
            return _NOTHING
        held = self._known.get(text)
        return self._learn(text) if held is None else held

    def _learn(self, text: str) -> cookie.SessionCookie:
        held = cookie.decode(text)
        problem = _problem(text, held)
        if problem and problem not in self._complaints:
            # Once, because many such cookies must not fill the log; and without the text, which may be a secret.
            self._complaints.add(problem)
            _log.warning("%s %s; its RPCs are balanced as if they had none", self._carrier, problem)
        if len(text) > cookie.MAX_SIZE:
            return _NOTHING
        if len(self._known) >= _MAX_KNOWN_COOKIES:
            self._known.clear()
        self._known[text] = held or _NOTHING
        return self._known[text]


def _problem(text: str, held: cookie.SessionCookie | None) -> str:
    if len(text) > cookie.MAX_SIZE:
        return f"is longer than {cookie.MAX_SIZE} characters"
    return "" if held is not None and held.is_list_of_hosts else "holds no list of ip:port"
