"""An `OpenSession` is a session while its block lasts; `UnstickyMethods` warns of calls that no filter makes sticky."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Iterator, Mapping

import trio

from trxds.core.arguments import check_number
from trxds.core.plural import plural
from trxds.core.status import RpcError, Status, StatusCode
from trxds.lb.pick import Override, PickArgs
from trxds.resolver.target_uri import is_xds
from trxds.resources.experiments import OVERRIDE_HOST_VARIABLE, read_experiments
from trxds.session_affinity.cookie import path_matches
from trxds.session_affinity.first_call import FirstCall
from trxds.session_affinity.session import SessionCookies
from trxds.session_affinity.session_hosts import CookieKey, SessionHost
from trxds.session_affinity.session_token import Key, checked_keys, encode_token
from trxds.session_affinity.stateful_session_filter import StatefulSession

from .call_registry import RegisteredCall
from .call_scope import CallScope
from .lifecycle import ChannelLifecycle

_log = logging.getLogger("trxds.client")

MAX_METHODS = 100  # of a channel, whose calls in sessions are not sticky: more are neither logged nor kept
WARN_AFTER = 1.0  # seconds that the calls of a session may wait for its first one, before the log says so
FIRST_WITHIN = 5.0  # seconds after which they go on without it


class UnstickyMethods:
    """The methods of a channel whose calls in sessions are not sticky, and why.

    Each is logged once, at most `MAX_METHODS` of them, and forgotten when a call of it is sticky again.
    """

    def __init__(self, target: str) -> None:
        self.reasons: dict[str, str] = {}
        self._target = target
        self._logged: set[str] = set()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return one sentence for each method, for operators."""
        return tuple(f"calls of sessions to {path} are not sticky: {why}" for path, why in self.reasons.items())

    def add(self, call: PickArgs) -> str:
        """Note that the call is not sticky; return the reason, with the remedy."""
        # Worked out anew for each call: another configuration may have another reason.
        why = why_not_sticky(self._target, call)
        if call.path in self.reasons or len(self.reasons) < MAX_METHODS:
            self.reasons[call.path] = why
        if call.path not in self._logged and len(self._logged) < MAX_METHODS:
            self._logged.add(call.path)
            _log.warning("%s: calls of sessions to %s are not sticky: %s", self._target, call.path, why)
        return why


def _session_filters(call: PickArgs) -> Iterator[StatefulSession]:
    route = call.route
    chains = (each.filters for each in route.clusters if each.name == call.cluster) if route is not None else ()
    return (each for chain in chains for each in chain if isinstance(each, StatefulSession))


def _why_lost(call: PickArgs) -> str:
    """Return why the cookies that session filters set in a call do not come back; empty if one does."""
    problems = [each.problem for each in _session_filters(call) if path_matches(each.path, call.path)]
    return problems[0] if problems and all(problems) else ""


def why_not_sticky(target: str, call: PickArgs) -> str:
    """Return why a call cannot be sticky, with the remedy; empty if it can."""
    if call.override is not None:
        return _why_lost(call)
    for each in _session_filters(call):
        return f"the session filter's cookie has the path {each.path}, which does not cover the method; set it to /"
    if not is_xds(target):
        return (
            "the target has no control plane, and the program configures no cookie; give open_channel "
            'affinity=trxds.CookieAffinity("session"), or a service config with statefulSession'
        )
    if not read_experiments(os.environ).override_host:
        return f"{OVERRIDE_HOST_VARIABLE} is false in the environment, which switches sessions off; unset it"
    return (
        "the route has no stateful session filter; add envoy.filters.http.stateful_session to the http_filters of "
        "the Listener, or enable it for the route"
    )


