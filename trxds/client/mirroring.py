"""Copies of calls go to another cluster, as `request_mirror_policies` of their routes ask (Envoy's traffic mirroring).

A copy is no call of the program. It begins once the call has a stream, runs in a task of the channel, and is never
retried. Nothing of its response reaches the call, its session or its retries. What a copy may take has bounds, and a
copy beyond them is dropped and counted.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from random import Random

import trio
from msgspec import Struct

from trxds.core.arguments import check_number
from trxds.core.metadata import Metadata
from trxds.core.observe import CallMirrored
from trxds.core.plural import plural
from trxds.core.status import Status
from trxds.lb.pick import PickArgs
from trxds.resolver.routes import FindCluster
from trxds.resources.matchers import header_value
from trxds.resources.request_mirror import MirrorPolicies, RequestMirrorPolicy
from trxds.resources.units import MILLION

from .attempt import Attempt
from .call_scope import CallScope
from .call_settings import CallSettings
from .channel_state import ChannelState
from .mirror import Mirror, MirrorChannel, MirrorPlane
from .replay_buffer import ReplayBuffer

_log = logging.getLogger("trxds.client")

MAX_CALLS = 100
MAX_BYTES = 4 * 1024 * 1024
TIMEOUT = 15.0
MAX_LOGGED = 100  # clusters and reasons

_CREDENTIALS = frozenset({"authorization", "proxy-authorization"})
_PORT = re.compile(r":\d+$")
_REASONS = {
    "too_many": "as many as Mirroring.max_calls are under way",
    "too_large": "its request needs more bytes than Mirroring.max_bytes leaves",
    "no_cluster": "no route and no policy in force names that cluster",
    "not_sent": "it could not be sent",
    "timeout": "its time was over",
    "call_ended": "the call ended before its request was complete",
}


@dataclass(frozen=True, slots=True)
class Mirroring:
    """Copy calls to other clusters, where the control plane says so: `open_channel(mirroring=Mirroring())`.

    A copy is a second call with the same request. A method with side effects has them twice.

    Args:
        max_calls: The largest number of copies under way at a time; more are dropped.
        max_bytes: All copies together may hold so many bytes of requests. A copy that needs more is dropped, or ends.
        timeout: A copy ends after so many seconds, and with the call's deadline if that is earlier.
        credentials: Send call credentials with copies, and the metadata `authorization`.
        cookies: Send cookies and session headers with copies.

    Raises:
        ValueError: A limit is no number above 0.
    """

    max_calls: int = MAX_CALLS
    max_bytes: int = MAX_BYTES
    timeout: float = TIMEOUT
    credentials: bool = False
    cookies: bool = False

    def __post_init__(self) -> None:
        for name in ("max_calls", "max_bytes", "timeout"):
            check_number(f"mirroring: {name}", getattr(self, name), lambda limit: limit > 0, "a number above 0")


def checked_mirroring(mirroring: object) -> object:
    """Return the argument; `TypeError` for another type, such as True."""
    if mirroring is not None and not isinstance(mirroring, Mirroring):
        raise TypeError(f"mirroring is trxds.Mirroring(...) or None, not {mirroring!r}")
    return mirroring


class Mirrors:
    """The copies of one channel's calls: how many are under way, and how many bytes of requests they hold."""

    def __init__(self, options: Mirroring, state: ChannelState, random: Random) -> None:
        self.options = options
        self.state = state
        self.under_way = 0
        self.bytes_held = 0
        self._random = random
        self.data_plane = MirrorPlane(state.data_plane)
        self._logged: set[tuple[str, str]] = set()
        self._new, self._begun = trio.open_memory_channel[Mirror](math.inf)  # bounded by `max_calls`

    @property
    def is_closed(self) -> bool:
        """Whether the channel has closed."""
        return self.state.lifecycle.closed

    async def run(self) -> None:
        """Run the copies, until cancelled."""
        # Their tasks begin here and not in the call's task, whose context a new connection must not inherit.
        async with trio.open_nursery() as nursery:
            async for each in self._begun:
                nursery.start_soon(each.run, name=f"mirror/{each.path}")

    def bind(self, policies: MirrorPolicies, find_cluster: FindCluster) -> RouteMirrors:
        """Return the copies of one route's calls."""
        return RouteMirrors(policies, find_cluster, self)

    def draws(self, share: int) -> bool:
        """Return whether a call is among that share of a million."""
        return share >= MILLION or self._random.randrange(MILLION) < share

    def take(self, cluster: str, size: int) -> bool:
        """Take a place, and bytes, for one more copy; False, and it is reported, if there is no room."""
        if self.under_way >= self.options.max_calls:
            self.report(cluster, "too_many")
            return False
        if not self.hold(size):
            self.report(cluster, "too_large")
            return False
        self.under_way += 1
        return True

    def begin(self, mirror: Mirror) -> None:
        """Have the task of a copy started. Synchronous."""
        self._new.send_nowait(mirror)

    def hold(self, size: int) -> bool:
        """Count bytes of a copy's request; False if there is no room for them."""
        if self.bytes_held + size > self.options.max_bytes:
            return False
        self.bytes_held += size
        return True

    def release(self, size: int) -> None:
        """Count bytes no longer."""
        self.bytes_held -= size

    def ended(self, mirror: Mirror, result: str, status: Status | None) -> None:
        """Count a copy no longer, and report its result; none if the channel has closed."""
        self.under_way -= 1
        self.release(mirror.size)
        if result:
            self.report(mirror.cluster, result, status)

    def report(self, cluster: str, result: str, status: Status | None = None) -> None:
        """Report the result of a copy to observers, and log the first of a kind that was not completed."""
        self.state.observers.mirrored(CallMirrored(cluster, result, status))
        # Once for each kind: a host that is down would fill the log with one line for each copy.
        if result == "completed" or (cluster, result) in self._logged or len(self._logged) >= MAX_LOGGED:
            return
        self._logged.add((cluster, result))
        text, target = '%s: a copy of a call to cluster "%s" was not completed: %s', self.state.lifecycle.target
        _log.info(text, target, cluster, f"{_REASONS[result]}: {status}" if status is not None else _REASONS[result])

    def __repr__(self) -> str:
        return f"<Mirrors {plural(self.under_way, 'copy', 'copies')}, {plural(self.bytes_held, 'byte')}>"


