"""The sticky_priority policy is priority for an aggregate whose sessions stay in their leaf (A37, A55, A56).

By A37 an aggregate is a failover, and a session of the leaf that takes over is lost when the first leaf is back. Here
priority decides for all RPCs but those whose cookie names a host that another leaf can use. A leaf runs on as long as
its override_host policy holds a host for sessions, which is A75's idle timeout; one that does not run is started when
a cookie names one of its hosts.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import replace

from trxds.resolver.snapshot import ClusterConfig, ClusterEntries

from ..override_host.host_table import MIN_SWEEP_INTERVAL
from ..pick import Picker, TraceNote
from ..policy import CHILD_RETENTION, ChannelControl, Decision, PolicyInputs, PolicyState
from ..priority import Priority
from .picker import LeafRequested, StickyPriorityPicker
from .session_leaf import ListedHosts, SessionLeaf, running_hosts

REQUEST_GRACE = MIN_SWEEP_INTERVAL  # seconds for which a requested leaf runs, even if no RPC picks in it


class StickyPriority:
    """The sticky_priority policy; its children are the leaves of an aggregate."""

    def __init__(self, channel_control: ChannelControl) -> None:
        self._priority = Priority(channel_control)
        self._notify_policy = channel_control.notify_policy
        self._requested: dict[str, float] = {}  # leaves that sessions need, and until when they run unused
        self._unneeded_since: dict[str, float] = {}  # leaves that priority has deactivated
        self._leaves: dict[str, SessionLeaf] = {}
        self._picker: StickyPriorityPicker | None = None

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        below = self._priority.decide(inputs, now)
        if below.handed_on is None:
            return below  # there is no leaf to choose
        leaves, reports = inputs.config.children, inputs.children
        self._update_requested(inputs.pick_events, leaves, reports, now)
        in_use = {name for name in reports if running_hosts(reports[name].picker).are_in_use}
        running = {
            name: child
            for name, child in leaves.items()
            if name in below.children or name in in_use or name in self._requested
        }
        deactivate = below.deactivate - running.keys()
        # A56: its quarter of an hour counts from when priority needed the leaf no more, whenever sessions used it last.
        self._unneeded_since = {name: self._unneeded_since.get(name, now) for name in below.deactivate}
        ends = (self._unneeded_since[name] + CHILD_RETENTION for name in deactivate)
        graces = (until for until in self._requested.values() if until > now)
        return replace(
            below,
            picker=self._update_picker(below.picker, below.handed_on, inputs, running),
            children=running,
            deactivate=deactivate,
            wake_at=min((below.wake_at, *ends, *graces)),
            handed_on=None,
        )

    def describe(self, inputs: PolicyInputs, now: float) -> str:
        reports = inputs.children
        used = [n for n in inputs.config.children if n in reports and running_hosts(reports[n].picker).are_in_use]
        return self._priority.describe(inputs, now) + (f"; sessions use {', '.join(used)}" if used else "")

    def _update_requested(
        self, events: Iterable[Hashable], leaves: Collection[str], reports: Collection[str], now: float
    ) -> None:
        """Record the leaves that picks have requested, and forget those that were not used in time."""
        for event in events:
            if isinstance(event, LeafRequested):
                self._requested[event.leaf] = now + REQUEST_GRACE
        # A leaf that has not decided yet is still being started, however long that takes.
        self._requested = {
            name: until
            for name, until in self._requested.items()
            if name in leaves and (until > now or name not in reports)
        }

    def _update_picker(
        self, preferred: Picker, note: TraceNote, inputs: PolicyInputs, running: Collection[str]
    ) -> StickyPriorityPicker:
        """Return the picker for these inputs: the last one if it is no other, or queued RPCs would pick again."""
        names = tuple(inputs.config.children)
        failed_over = names[: names.index(note.chose)]
        reports = {name: report for name, report in inputs.children.items() if name in running}
        self._leaves = {
            name: self._update_leaf(name, reports.get(name), inputs.endpoints, name in failed_over) for name in names
        }
        leaves, last = tuple(self._leaves.values()), self._picker
        if last is None or last.preferred is not preferred or last.note != note or last.leaves != leaves:
            self._picker = StickyPriorityPicker(preferred, note, leaves, self._notify_policy)
        assert self._picker is not None
        return self._picker

    def _update_leaf(
        self, name: str, report: PolicyState | None, entries: ClusterEntries, has_failed_over: bool
    ) -> SessionLeaf:
        """Return the leaf as a pick sees it; the same object while nothing of it has changed."""
        last = self._leaves.get(name)
        if report is not None:
            picker = report.picker
            if last is not None and last.picker is picker and last.has_failed_over is has_failed_over:
                return last
            return SessionLeaf(name, picker, running_hosts(picker, has_failed_over), has_failed_over)
        cluster = entries.part(name).cluster
        assert isinstance(cluster, ClusterConfig)  # the leaves of an aggregate are clusters with endpoints
        if last is not None and isinstance(last.hosts, ListedHosts) and last.hosts.leaf is cluster:
            return last
        return SessionLeaf(name, None, ListedHosts(cluster))
