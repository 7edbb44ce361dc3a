"""cluster_impl applies a cluster's drops and circuit breaker before a host is chosen, and counts for LRS (A32, A37).

Drops come first, then the limit on concurrent RPCs. Both fail an RPC even if it waits for ready:
they protect an overloaded cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import ClassVar

from msgspec import Struct

from trxds.core.connectivity import Connectivity
from trxds.core.plural import plural
from trxds.core.resource_status import ResourceStatus, error_with_note
from trxds.core.status import Status
from trxds.resources.cluster import LoadReporting
from trxds.resources.endpoint import DropOverload, Locality

from .circuit_breakers import CallCounter
from .configs import ClusterImplConfig
from .endpoint_set import Endpoints, Hostnames
from .load_report.load_store import ClusterCounts, RpcCount
from .pick import Complete, Drop, Fail, PickArgs, Picker, PickResult, WrapperPicker
from .policy import CONNECTING, ChannelControl, Decision, PolicyInputs, SubtreeSettings
from .proxies import Proxies
from .security import NO_HOSTNAMES, Security

_CHILD = "hosts"
_MILLION = 1_000_000  # drops are in millionths of the RPCs


def max_requests_status(by: ResourceStatus | None, limit: int) -> Status:
    return error_with_note(by, "circuit breaker drop", f"max_requests is {limit}, and so many RPCs are in flight")


class ClusterImpl:
    """The cluster_impl policy; it also passes the cluster's security down."""

    only_child: ClassVar[str] = _CHILD

    def __init__(self, channel_control: ChannelControl) -> None:
        # Not the control itself: these are fewer objects, and there may be thousands of clusters.
        self._random = channel_control.random
        self._circuit_breakers = channel_control.circuit_breakers
        self._loads = channel_control.loads
        self._counter_key = ("", "")
        self._counter: CallCounter | None = None
        self._security: Security | None = None
        self._load_trackers: ClusterLoadTrackers | None = None
        self._hostnames = NO_HOSTNAMES
        self._proxies: Proxies | None = None
        self.reads_endpoints = True

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        config: ClusterImplConfig = inputs.config
        self.reads_endpoints = config.lrs is not None or config.has_hostnames or config.http_connect
        report = inputs.children.get(_CHILD, CONNECTING)
        reported = self._update_load_trackers(config, inputs.endpoints)
        child = LoadReportingPicker(reported.trackers, report.picker) if reported else report.picker
        note_drop = reported.counts.drop if reported else _ignore
        hostnames = self._update_hostnames(config, inputs.endpoints)
        picker = ClusterImplPicker(
            config.drops,
            config.max_requests,
            self._call_counter(config),
            child,
            self._random,
            note_drop,
            config.dropped_by,
            config.limited_by,
            hostnames,
        )
        # A cluster that drops everything needs no host to answer: if it failed, `priority` would send RPCs elsewhere.
        drops_all = any(share.per_million >= _MILLION for share in config.drops)
        return Decision(
            Connectivity.READY if drops_all else report.state,
            picker,
            children={_CHILD: config.child},
            subtree=SubtreeSettings(
                security=self._update_security(config, hostnames),
                proxies=self._update_proxies(config, inputs.endpoints),
                # A105: also if it is unset, and then the service config has no say.
                max_connections=config.max_connections or 1,
            ),
        )

    def describe(self, inputs: PolicyInputs, now: float) -> str:
        config: ClusterImplConfig = inputs.config
        shares = [f"{share.category} {share.per_million / 10_000:g}%" for share in config.drops]
        in_flight = self._call_counter(config).rpcs
        limit = f", at most {plural(config.max_connections, 'connection')} to a host" if config.max_connections else ""
        text = f"{in_flight} of {config.max_requests} RPCs in flight, drops: {', '.join(shares) or 'none'}{limit}"
        return f"{text}, {proxied}" if (proxied := str(self._proxies or "")) else text

    def _update_hostnames(self, config: ClusterImplConfig, endpoints: Endpoints) -> Hostnames | None:
        if not config.has_hostnames:
            return None
        if not self._hostnames.is_made_from(endpoints):
            self._hostnames = Hostnames(endpoints)
        return self._hostnames

    def _update_security(self, config: ClusterImplConfig, hostnames: Hostnames | None) -> Security | None:
        """Return the cluster's security: the same object while its TLS settings are equal, or all would reconnect."""
        if config.tls is None:
            self._security = None
        elif self._security is None or self._security.tls != config.tls:
            self._security = Security(config.tls)
        # In place: a new object would make all hosts reconnect for each change of EDS.
        if self._security is not None:
            self._security.hostnames = hostnames or NO_HOSTNAMES
        return self._security

    def _update_proxies(self, config: ClusterImplConfig, endpoints: Endpoints) -> Proxies | None:
        self._proxies = (self._proxies or Proxies()).updated(endpoints) if config.http_connect else None
        return self._proxies

    def _call_counter(self, config: ClusterImplConfig) -> CallCounter:
        key = (config.cluster, config.service)
        if self._counter is None or self._counter_key != key:
            self._counter_key, self._counter = key, self._circuit_breakers.call_counter(key)
        return self._counter

    def _update_load_trackers(self, config: ClusterImplConfig, endpoints: Endpoints) -> ClusterLoadTrackers | None:
        """Return the cluster's load trackers, if load is reported; a change of localities or rules replaces them."""
        if config.lrs is None:
            self._load_trackers = None
        elif self._load_trackers is None or not self._load_trackers.is_made_from(config, endpoints.localities):
            counts = self._loads.of(config.lrs.server, config.cluster, config.service)
            self._load_trackers = ClusterLoadTrackers(config.lrs, config.service, endpoints.localities, counts)
        return self._load_trackers


