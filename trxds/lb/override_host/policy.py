"""The override_host policy sends a session's RPCs to their host (A55), in whichever priority it is (A75).

Its child balances all other RPCs. A cookie's hosts are looked up in a table of all the cluster's
endpoints, also those that are DRAINING, that a lower priority has, or that the child never
connected. The sweep of idle hosts, the races of a cookie's hosts and the end of the first pass are at the decision's
`wake_at`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

from msgspec import Struct

from trxds.core.connectivity import Connectivity
from trxds.core.happy_eyeballs import ATTEMPT_DELAY
from trxds.core.plural import plural
from trxds.core.status import Status, unavailable
from trxds.lb.configs import OverrideHostConfig
from trxds.lb.endpoint_set import Endpoints
from trxds.lb.first_pass import FirstPass
from trxds.lb.host_trackers import HostTrackers
from trxds.lb.interfaces import SubchannelInterface
from trxds.lb.pick import QUEUE, Complete, Explainable, Fail, Override, PickArgs, Picker, PickResult, Queue, Trace
from trxds.lb.policy import CONNECTING, ChannelControl, Decision, PolicyInputs, SubtreeSettings
from trxds.resources.endpoint import HealthStatus

from .address_race import HappyEyeballs, RaceRequested
from .host_table import Entry, HostTable
from .repin_reason import RepinReason

_CHILD = OverrideHostConfig.child_name
# The states of hosts that an RPC waits for, the best one first (A55), with the reason for explanations.
_WAIT_REASONS = {
    Connectivity.IDLE: "no host of the session is READY, and this one is connected for it",
    Connectivity.CONNECTING: "no host of the session is READY, and this one is connecting",
    None: "it is not connected yet, so it is connected for the session",
}
# A policy that balances gives another host soon; one that does not, such as ring_hash, never.
_MAX_OTHER_PICKS = 32
_NO_SESSION = "no session yet"
_SWEEP = ("sweep",)  # the event of a pick that leases the first host: the policy has to set `wake_at` for the sweep


class OverrideHost:
    """The override_host policy; its table is shared with its pickers.

    The first calls of sessions wait at most `spread_within` seconds for the first pass of the child's hosts.
    """

    only_child: ClassVar[str] = _CHILD

    def __init__(self, channel_control: ChannelControl, spread_within: float = 0.0) -> None:
        self._control = channel_control
        trackers = HostTrackers()
        self._subtree = SubtreeSettings(collects=trackers)
        self._table = HostTable(self._acquire, channel_control.release, channel_control.lookup, trackers)
        self._eyeballs = HappyEyeballs(self._table)
        self._first_pass = FirstPass(spread_within)
        self._config: OverrideHostConfig | None = None
        self._endpoints: Endpoints | None = None

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        config: OverrideHostConfig = inputs.config
        if config is not self._config or inputs.endpoints is not self._endpoints:
            self._apply_update(config, inputs.endpoints, now)
        if now >= self._table.sweep_at:
            self._table.sweep_idle(now)
        waits = [event for event in inputs.pick_events if isinstance(event, RaceRequested)]
        next_hosts = self._eyeballs.advance(waits, config.statuses, now)
        report = inputs.children.get(_CHILD, CONNECTING)
        in_first_pass = self._first_pass.update(report.state, report.in_first_pass, now)
        # A new one for each decision: it reads the hosts' states live, and RPCs that wait pick again only by a new one.
        picker = OverridePicker(
            self._table,
            self._eyeballs,
            config.statuses,
            report.picker,
            self._control,
            self._describe_address,
            inputs.ejected,
            self._first_pass if in_first_pass else None,
        )
        return Decision(
            report.state,
            picker,
            children={_CHILD: config.child},
            # The texts among the events are addresses of cookies' hosts that nobody has connected yet.
            # Sorted, because a set has another order in each process.
            connect=(*next_hosts, *sorted(address for address in inputs.pick_events if isinstance(address, str))),
            wake_at=min(
                self._table.sweep_at, self._eyeballs.wake_at, self._first_pass.ends_at if in_first_pass else math.inf
            ),
            subtree=self._subtree,
        )

    def describe(self, inputs: PolicyInputs, now: float) -> str:
        return f"{plural(len(self._table.leased_addresses), 'host')} held for sessions"

    def _describe_address(self, address: str) -> str:
        """Describe the health and state of one of a cookie's addresses."""
        assert self._config is not None and self._endpoints is not None
        endpoint = next((each for each in self._endpoints if address in each.addresses), None)
        if endpoint is None:
            return f"{address} is no endpoint of cluster {self._config.cluster}"
        if endpoint.health not in self._config.statuses:
            return f"{address} is {endpoint.health.name}, which override_host_status does not have"
        entry = self._table.get(address)
        state = self._table.state(entry) if entry is not None else None
        return f"{address} is {endpoint.health.name}, {state.name if state is not None else 'not connected'}"

    def _acquire(self, address: str) -> SubchannelInterface:
        if not self._table.leased_addresses:
            self._control.notify_policy(_SWEEP)
        return self._control.acquire(address)

    def _apply_update(self, config: OverrideHostConfig, endpoints: Endpoints, now: float) -> None:
        self._config, self._endpoints = config, endpoints
        usable = endpoints.all
        # A55: without DRAINING in override_host_status such a host is unknown to sessions.
        if HealthStatus.DRAINING not in config.statuses:
            usable = tuple([endpoint for endpoint in usable if endpoint.health is not HealthStatus.DRAINING])
        self._table.update(usable, config.idle_timeout, now)


