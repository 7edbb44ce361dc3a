"""The picker of sticky_priority finds the leaf that has the host of an RPC's session, and picks through all of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from msgspec import Struct

from ..override_host.repin_reason import RepinReason
from ..pick import QUEUE, Explainable, Override, PickArgs, Picker, PickResult, TraceNote
from .session_leaf import HostPreference, SessionLeaf


class LeafRequested(Struct, frozen=True):
    """A pick's event for the policy: a session has its host in this leaf, which does not run."""

    leaf: str


class StickyPriorityPicker(Explainable, Struct, frozen=True):
    """A picker that prefers the leaf with the host of the RPC's cookie; `preferred` picks for all other RPCs.

    `note` says why `preferred` is the picker of priority; `leaves` are in the order of the aggregate.
    """

    preferred: Picker
    note: TraceNote
    leaves: tuple[SessionLeaf, ...]
    notify_policy: Callable[[Hashable], None]

    def pick(self, call: PickArgs) -> PickResult:
        override = call.override
        if override is None or not override.addresses:
            return self._pick_preferred(call, self.note.why)
        leaf = self._leaf_of(override.addresses)
        if leaf is None:
            return self._pick_without_host(override, call)
        if leaf.picker is None:
            return self._request(leaf, override, call)
        if call.trace is not None:
            call.trace.note("it has the host of the session", leaf.name, saw=self._describe_hosts(override))
            return call.trace.pick(leaf.picker, call)
        # All of the leaf's pickers, so that its drops, circuit breaker, outlier detection and load report apply.
        return leaf.picker.pick(call)

    def _leaf_of(self, addresses: tuple[str, ...]) -> SessionLeaf | None:
        """Return the leaf in which one of these addresses can be used best, the first of several; None if in none."""
        best, found = HostPreference.UNUSABLE, None
        for leaf in self.leaves:
            preference = leaf.hosts.preference(addresses)
            if preference < best:
                best, found = preference, leaf
                if preference is HostPreference.READY:
                    break
        return found

    def _pick_preferred(self, call: PickArgs, why: str, saw: str = "") -> PickResult:
        if call.trace is None:
            return self.preferred.pick(call)
        call.trace.note(why, self.note.chose, saw=saw)
        return call.trace.pick(self.preferred, call)

    def _pick_without_host(self, override: Override, call: PickArgs) -> PickResult:
        saw = self._describe_hosts(override) if call.trace is not None else ""
        why = f"none of the session's hosts can be used, and it is {self.note.why}"
        result = self._pick_preferred(call, why, saw)
        # The preferred leaf knows its own hosts only; the one that has the host knows what is wrong with it.
        if override.fallback_reason == RepinReason.UNKNOWN_HOST:
            reasons = (leaf.hosts.unusable_reason(override.addresses[0]) for leaf in self.leaves)
            known = (reason for reason in reasons if reason is not RepinReason.UNKNOWN_HOST)
            override.fallback_reason = next(known, RepinReason.UNKNOWN_HOST)
        return result

    def _request(self, leaf: SessionLeaf, override: Override, call: PickArgs) -> PickResult:
        if call.trace is not None:
            why = f"cluster {leaf.name} has the host of the session and does not run, so it is started"
            call.trace.note(why, saw=self._describe_hosts(override), waits_for=f"cluster {leaf.name} to start")
        else:
            self.notify_policy(LeafRequested(leaf.name))
        return QUEUE

    def _describe_hosts(self, override: Override) -> str:
        return "; ".join(leaf.hosts.describe(address) for address in override.addresses for leaf in self.leaves)