def _ignore(category: str) -> None:
    """Ignore a drop: the cluster's load is not reported."""


class ClusterLoadTrackers:
    """The counts of a cluster, and a tracker for each of its addresses.

    A picker finds a tracker by the host's address, whether the child or a cookie chose the host.
    """

    def __init__(
        self, rules: LoadReporting, service: str, localities: Sequence[Locality], counts: ClusterCounts
    ) -> None:
        self._rules = rules
        self._service = service
        self._localities = localities
        self.counts = counts
        self.trackers: dict[str, RpcCount] = {}
        for locality in localities:
            tracker = counts.tracker(locality.id, rules.metrics)
            for endpoint in locality.endpoints:
                self.trackers.update(dict.fromkeys(endpoint.addresses, tracker))

    def is_made_from(self, config: ClusterImplConfig, localities: Sequence[Locality]) -> bool:
        """Return whether the trackers were made from these rules and localities, and count for the same service."""
        # The localities of two services may be equal.
        is_same_service = self._service == config.service
        return is_same_service and self._rules == config.lrs and self._localities == localities


class LoadReportingPicker(WrapperPicker, Struct, frozen=True):
    """A picker that adds the tracker of the chosen host's locality to each pick (LRS; A85)."""

    trackers: Mapping[str, RpcCount]
    child: Picker

    def pick(self, call: PickArgs) -> PickResult:
        result = self.child.pick(call) if call.trace is None else call.trace.pick(self.child, call)
        if type(result) is Complete and (tracker := self.trackers.get(result.host.address)) is not None:
            return result.with_tracker(tracker)
        return result


class ClusterImplPicker(WrapperPicker, Struct, frozen=True):
    """A picker that drops RPCs by share and above the limit, and counts the others as in flight.

    If their route asks for it, their `:authority` is the picked host's name among `hostnames` (A81).
    """

    drops: tuple[DropOverload, ...]
    max_requests: int
    in_flight: CallCounter
    child: Picker
    random: Random
    note_drop: Callable[[str], None] = _ignore  # by category; "" is circuit breaking
    dropped_by: ResourceStatus | None = None
    limited_by: ResourceStatus | None = None
    hostnames: Hostnames | None = None

    def pick(self, call: PickArgs) -> PickResult:
        if self.drops and (drawn := self._draw_drop(call)) is not None:
            return drawn
        # Counted when the stream opens, so picks in between may slightly exceed the limit, as in C-core.
        if self.in_flight.rpcs >= self.max_requests:
            status = max_requests_status(self.limited_by, self.max_requests)
            return self._drop(call, "", status, "max_requests is reached")
        if call.trace is None:
            result = self.child.pick(call)
        else:
            call.trace.note("neither a drop nor the circuit breaker applies")
            result = call.trace.pick(self.child, call)
        if type(result) is Complete:
            if self.hostnames is not None and call.route is not None and call.route.auto_host_rewrite:
                # Above override_host, so a session's host decides too, and each attempt's own (A81).
                authority = self.hostnames.of(result.host.address) or result.authority
                return Complete(result.host, (*result.trackers, self.in_flight), authority, result.metadata)
            return result.with_tracker(self.in_flight)
        call.backend = self.in_flight.cluster
        if type(result) is Fail:
            status = result.status
            # Of an aggregate both: routes name the aggregate, and its leaf has the hosts.
            leaf = f" ({call.backend})" if call.backend != call.cluster else ""
            return Fail(replace(status, message=f"cluster {call.cluster}{leaf}: {status.message}"))
        return result

    def _draw_drop(self, call: PickArgs) -> PickResult | None:
        draws, random = call.drop_draws, self.random if call.trace is None else call.trace.random(self.random)
        # Once for each attempt: one that waits picks from each new picker, so a cluster that drops 10 % would drop 20 %
        # at its start, and nearly all RPCs that wait for hosts that are down.
        if draws is None:
            draws = call.drop_draws = []
        # A27: each category is drawn for itself, in order, and the first hit counts.
        for number, share in enumerate(self.drops):
            if number == len(draws):
                draws.append(random.random() * _MILLION)
            if draws[number] < share.per_million:
                status = error_with_note(self.dropped_by, f"EDS-configured drop: {share.category}")
                return self._drop(call, share.category, status, f"it was drawn for {share.category}")
        return None

    def _drop(self, call: PickArgs, category: str, status: Status, why: str) -> PickResult:
        call.backend = self.in_flight.cluster
        if call.trace is None:
            self.note_drop(category)
        else:
            call.trace.note(why)
        return Drop(status)
