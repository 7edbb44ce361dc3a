"""priority fails over (A56): it uses the first priority that can serve, and starts the next one only if none can.

A priority gets 10 seconds to connect before the next one is tried. Lower priorities that are
not needed any more are deactivated for a quarter of an hour; priorities that left the configuration
end at once (A115).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct

from trxds.core.connectivity import Connectivity
from trxds.core.status import unavailable

from .pick import TraceNote, transient_failure_picker
from .policy import CHILD_RETENTION, CONNECTING, EMPTY_SET, ChannelControl, Decision, PolicyInputs, PolicyState

FAILOVER_TIMEOUT = 10.0  # seconds

NO_PRIORITIES = unavailable("the cluster has no priorities")

_USABLE = (Connectivity.READY, Connectivity.IDLE)


class _FailoverTimer(Struct, gc=False):
    """The failover timer of one child, and when it ends if it is deactivated."""

    fires_at: float
    was_usable: bool = False  # READY or IDLE since its last failure
    ends_at: float = math.inf  # when a deactivated child ends

    def update(self, state: Connectivity, now: float) -> None:
        match state:
            case Connectivity.READY | Connectivity.IDLE:
                self.fires_at, self.was_usable = -math.inf, True
            # A56: CONNECTING after a failure starts no timer, or each retry would hold RPCs back for 10 seconds more.
            case Connectivity.TRANSIENT_FAILURE:
                self.fires_at, self.was_usable = -math.inf, False
            case Connectivity.CONNECTING if self.was_usable:
                # A56: the timer starts again for a child that was READY or IDLE since its last failure.
                self.fires_at, self.was_usable = now + FAILOVER_TIMEOUT, False


class Priority:
    """The priority policy; its children are the priorities, which get their endpoints directly."""

    reads_endpoints = False

    def __init__(self, channel_control: ChannelControl) -> None:
        self._timers: dict[str, _FailoverTimer] = {}
        self._active: tuple[str, ...] = ()

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        names = tuple(inputs.config.children)
        if not names:
            picker = transient_failure_picker(NO_PRIORITIES, "there is none to choose")
            return Decision(Connectivity.TRANSIENT_FAILURE, picker)
        # A115: a removed priority is not kept; one whose time as a deactivated child is over starts anew.
        self._timers = {n: p for n, p in self._timers.items() if n in inputs.config.children and p.ends_at > now}
        chosen, tried, why = self._choose(names, inputs.children, now)
        report = inputs.children.get(chosen, CONNECTING)
        active = self._activate(names, chosen, tried, report.state)
        self._start_deactivation(now)
        timeouts = [timer.fires_at for name, timer in self._timers.items() if name in active and timer.fires_at > now]
        # The child's own picker: RPCs do not pass this policy.
        return Decision(
            report.state,
            report.picker,
            children={name: inputs.config.children[name] for name in active},
            deactivate=frozenset(self._timers.keys() - active) or EMPTY_SET,
            wake_at=min(timeouts, default=math.inf),
            handed_on=TraceNote(why, chosen),
            in_first_pass=report.in_first_pass,
        )

    def describe(self, inputs: PolicyInputs, now: float) -> str:
        described = [f"{name} {self._describe_child(name, inputs.children, now)}" for name in inputs.config.children]
        return ", ".join(described) or "no priorities"

    def _describe_child(self, name: str, reports: Mapping[str, PolicyState], now: float) -> str:
        if name not in reports:
            return "not begun"
        # It has no timer if it runs for other reasons than those of this policy.
        timer = self._timers.get(name, _FailoverTimer(-math.inf))
        left = timer.fires_at - now
        remaining = f" for {left:.1f} s more" if 0 < left < math.inf else ""
        warm = ", kept warm" if now < timer.ends_at < math.inf else ""
        return f"{reports[name].state.name}{remaining}{warm}"

    def _choose(
        self, names: tuple[str, ...], reports: Mapping[str, PolicyState], now: float
    ) -> tuple[str, list[str], str]:
        """Return the priority to use, all that were tried before it, which have to run, and the reason."""
        tried: list[str] = []
        for name in names:
            timer = self._timers.setdefault(name, _FailoverTimer(now + FAILOVER_TIMEOUT))
            state = reports.get(name, CONNECTING).state
            timer.update(state, now)
            tried.append(name)
            if state in _USABLE:
                return name, tried, "the first that is READY or IDLE"
            if timer.fires_at > now:
                return name, tried, "the first that is still given time"
        # A56: if none can serve, the first that is CONNECTING may succeed; otherwise the last one's error is reported.
        for name in names:
            if reports.get(name, CONNECTING).state is Connectivity.CONNECTING:
                return name, tried, "none can serve, and it still tries"
        return names[-1], tried, "none can serve, and it is the last"

    def _activate(self, names: tuple[str, ...], chosen: str, tried: list[str], state: Connectivity) -> tuple[str, ...]:
        # A56: a lower priority is deactivated only when a higher one is READY or IDLE.
        stay = self._active if state not in _USABLE else ()
        self._active = tuple([name for name in names if name in tried or name in stay])
        return self._active

    def _start_deactivation(self, now: float) -> None:
        for name, timer in self._timers.items():
            if name in self._active:
                timer.ends_at = math.inf
            # The deadline of the child's task is the same, and its end is no message to this policy.
            elif timer.ends_at == math.inf:
                timer.ends_at = now + CHILD_RETENTION
