"""The stateful session filter turns a cookie into an override, and the used host into a Set-Cookie (A55, A60)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cached_property

from trxds.core.determinism import wall_clock
from trxds.core.metadata import Metadata
from trxds.lb.pick import Override, PickArgs
from trxds.resolver.pick_outcomes import SessionStep
from trxds.resources.stateful_session import CookieConfig, SessionState

from . import cookie
from .cookie_jar import parse_set_cookie
from .session_state import make_carrier

_log = logging.getLogger("trxds.session_affinity")

_NO_COOKIE = cookie.SessionCookie("")
_MAX_KNOWN_COOKIES = 256
_MAX_NAME_SHOWN = 50  # characters


class StatefulSession:
    """The filter for all routes that share one configuration."""

    def __init__(self, state: SessionState, strict: bool = False, epoch: Callable[[], float] | None = None) -> None:
        self.path = state.path if isinstance(state, CookieConfig) else ""  # of the calls that take part; empty for all
        self._state = state
        self._carrier = make_carrier(state)
        self._strict = strict
        self._epoch = epoch or wall_clock()
        # The last path and metadata, with their results: a method's calls often have the same ones.
        self._last_path: str | None = None
        self._last_metadata: Metadata | None = None
        self._last_cookie = _NO_COOKIE
        self._logged_problems: set[str] = set()
        self._decoded_cookies: dict[str, cookie.SessionCookie] = {}  # decoded values: a session repeats its own

    @cached_property  # each first call of a session asks
    def problem(self) -> str:
        """Return why no client sends back the cookie that the filter sets, with the remedy; empty if clients do."""
        state = self._state
        if not isinstance(state, CookieConfig):
            return ""
        # As in the C++ client, any name and ttl is accepted. The jar decides, with a value of a usual size.
        received = parse_set_cookie(cookie.set_cookie_header(state, "V" * 100), 0.0)
        if received is None or received.key.name != state.name:
            name = f"the name {state.name[:_MAX_NAME_SHOWN]!r}"
            return f"the session filter's cookie has {name}, which no client sends back; use a few letters and digits"
        if received.age <= 0:
            return f"the session filter's cookie has the ttl {state.ttl:g} s, which ends it at once; set 1s or more"
        return ""

    def start(self, call: PickArgs) -> Callable[[Metadata], Metadata] | None:
        """Apply the request's cookie; return a function for response metadata, or None if the filter does not apply."""
        session = self.apply_cookie(call)
        if session is None:
            return None

        def respond(metadata: Metadata) -> Metadata:
            override = call.override
            if override is None or not override.actual_address_list:
                return metadata
            addresses, cluster = self._carrier.encode(override.actual_address_list, call.cluster)
            # A55: Set-Cookie only if the cookie names another host or cluster.
            # The text is compared: an endpoint that is reached by another of its addresses has another order (A61).
            if addresses == session.addresses and cluster in session.clusters:
                return metadata
            return self._carrier.write(metadata, addresses, cluster)

        return respond

    def apply_cookie(self, call: PickArgs) -> cookie.SessionCookie | None:
        """Set override and cluster of `call` by its cookie; return the cookie, or None if the filter does not apply."""
        if call.path != self._last_path:
            if not cookie.path_matches(self.path, call.path):
                return None
            self._last_path = call.path
        if self._carrier.session_headers:
            call.session_headers += self._carrier.session_headers
        session = self._read_cookie(call.metadata)
        # Set even without a cookie, because the pick stores the chosen host in it (A55). Of two filters the
        # later one wins, unless only the earlier one knows a host.
        if session.addresses or call.override is None:
            call.override = Override(session.hosts, strict=self._strict)
        if session.cluster != call.cluster and session.cluster and call.route is not None:
            # A60: only a cluster of the matched route; otherwise the drawn one stays.
            call.cluster = next(filter(call.route.allows_cluster, session.clusters), call.cluster)
        return session

    def explain(self, call: PickArgs) -> SessionStep:
        """Apply the request's cookie and say in words what follows."""
        drawn = call.cluster
        session = self.apply_cookie(call)
        if session is None:
            return SessionStep(repr(self._carrier), (), "", f"takes no part in {call.path}")
        cluster = self._visible_cluster(session, call)
        return SessionStep(repr(self._carrier), session.hosts, cluster, self._describe(session, call, drawn))

    def _visible_cluster(self, session: cookie.SessionCookie, call: PickArgs) -> str:
        """Return the cookie's cluster if it may be shown: the text of another program's cookie may be a secret."""
        if session.cluster and call.cluster in session.clusters:
            return call.cluster
        return session.cluster if session.is_list_of_hosts else ""

    def _describe(self, session: cookie.SessionCookie, call: PickArgs, drawn: str) -> str:
        if not session.addresses and not session.cluster:
            return "cannot be read, or is too old" if self._carrier.read(call.metadata) else "none in the request"
        host = f"names {', '.join(session.hosts)}"
        cluster = self._visible_cluster(session, call)
        if not cluster:
            return f"{host} and no cluster{' of the route' if session.cluster else ''}"
        if cluster != call.cluster:
            return f"{host} and cluster {cluster}, which the route does not have"
        return f"{host} and cluster {cluster}{f', in place of {drawn}' if drawn != call.cluster else ''}"

    def _read_cookie(self, metadata: Metadata) -> cookie.SessionCookie:
        if metadata is not self._last_metadata:  # by identity: a method's calls often pass the same object
            self._last_metadata, self._last_cookie = metadata, self._lookup(self._carrier.read(metadata))
        # The expiry is checked for each RPC, because the decoded cookie is cached.
        return self._last_cookie if self._last_cookie.expires >= self._epoch() else _NO_COOKIE

    def _lookup(self, text: str | None) -> cookie.SessionCookie:
        if not text:
            return _NO_COOKIE
        session = self._decoded_cookies.get(text)
        return self._decode(text) if session is None else session

    def _decode(self, text: str) -> cookie.SessionCookie:
        session = cookie.decode(text)
        problem = _find_problem(text, session)
        if problem and problem not in self._logged_problems:
            # Once, because many such cookies must not fill the log; and without the text, which may be a secret.
            self._logged_problems.add(problem)
            _log.warning("%s %s", self._carrier, problem)
        if len(text) > cookie.MAX_SIZE:
            return _NO_COOKIE
        if len(self._decoded_cookies) >= _MAX_KNOWN_COOKIES:
            # Cleared all at once: cookies come from outside, so a cache of them needs a bound and no order.
            self._decoded_cookies.clear()
        self._decoded_cookies[text] = session or _NO_COOKIE
        return self._decoded_cookies[text]


def _find_problem(text: str, session: cookie.SessionCookie | None) -> str:
    if len(text) > cookie.MAX_SIZE:
        return f"is longer than {cookie.MAX_SIZE} characters; its RPCs are balanced as if they had none"
    if session is None or not session.names_host:
        return "holds no address; its RPCs may go to any host"
    return "" if session.is_list_of_hosts else "holds texts that are no addresses; its RPCs use only its addresses"
