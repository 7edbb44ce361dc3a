"""The stateful session filter (A55, A60): a cookie in, an override; the host used, a Set-Cookie out."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from trxds.config.steps import SessionStep
from trxds.ground.metadata import Metadata
from trxds.lb.pick import Override, PickArgs
from trxds.resources.stateful_session import SessionState

from . import cookie
from .carriers import carrier

_log = logging.getLogger("trxds.affinity")

_NOTHING = cookie.SessionCookie("")
_MOST_KNOWN = 256


class StatefulSession:
    """One configured instance, for every RPC of the routes that share the configuration."""

    def __init__(self, state: SessionState, strict: bool = False, epoch: Callable[[], float] = time.time) -> None:
        self._carrier = carrier(state)
        self._strict = strict
        self._epoch = epoch
        self._covered: str | None = None  # the last path that takes part
        self._last: Metadata | None = None  # what was read last
        self._held = _NOTHING  # ... and what it said
        self._known: dict[str, cookie.SessionCookie] = {}  # what was read of late: a session says the same each time

    def start(self, call: PickArgs) -> Callable[[Metadata], Metadata] | None:
        """Reads the cookie; the answer is what the response's metadata has to pass."""
        held = self.judge(call)
        if held is None:
            return None

        def respond(metadata: Metadata) -> Metadata:
            override = call.override
            if override is None or not override.actual:
                return metadata
            now = self._carrier.tells(override.actual, call.cluster)
            return metadata if now == (held.addresses, held.cluster) else self._carrier.write(metadata, *now)

        return respond

    def judge(self, call: PickArgs) -> cookie.SessionCookie | None:
        """Reads the cookie and notes in `call` what follows; None where the filter takes no part."""
        if call.path != self._covered:
            if not self._carrier.covers(call.path):
                return None
            self._covered = call.path
        if self._carrier.session_headers:
            call.session_headers += self._carrier.session_headers
        held = self._read(call.metadata)
        # Set even without a cookie: the pick notes in it which host this session is given. Of two
        # filters the later one has its way, unless only the earlier one knows a host.
        if held.addresses or call.override is None:
            call.override = Override(held.hosts, strict=self._strict)
        if held.cluster != call.cluster and held.cluster and call.route is not None and call.route.has(held.cluster):
            call.cluster = held.cluster
        return held

    def explain(self, call: PickArgs) -> SessionStep:
        """As `judge`, in words."""
        drawn = call.cluster
        held = self.judge(call)
        if held is None:
            return SessionStep(repr(self._carrier), (), "", f"takes no part in {call.path}")
        return SessionStep(repr(self._carrier), held.hosts, held.cluster, self._verdict(held, call, drawn))

    def _verdict(self, held: cookie.SessionCookie, call: PickArgs, drawn: str) -> str:
        if not held.addresses and not held.cluster:
            return "cannot be read, or is too old" if self._carrier.read(call.metadata) else "none in the request"
        form = "" if cookie.names_hosts(held.addresses) else ", which is not of the form ip:port,"
        host = f"names {held.addresses}{form}"
        if not held.cluster:
            return f"{host} and no cluster"
        if held.cluster != call.cluster:
            return f"{host} and cluster {held.cluster}, which the route does not have"
        return f"{host} and cluster {held.cluster}{f', in place of {drawn}' if drawn != call.cluster else ''}"

    def _read(self, metadata: Metadata) -> cookie.SessionCookie:
        if metadata is not self._last:  # it is, where a method's calls say the same each time
            self._last, self._held = metadata, self._look_up(self._carrier.read(metadata))
        return self._held if self._held.expires >= self._epoch() else _NOTHING

    def _look_up(self, text: str | None) -> cookie.SessionCookie:
        if not text:
            return _NOTHING
        held = self._known.get(text)
        return self._learn(text) if held is None else held

    def _learn(self, text: str) -> cookie.SessionCookie:
        held = cookie.decode(text)
        if held is None or not cookie.names_hosts(held.addresses):
            # Once for each text: the next time it is known.
            _log.warning("%s holds no list of ip:port: %.100r", self._carrier, held.addresses if held else text)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[text] = held or _NOTHING
        return self._known[text]