class OpenSession:
    """The lifecycle of a session's calls: it ends with the session's block, or with the channel."""

    __slots__ = (
        "_calls",
        "_first_within",
        "_has_warned",
        "_is_over",
        "_is_required",
        "_may_spread",
        "channel",
        "cookies",
        "now",
        "unsticky",
    )

    def __init__(
        self,
        cookies: SessionCookies,
        channel: ChannelLifecycle,
        unsticky: UnstickyMethods,
        now: Callable[[], float],
        *,
        required: bool = False,
        first_within: float = FIRST_WITHIN,
    ) -> None:
        """`required`: calls that cannot be sticky fail. `first_within`: seconds that calls wait for the first one."""
        self.cookies = cookies
        self.channel = channel
        self.unsticky = unsticky
        self.now = now  # Trio's clock, also from other threads
        self._is_required = required
        self._first_within = first_within
        self._calls: set[RegisteredCall] = set()
        self._is_over = False
        self._has_warned = False
        self._may_spread = True  # until a call finds the session's host known

    # -- its end

    @property
    def closed(self) -> bool:
        """Whether its block, or its channel, has ended."""
        return self._is_over or self.channel.closed

    def check_open(self) -> None:
        """Raise what a call raises that begins after the session has ended, or in another Trio run."""
        if self.closed:
            raise self.not_open_error()
        self.channel.check_run()

    def not_open_error(self) -> Exception:
        """Return what a call raises that begins after the session has ended."""
        if self.channel.closed:
            return self.channel.not_open_error()
        return trio.ClosedResourceError("the session's block is over; make calls inside it, or open another session")

    def closed_error(self) -> Exception:
        """Return what a call raises that was open when the session ended."""
        if self.channel.closed:
            return self.channel.closed_error()
        return RpcError(Status(StatusCode.CANCELLED, "session closed"))

    def end(self) -> None:
        """End the session: its open calls are cancelled, and no more can begin."""
        self._is_over = True
        if self.channel.closed:
            return  # it has cancelled them; in a fork they are the parent's, and nothing may be sent for them
        # A copy: a call that is cancelled may be closed, and leave the set, in the same step.
        for call in tuple(self._calls):
            call.cancel("the session has ended")

    # -- what a program sees of it

    @property
    def hosts(self) -> Mapping[CookieKey, SessionHost]:
        """Return the host of each cookie."""
        return self.cookies.hosts(self.now())

    @property
    def only_host(self) -> SessionHost | None:
        """Return the one host that all cookies name, None without any. Raises `ValueError` if there are several."""
        hosts = self.hosts
        if len(set(hosts.values())) > 1:
            raise ValueError(f"the session has several hosts, so ask session.hosts: {_name_cookies(hosts)}")
        return next(iter(hosts.values()), None)

    def check_cookie(self, cookie: CookieKey | None) -> CookieKey:
        """Return the cookie, or the only one for None. Raises `ValueError` if there is none, or there are several."""
        hosts = self.hosts
        if cookie is not None and cookie not in hosts:
            raise ValueError(f"the session has no host by the cookie {cookie}; it has {_name_cookies(hosts)}")
        if cookie is None and len(hosts) != 1:
            remedy = "say which one" if hosts else "make a call first"
            raise ValueError(f"the session has {_name_cookies(hosts)}; {remedy}")
        return cookie or next(iter(hosts))

    def export(self, key: Key | None) -> str:
        """Return the session as a token, signed with `key`."""
        keys = checked_keys(key)
        return encode_token(self.cookies.export(self.channel.canonical_target, self.now()), keys)

    def __repr__(self) -> str:
        hosts = ", ".join(dict.fromkeys(at.host for at in self.hosts.values()))
        state = "closed" if self.closed else f"on {hosts}" if hosts else "on no host yet"
        return f"<Session {self.cookies.number} of {self.channel.target} {state}, {plural(self.cookies.calls, 'call')}>"

    # -- its calls

    @property
    def has_open_calls(self) -> bool:
        """Whether calls of the session are under way."""
        return bool(self._calls)

    def begin_call(self, call: RegisteredCall) -> None:
        """Count a call, and register it."""
        self.cookies.calls += 1
        self.register(call)

    def register(self, call: RegisteredCall) -> None:
        """Cancel `call` if the session ends."""
        self._calls.add(call)

    def end_call(self, call: RegisteredCall) -> None:
        """Forget a call that has ended."""
        self._calls.discard(call)

    async def take_turn(self, scope: CallScope) -> FirstCall | None:
        """Wait while the session has no host and another call is its first; return it if this one is the first."""
        cookies = self.cookies
        if scope.started >= cookies.expires:
            cookies.expire()
        if cookies.view.first_call.is_over:
            return None
        scope.waiting_for = "the session's first call"
        return await scope.run_with_deadline(self._take_turn)

    async def _take_turn(self) -> FirstCall | None:
        # The first call has response headers or ends some time, or `first_within` passes: a first call that is a stream
        # may never have headers, and without a bound the session would wait for itself.
        # A loop: `release` ends a first call, and those that waited for it wait for the next one.
        while not (first := self.cookies.view.first_call).is_over:
            if first.take():
                return first
            await self._wait_for(first)
        return None

    async def _wait_for(self, first: FirstCall) -> None:
        with trio.move_on_after(min(WARN_AFTER, self._first_within)):
            await first.wait_until_over()
            return
        if self._first_within > WARN_AFTER:
            self._warn()
            with trio.move_on_after(self._first_within - WARN_AFTER):
                await first.wait_until_over()
                return
        # For the whole session, so that its later calls do not begin this wait again.
        first.end()

    def _warn(self) -> None:
        if self._has_warned:
            return
        self._has_warned = True
        after = "" if self._first_within == math.inf else f" They go on {self._first_within:g} s after they began."
        _log.warning(
            "%s: the calls of session %d wait for its first call, which has had no response headers for %g s.%s "
            "Make a short call first, or open the session with wait_for_first=False.",
            self.channel.target,
            self.cookies.number,
            WARN_AFTER,
            after,
        )

    def check_sticky(self, call: PickArgs) -> Status | None:
        """Note a call that cannot be sticky; return its failure if the session must be.

        A call that a filter takes part in may wait for the first pass of the cluster's hosts, if it is a first call.
        """
        if call.override is not None:
            if self._may_spread:
                self._spread(call.override)
            # A session whose cookie does not come back has no host, so its calls stay first calls.
            if not self._may_spread or not _why_lost(call):
                if self.unsticky.reasons:
                    self.unsticky.reasons.pop(call.path, None)
                return None
        why = self.unsticky.add(call)
        if not self._is_required:
            return None
        # A54 keeps FAILED_PRECONDITION, which would fit better, for applications.
        return Status(StatusCode.UNAVAILABLE, f"{call.path}: the session cannot be sticky: {why}")

    def _spread(self, override: Override) -> None:
        """Let the pick of a first call wait.

        First calls are those that begin while the session has no host, and the first one of a session that was
        continued: its host may not be usable any more.
        """
        if self.cookies.host and self.cookies.calls > 1:
            self._may_spread = False
        else:
            override.spread_until = math.inf


def _name_cookies(hosts: Mapping[CookieKey, SessionHost]) -> str:
    each = (f"{key.name} (path {key.path or '-'}): {at.host}" for key, at in hosts.items())
    return ", ".join(each) or "no host"


def check_first_within(first_within: float) -> None:
    """Raise `ValueError` for a `first_within` that is no number of seconds from 0."""
    check_number("first_within", first_within, lambda seconds: seconds >= 0, "a number of seconds from 0, or math.inf")
