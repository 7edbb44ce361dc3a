"""What a channel logs at DEBUG: each decision of its calls, of its xDS client and of its policies.

A `DecisionLog` is an observer, and there is one only if a logger is at DEBUG when the channel opens. So a channel that
does not log its decisions pays nothing for them. No line has metadata, a cookie's content or a status message of a
host, which may all be secrets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import count

from trxds.core.connectivity import Connectivity
from trxds.core.observe import (
    AttemptObserver,
    CallObserver,
    CallStarted,
    Observer,
    Pick,
    SessionPick,
    XdsRequest,
    XdsResource,
    XdsResponse,
)
from trxds.core.observers import Observers
from trxds.core.plural import plural
from trxds.core.policy_names import short_policy_name
from trxds.core.status import Status
from trxds.lb.policy_node import Node
from trxds.resolver.config_log import shown

_client = logging.getLogger("trxds.client")
_resolver = logging.getLogger("trxds.resolver")
_lb = logging.getLogger("trxds.lb")
_session_affinity = logging.getLogger("trxds.session_affinity")
_xds = logging.getLogger("trxds.xds")

_OF_CALLS = (_client, _resolver, _lb, _session_affinity)
_SESSION_PICKS = {
    "hit": "its session's cookie names a host that can be used",
    "wait": "it waits for the host that its session's cookie names",
}


def log_decisions(observers: Observers, name: str) -> None:
    """Add a `DecisionLog` to the observers, if any of its loggers is at DEBUG now."""
    if any(each.isEnabledFor(logging.DEBUG) for each in (*_OF_CALLS, _xds)):
        observers.add(DecisionLog(name))


def policy_decision_log(name: str) -> Callable[[Node, Connectivity, float], None] | None:
    """Return a function that logs a policy's decision; None unless its logger is at DEBUG now."""

    def log(node: Node, state: Connectivity, now: float) -> None:
        policy = short_policy_name(node.policy_name)
        _lb.debug("%s: %s at %s reports %s; it sees %s", name, policy, node.path, state.name, node.describe(now))

    # With None a step pays one test: to describe a node is to go through all that it sees.
    return log if _lb.isEnabledFor(logging.DEBUG) else None


class DecisionLog(Observer):
    """The decisions of one channel, or of the xDS client that several share; `name` is how its lines begin."""

    __slots__ = ("_name", "_numbers")

    def __init__(self, name: str) -> None:
        self._name = name
        self._numbers = count(1)

    def call(self, call: CallStarted) -> CallObserver | None:
        # Asked for each call, because the program may have raised the levels since the channel opened.
        if not any(each.isEnabledFor(logging.DEBUG) for each in _OF_CALLS):
            return None
        return _CallLog(f"{self._name}: call {next(self._numbers)} of {call.path}", call.session)

    def xds_request_sent(self, request: XdsRequest) -> None:
        if request.answers:
            text = "%s: xDS server %s gets %s for %s version %s"
            _xds.debug(
                text, self._name, request.server, "a NACK" if request.error else "an ACK", request.type, request.version
            )
        else:
            text = "%s: xDS server %s is asked for %s: %s"
            _xds.debug(text, self._name, request.server, request.type, shown(request.names) or "nothing")

    def xds_response_received(self, response: XdsResponse) -> None:
        text = "%s: xDS server %s sends %s version %s: %s valid, %d invalid"
        sizes = plural(len(response.valid), "resource"), len(response.invalid)
        _xds.debug(text, self._name, response.server, response.type, response.version, *sizes)

    def xds_resource(self, resource: XdsResource) -> None:
        version = f" (version {resource.version})" if resource.version else ""
        state = resource.state or "not watched any more"
        _xds.debug('%s: %s "%s" is %s%s', self._name, resource.type, resource.name, state, version)

    def session_opened(self, number: int) -> None:
        _session_affinity.debug("%s: session %d is opened", self._name, number)

    def session_closed(self, number: int) -> None:
        _session_affinity.debug("%s: session %d is closed", self._name, number)


class _CallLog(CallObserver):
    __slots__ = ("_call",)

    def __init__(self, call: str, session: int | None) -> None:
        self._call = call
        _client.debug("%s begins%s", call, "" if session is None else f" in session {session}")

    def resolution_delayed(self) -> None:
        _client.debug("%s had to wait for a configuration", self._call)

    def routed(self, cluster: str, hedged: bool) -> None:
        _resolver.debug("%s is routed to cluster %s%s", self._call, cluster, ", and hedged" if hedged else "")

    def attempt(self, previous: int, transparent: bool) -> AttemptObserver | None:
        # The first attempt needs no line, because the call has one.
        if previous or transparent:
            kind = "transparent retry" if transparent else f"attempt {previous + 1}"
            _client.debug("%s: a %s begins", self._call, kind)
        return _AttemptLog(self._call)

    def backing_off(self, seconds: float) -> None:
        _client.debug("%s is tried again in %.3f s", self._call, seconds)

    def ended(self, status: Status) -> None:
        _client.debug("%s ended with %s", self._call, status.code.name)


class _AttemptLog(AttemptObserver):
    __slots__ = ("_call",)

    def __init__(self, call: str) -> None:
        self._call = call

    def delayed(self, why: str) -> None:
        _lb.debug("%s waits: %s", self._call, why)

    def session_picked(self, pick: SessionPick) -> None:
        # Without `wanted`: a cookie may come from anywhere, and name anything as a host.
        result = _SESSION_PICKS.get(pick.result, f"a policy chooses its host ({pick.reason})")
        _session_affinity.debug("%s: %s", self._call, result)

    def picked(self, pick: Pick) -> None:
        named = f", with the authority {pick.authority}" if pick.authority else ""
        _lb.debug("%s goes to host %s of cluster %s%s", self._call, pick.address, pick.backend or pick.cluster, named)

    def ended(self, status: Status) -> None:
        # The line of the call says OK already.
        if not status.ok:
            _client.debug("%s: an attempt ended with %s", self._call, status.code.name)
