"""cluster_impl applies a cluster's drops and circuit breaker before a host is chosen, and counts for LRS (A32, A37).

Drops come first, then the limit on concurrent RPCs. Both fail an RPC even if it waits for ready:
they protect an overloaded cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import ClassVar

from msgspec import Struct

from trxds.core.connectivity import Connectivity
from trxds.core.plural import plural
from trxds.core.resource_status import ResourceStatus, error_with_note
from trxds.core.status import Status
from trxds.resources.endpoint import DropOverload

from .circuit_breakers import CallCounter
from .configs import ClusterImplConfig
from .endpoint_set import Endpoints, Hostnames
from .load_report.load_store import ClusterCounts, RpcCount
from .pick import Complete, Drop, Fail, PickArgs, Picker, PickResult, WrapperPicker
from .policy import CONNECTING, NO_SETTINGS, ChannelControl, Decision, PolicyInputs, SubtreeSettings
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
        self._config: ClusterImplConfig | None = None
        self._last_endpoints: Endpoints | None = None
        # All that follows is made from these two.
        self._in_flight = CallCounter()
        self._counts: ClusterCounts | None = None  # None if load is not reported
        self._load_trackers: Mapping[str, RpcCount] = {}  # by address
        self._hostnames: Hostnames | None = None
        self._security: Security | None = None
        self._proxies: Proxies | None = None
        self._subtree = NO_SETTINGS
        self.reads_endpoints = True

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        config: ClusterImplConfig = inputs.config
        # Once for each update, not for each report of the child.
        if config is not self._config or inputs.endpoints is not self._last_endpoints:
            self._apply_update(config, inputs.endpoints)
        report = inputs.children.get(_CHILD, CONNECTING)
        picker = ClusterImplPicker(
            config.drops,
            config.max_requests,
            self._in_flight,
            report.picker,
            self._random,
            self._counts,
            self._load_trackers,
            config.dropped_by,
            config.limited_by,
            self._hostnames,
        )
        # A cluster that drops everything needs no host to answer: if it failed, `priority` would send RPCs elsewhere.
        drops_all = any(share.per_million >= _MILLION for share in config.drops)
        return Decision(
            Connectivity.READY if drops_all else report.state,
            picker,
            children={_CHILD: config.child},
            subtree=self._subtree,
        )

    def describe(self, inputs: PolicyInputs, now: float) -> str:
        config: ClusterImplConfig = inputs.config
        shares = [f"{share.category} {share.per_million / 10_000:g}%" for share in config.drops]
        limit = f", at most {plural(config.max_connections, 'connection')} to a host" if config.max_connections else ""
        in_flight = f"{self._in_flight.rpcs} of {config.max_requests} RPCs in flight"
        text = f"{in_flight}, drops: {', '.join(shares) or 'none'}{limit}"
        return f"{text}, {proxied}" if (proxied := str(self._proxies or "")) else text

    def _apply_update(self, config: ClusterImplConfig, endpoints: Endpoints) -> None:
        if config is not self._config:
            self._in_flight = self._circuit_breakers.call_counter((config.cluster, config.service))
        self._config, self._last_endpoints = config, endpoints
        self.reads_endpoints = config.lrs is not None or config.has_hostnames or config.http_connect
        self._hostnames = Hostnames(endpoints) if config.has_hostnames else None
        self._proxies = (self._proxies or Proxies()).updated(endpoints) if config.http_connect else None
        self._update_security(config)
        self._update_load_counts(config, endpoints)
        self._subtree = SubtreeSettings(
            security=self._security,
            proxies=self._proxies,
            # A105: also if it is unset, and then the service config has no say.
            max_connections=config.max_connections or 1,
        )

    def _update_security(self, config: ClusterImplConfig) -> None:
        """Update the cluster's security: it is the same object while its TLS settings are equal.

        With another one all hosts would reconnect.
        """
        if config.tls is None:
            self._security = None
        elif self._security is None or self._security.tls != config.tls:
            self._security = Security(config.tls)
        # In place: a new object would make all hosts reconnect for each change of EDS.
        if self._security is not None:
            self._security.hostnames = self._hostnames or NO_HOSTNAMES

    def _update_load_counts(self, config: ClusterImplConfig, endpoints: Endpoints) -> None:
        """Update the counts and the trackers; picks find these, whether the child or a cookie chose the host."""
        if config.lrs is None:
            self._counts, self._load_trackers = None, {}
            return
        self._counts, trackers = self._loads.of(config.lrs.server, config.cluster, config.service), {}
        for locality in endpoints.localities:
            tracker = self._counts.tracker(locality.id, config.lrs.metrics)
            for endpoint in locality.endpoints:
                trackers.update(dict.fromkeys(endpoint.addresses, tracker))
        self._load_trackers = trackers


class ClusterImplPicker(WrapperPicker, Struct, frozen=True):
    """A picker that drops RPCs by share and above the limit, and counts the others as in flight and for LRS.

    If their route asks for it, their `:authority` is the picked host's name among `hostnames` (A81).
    """

    drops: tuple[DropOverload, ...]
    max_requests: int
    in_flight: CallCounter
    child: Picker
    random: Random
    counts: ClusterCounts | None = None  # of drops, if load is reported
    load_trackers: Mapping[str, RpcCount] = {}  # by the host's address (LRS; A85)
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
            if self.load_trackers and (tracker := self.load_trackers.get(result.host.address)) is not None:
                result = result.with_tracker(tracker)
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
        if call.trace is not None:
            call.trace.note(why)
        elif self.counts is not None:
            self.counts.drop(category)  # an empty category is circuit breaking
        return Drop(status)