class RouteMirrors(Struct, frozen=True):
    """The copies of one route's calls."""

    policies: MirrorPolicies
    find_cluster: FindCluster
    mirrors: Mirrors

    def copy_call(
        self,
        args: PickArgs,
        request: bytes | ReplayBuffer,
        settings: CallSettings,
        call: CallScope,
        session_headers: Collection[str],
    ) -> None:
        """Begin the copies of a call, of which each policy draws by itself. Synchronous.

        A streaming call's `request` gets them, and hands them its messages. `session_headers` are not copied.
        """
        # Each policy draws by itself, as in Envoy: a call may have several copies.
        for policy in self.policies:
            cluster = policy.cluster or header_value(args.metadata, policy.cluster_header) or ""
            if not cluster or policy.unsupported or not self.mirrors.draws(policy.per_million):
                continue
            lifetime = self.find_cluster(cluster)
            if lifetime is None:
                # Envoy too drops a copy to an unknown cluster. A header may have any text, so it is not reported.
                self.mirrors.report(policy.cluster, "no_cluster")
            elif self.mirrors.take(cluster, len(request) if isinstance(request, bytes) else 0):
                attempt, scope = self._attempt(policy, cluster, args, request, settings, call, session_headers)
                mirror = Mirror(self.mirrors, attempt, scope, lifetime.hold())
                if isinstance(request, ReplayBuffer):
                    request.mirrors += (mirror,)
                self.mirrors.begin(mirror)

    def _attempt(
        self,
        policy: RequestMirrorPolicy,
        cluster: str,
        args: PickArgs,
        request: bytes | ReplayBuffer,
        settings: CallSettings,
        call: CallScope,
        session_headers: Collection[str],
    ) -> tuple[Attempt, CallScope]:
        mirrors, options = self.mirrors, self.mirrors.options
        now = mirrors.state.now()
        # A copy never outlives its call's deadline: its answer is for nobody.
        timeout = min(options.timeout, call.deadline - now)
        scope = CallScope(mirrors.state.lifecycle, args.path, now, timeout, "a host for a copy")
        authority = mirror_authority(mirrors.state.authority, policy)
        metadata = _without(args.metadata, self._left_out(args, session_headers))
        settings = replace(
            settings,
            credentials=settings.credentials if options.credentials else (),
            wait_for_ready=False,
            # As a name for this call alone, which the host has to prove with TLS (A81), and no token is asked for.
            authority=settings.authority or policy.authority,
        )
        attempt = Attempt(
            MirrorChannel(authority, mirrors.state.now, mirrors.data_plane),
            # No route and no override: a copy has no session, and takes the host that the policies choose.
            PickArgs(args.path, metadata, None, cluster, hash=args.hash),
            settings,
            # Empty: messages come by `Mirror.send`, and a copy, which is never retried, replays none.
            request if isinstance(request, bytes) else ReplayBuffer(),
            scope.deadline,
            number=0,
            refusals=0,
            # A copy is not among the program's calls, in metrics as in spans.
            telemetry=None,
        )
        return attempt, scope

    def _left_out(self, args: PickArgs, session_headers: Collection[str]) -> frozenset[str]:
        options = self.mirrors.options
        names: set[str] = set()
        if not options.credentials:
            names |= _CREDENTIALS
        if not options.cookies:
            names |= {"cookie", *args.session_headers, *session_headers}
        return frozenset(names)


def mirror_authority(authority: str, policy: RequestMirrorPolicy) -> str:
    """Return the channel's `:authority` for copies, with Envoy's suffix before the port unless the policy says no."""
    if policy.authority or not policy.has_suffix:
        return authority
    port = _PORT.search(authority)
    return f"{authority[: port.start()]}-shadow{port[0]}" if port is not None else f"{authority}-shadow"


def _without(metadata: Metadata, names: Collection[str]) -> Metadata:
    # The same object if nothing is left out: its encoded form is cached.
    if not any(key in names for key, _ in metadata):
        return metadata
    return Metadata((key, value) for key, value in metadata if key not in names)