class OverridePicker(Explainable, Struct, frozen=True):
    """A picker that prefers the hosts of the RPC's cookie, and else asks its child."""

    table: HostTable
    eyeballs: HappyEyeballs
    statuses: frozenset[HealthStatus]
    child: Picker
    control: ChannelControl
    describe_address: Callable[[str], str]  # for explanations
    ejected_addresses: frozenset[str]  # those that outlier detection has ejected
    first_pass: FirstPass | None = None  # of the child's hosts, while the first calls of sessions wait for it

    def pick(self, call: PickArgs) -> PickResult:
        override = call.override
        if override is None:
            # No session filter: the host is not recorded, because no cookie will be written.
            return self.child.pick(call) if call.trace is None else self._explain_child(call, call.trace)
        if override.pinned is not None:
            return Complete(override.pinned, self.table.trackers.of(override.pinned.address))
        if override.addresses:
            result = self._session_host(override, call)
            if result is not None:
                return result
            override.fallback_reason = self.unusable_reason(override.addresses[0])
            # Fail and not Drop: an RPC that waits for ready may wait for its host.
            if override.strict:
                if call.trace is not None:
                    why = "none of the session's hosts can be used, and the session is strict"
                    call.trace.note(why, saw=self._describe_hosts(override))
                return Fail(no_usable_host_status(override))
        if self.first_pass is not None and call.now < min(override.spread_until, self.first_pass.ends_at):
            if call.trace is not None:
                why = "hosts connect for the first time, and it is the first call of a session"
                call.trace.note(why, waits_for=str(self.first_pass))
            return Queue(self.first_pass)
        if call.trace is not None:
            return self._explain_child(call, call.trace)
        result = self.child.pick(call) if not override.avoid else self._pick_other(override, call)
        if type(result) is Complete:
            self._record_host(result.host, override, call.now)
        return result

    def _session_host(self, override: Override, call: PickArgs) -> PickResult | None:
        """Return the cookie's first READY host; else wait for one that is IDLE, CONNECTING or not leased yet (A55)."""
        waiting: dict[Connectivity | None, Entry] = {}
        for address in override.addresses:
            entry = self.table.get(address)
            if entry is None or entry.health not in self.statuses:
                continue
            host = entry.host or self.control.lookup(address)
            state = host.state if host is not None else None
            if state is Connectivity.READY:
                override.actual_address_list = entry.addresses
                # Not `table.pick`, which would lease the host: an explanation leases nothing.
                if call.trace is not None and host is not None:
                    call.trace.note("the session's first host that is READY", saw=self._describe_hosts(override))
                    return Complete(host)
                return self.table.pick(entry, call.now)
            waiting.setdefault(state, entry)
        for state in _WAIT_REASONS:
            if state in waiting:
                return self._wait_for(waiting[state], state, override, call)
        return None

    def _pick_other(self, override: Override, call: PickArgs) -> PickResult:
        """Pick a host as for a new session, but another one than the host that the session leaves."""
        for _ in range(_MAX_OTHER_PICKS):
            result = self.child.pick(call)
            if not isinstance(result, Complete) or not self.table.is_same_endpoint(result.host.address, override.avoid):
                return result
        # The policy always gives the same host, as pick_first and ring_hash do, or there is no other.
        return self._any_other_host(override, call)

    def _any_other_host(self, override: Override, call: PickArgs) -> PickResult:
        usable: dict[Connectivity | None, list[Entry]] = {}
        for entry in self.table.others(override.avoid):
            # A host that is DRAINING (A55), ejected (A50) or not serving (A17) keeps its sessions, and gets no new one.
            is_allowed = entry.health in self.statuses and entry.health is not HealthStatus.DRAINING
            is_allowed = is_allowed and self.table.takes_new_sessions(entry)
            if is_allowed and entry.address not in self.ejected_addresses:
                usable.setdefault(self.table.state(entry), []).append(entry)
        if Connectivity.READY in usable:
            # Drawn, because many sessions may leave one host.
            return self.table.pick(self.control.random.choice(usable[Connectivity.READY]), call.now)
        for state in _WAIT_REASONS:
            if state in usable:
                return self._wait_for(usable[state][0], state, override, call)
        text = f"the session cannot leave {override.avoid}: no other host of its cluster takes new sessions"
        return Fail(unavailable(text))

    def unusable_reason(self, address: str) -> RepinReason:
        """Return why this host of a session, which is not used, cannot be."""
        entry = self.table.get(address)
        if entry is None:
            return RepinReason.UNKNOWN_HOST
        return RepinReason.NOT_READY if entry.health in self.statuses else RepinReason.STATUS_NOT_ALLOWED

    def _wait_for(self, entry: Entry, state: Connectivity | None, override: Override, call: PickArgs) -> PickResult:
        if call.trace is not None:
            after = self.eyeballs.next_after(entry.address, override.addresses, self.statuses)
            late = f"; {after} is connected too if that takes more than {ATTEMPT_DELAY * 1000:.0f} ms" if after else ""
            waits_for, saw = f"{entry.address} to connect", self._describe_hosts(override)
            call.trace.note(_WAIT_REASONS[state] + late, saw=saw, waits_for=waits_for, address=entry.address)
            return QUEUE
        # Only the first pick starts the race: each event makes a new picker and all waiting RPCs pick again.
        if self.eyeballs.should_start(override.addresses):
            self.control.notify_policy(RaceRequested(override.addresses))
        # The host is leased before the RPC waits, or its next state would not reach this policy and wake the RPC.
        if self.table.wait_for(entry, call.now).state is Connectivity.IDLE:
            self.control.notify_policy(entry.address)
        return QUEUE

    def _explain_child(self, call: PickArgs, trace: Trace) -> PickResult:
        override = call.override
        if override is None:
            trace.note("there is nothing to override", saw="no session filter")
        elif override.addresses:
            trace.note("none of the session's hosts can be used", saw=self._describe_hosts(override))
        else:
            trace.note(f"the host that it gives is the session's{self._describe_first_pass(call.now)}", saw=_NO_SESSION)
        return trace.pick(self.child, call)

    def _describe_first_pass(self, now: float) -> str:
        """Describe the wait that a first call in a `channel.session()` would have; an explained call has no session."""
        if self.first_pass is None or now >= self.first_pass.ends_at:
            return ""
        left = (self.first_pass.ends_at - now) * 1000
        return f"; the first call of a session waits for {self.first_pass}, at most {left:.0f} ms more"

    def _describe_hosts(self, override: Override) -> str:
        return "; ".join(map(self.describe_address, override.addresses))

    def _record_host(self, host: SubchannelInterface, override: Override, now: float) -> None:
        entry = self.table.get(host.address)
        # Empty for a host without an entry: the one of an earlier attempt must not get into the cookie.
        override.actual_address_list = entry.addresses if entry is not None else ""
        if entry is not None:
            self.table.use(entry, now)


_WHY_UNUSABLE = {
    RepinReason.UNKNOWN_HOST: "its cluster does not have it, or it is DRAINING and override_host_status forbids that",
    RepinReason.STATUS_NOT_ALLOWED: "override_host_status does not have its health status",
    RepinReason.NOT_READY: "it cannot be reached",
}


def no_usable_host_status(override: Override) -> Status:
    """Return the status of an RPC that no other host may serve; `fallback_reason` is about the first of its hosts."""
    first, hosts = override.addresses[0], ", ".join(override.addresses)
    why = _WHY_UNUSABLE[RepinReason(override.fallback_reason)]
    return unavailable(f"none of the session's hosts can be used: {hosts}; {first}: {why}")
