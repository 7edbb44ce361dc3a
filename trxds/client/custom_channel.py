"""This file sets up a channel whose endpoints, and perhaps service config, come from a program's own resolver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from trxds.core.arguments import check_type
from trxds.core.determinism import new_random
from trxds.lb.config_builder import Update, build_target
from trxds.lb.configs import GracefulSwitchConfig
from trxds.resolver.address_source import Resolution, TargetConfig, custom_source
from trxds.resolver.non_xds_resolver import NonXdsResolver
from trxds.resolver.resolver_result_handler import ResolverResultHandler
from trxds.resolver.resolver_update import Resolver, ResolverUpdate
from trxds.resolver.target_uri import ResolverTarget, check_scheme, parse_custom_target
from trxds.resources.cluster import DEFAULT_OVERRIDE_STATUSES
from trxds.resources.cookie_affinity import CookieAffinity
from trxds.resources.endpoint import HealthStatus

from .non_xds_channel import (
    ServiceConfigSource,
    find_cookie_problem,
    parse_config,
    target_config,
)
from .resolver_setup import Policies, ResolverSetup, checked_policies

Resolvers: TypeAlias = Mapping[str, Resolver]

# A resolver that lists a host as DRAINING, and does not leave it out, means it for the sessions that are there.
_STATUSES = DEFAULT_OVERRIDE_STATUSES | {HealthStatus.DRAINING}


def find_resolver(target: str, resolvers: Resolvers | None) -> tuple[ResolverTarget, Resolver] | None:
    """Return the target and its resolver, None if a resolver of trxds has it. `ValueError` for a wrong scheme."""
    resolvers = resolvers or {}
    check_type("resolvers", resolvers, Mapping, "a mapping of a scheme to a resolver")
    for scheme, resolver in resolvers.items():
        check_scheme(scheme)
        if not callable(resolver):
            raise TypeError(f"resolvers[{scheme!r}] is a function that returns an async iterator, not {resolver!r}")
    found = parse_custom_target(target, resolvers)
    return (found, resolvers[found.scheme]) if found is not None else None


def custom_setup(
    target: ResolverTarget,
    resolver: Resolver,
    service_config: ServiceConfigSource,
    affinity: CookieAffinity | None,
    authority: str,
    policies: Policies | None,
    refresh: float,
) -> ResolverSetup:
    """Return the resolver setup; `service_config` is in force while the resolver has none of its own (A21)."""
    policies = checked_policies(policies)
    checked = _ServiceConfigs(target.text, service_config, affinity, policies)
    own = checked.own

    def make_resolver(handler: ResolverResultHandler) -> NonXdsResolver:
        source = custom_source(target, resolver, checked.accept, new_random(), refresh)
        return NonXdsResolver(target.text, source, own, handler)

    return ResolverSetup(
        authority or target.default_authority,
        make_resolver,
        GracefulSwitchConfig.policy,
        _to_update,
        policies,
        canonical_target=target.text,
        first_wait=f"the first update of the resolver of {target.text}",
    )


class _ServiceConfigs:
    """The service config in force: the last good one of the resolver, or the channel's `own`."""

    def __init__(
        self, target: str, source: ServiceConfigSource, affinity: CookieAffinity | None, policies: Policies
    ) -> None:
        self._target = target
        self._affinity = affinity
        self._policies = policies
        self.own = self._checked(source)
        self._in_force: TargetConfig | None = None  # None before the first good update
        self._source = ""  # the resolver's document that made it, as text

    def accept(self, update: ResolverUpdate) -> tuple[Resolution | None, str]:
        """Return what an update resolves to, and what is wrong with it."""
        config, problem = self._read(update.service_config)
        if config is None:
            return None, problem
        for endpoint in update.checked_endpoints:
            unusable = find_cookie_problem(endpoint.addresses, config)
            if unusable:
                return None, f"has the endpoint {endpoint.addresses[0]}, which cannot be used: {unusable}"
        self._in_force = config
        if not problem:
            self._source = repr(update.service_config)
        return Resolution(update.checked_endpoints, config, self._explain_none(update)), problem

    def _read(self, source: ServiceConfigSource) -> tuple[TargetConfig | None, str]:
        # A21: without one in the update the channel's own is in force, also after one of the resolver.
        if source is None:
            return self.own, ""
        # The same object for an equal document: `NonXdsResolver` makes a new selector for any other object.
        if self._in_force is not None and repr(source) == self._source:
            return self._in_force, ""
        try:
            return self._checked(source), ""
        except ValueError as error:
            text = "; ".join(str(error).splitlines())
            kept = "" if self._in_force is None else "; the one before stays in force"
            return self._in_force, f"has a service config that is refused{kept}: {text}"

    def _checked(self, source: ServiceConfigSource) -> TargetConfig:
        return target_config(self._target, parse_config(source, self._policies), self._affinity, _STATUSES)

    def _explain_none(self, update: ResolverUpdate) -> str:
        if update.checked_endpoints:
            return f"target {self._target}: all endpoints of its resolver are DRAINING"
        return f"target {self._target}: its resolver has no endpoints" + (update.note and f": {update.note}")


def _to_update(resolved: Resolution) -> Update:
    return build_target(resolved.config.policy, resolved.locality, resolved.note)
