"""This file sets up the resolver of a channel without a control plane, from its target and a service config (A2)."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from trxds.core.arguments import check_type
from trxds.core.determinism import new_random
from trxds.lb.balancing_config import make_parser
from trxds.lb.config_builder import Update, add_override_host, build_priority
from trxds.resolver.address_source import AddressSource, KnownAddresses, Resolution, TargetConfig, dns_source
from trxds.resolver.http_filters import EffectiveFilter
from trxds.resolver.non_xds_resolver import NonXdsResolver
from trxds.resolver.resolver_result_handler import ResolverResultHandler
from trxds.resolver.service_config import EMPTY_SERVICE_CONFIG, ServiceConfig, parse_service_config
from trxds.resolver.target_uri import NonXdsTarget
from trxds.resources.cluster import DEFAULT_OVERRIDE_STATUSES
from trxds.resources.cookie_affinity import CookieAffinity
from trxds.resources.endpoint import HealthStatus
from trxds.resources.experiments import read_experiments
from trxds.resources.leaf_policy import PickFirst
from trxds.session_affinity.cookie import is_socket
from trxds.transport.connect import Network

from .resolver_setup import Policies, ResolverSetup, checked_policies

ServiceConfigSource: TypeAlias = str | Mapping[str, Any] | None


def non_xds_setup(
    target: NonXdsTarget,
    service_config: ServiceConfigSource,
    affinity: CookieAffinity | None,
    authority: str,
    policies: Policies | None,
    network: Network,
    refresh: float,
) -> ResolverSetup:
    """Return the resolver setup; `affinity` makes sessions sticky, and an `authority` replaces the target's.

    A name is resolved again each `refresh` seconds. `ValueError` lists the config's errors.
    """
    if refresh < math.inf and not target.name:
        raise ValueError(f"refresh cannot be used with the target {target.text!r}, whose addresses are known")
    policies = checked_policies(policies)
    # Parsed before anything runs: a bad service config is the caller's error (A21).
    config = parse_config(service_config, policies)
    known = target_config(target.text, config, affinity)
    problem = find_cookie_problem(target.addresses, known)
    if problem:
        raise ValueError(f"target {target.text!r}: {problem}")

    def make_resolver(handler: ResolverResultHandler) -> NonXdsResolver:
        source: AddressSource = KnownAddresses(target.addresses)
        if target.name:
            source = dns_source(target.name, network.resolve, new_random(), refresh)
        return NonXdsResolver(target.text, source, known, handler)

    def to_update(resolved: Resolution) -> Update:
        return Update(*build_priority(known.policy, (resolved.locality,), lambda: resolved.note))

    return ResolverSetup(
        authority or target.authority,
        make_resolver,
        known.policy.policy,
        to_update,
        policies,
        first_wait=f"the addresses of {target.text}",
    )


def parse_config(source: ServiceConfigSource, policies: Policies) -> ServiceConfig:
    """Return the checked service config; `ValueError` lists its errors with their places."""
    if source is None:
        return EMPTY_SERVICE_CONFIG
    check_type("service_config", source, (str, Mapping), "JSON text or a mapping of the same shape")
    parsers = {name: kind.parse for name, kind in policies.items()}
    return parse_service_config(source, make_parser(parsers, read_experiments(os.environ)))


def target_config(
    target: str,
    config: ServiceConfig,
    affinity: CookieAffinity | None,
    statuses: frozenset[HealthStatus] = DEFAULT_OVERRIDE_STATUSES,
) -> TargetConfig:
    """Return the config with its policy; sessions may use hosts with these `statuses`."""
    filters = _session_filters(config, affinity)
    policy = config.lb_policy or PickFirst()
    return TargetConfig(config, add_override_host(policy, target, statuses) if filters else policy, filters)


def _session_filters(config: ServiceConfig, affinity: CookieAffinity | None) -> tuple[EffectiveFilter, ...]:
    """Return the session filter, with the source of its configuration; none if sessions are not sticky."""
    # A caller without types may give a name or a dict.
    if affinity is not None and not isinstance(affinity, CookieAffinity):
        raise TypeError(f"affinity is a trxds.CookieAffinity, or None, not {affinity!r}")
    if affinity is not None and config.affinity is not None:
        both = "affinity cannot be used with a service config that has statefulSession"
        raise ValueError(f"{both}; leave one of them out")
    chosen = affinity or config.affinity
    if chosen is None:
        return ()
    source = "service config" if affinity is None else "channel's affinity"
    return (EffectiveFilter("stateful_session", chosen.filter_config, source),)


def find_cookie_problem(addresses: Iterable[str], config: TargetConfig) -> str:
    """Return which address no cookie can have although sessions are sticky; empty if each can be in one."""
    for address in addresses:
        if config.filters and address.startswith("unix") and not is_socket(address):
            return (
                "a session's cookie cannot have this path; use one of at most 108 printable characters "
                "without , and ; or leave the affinity out"
            )
    return ""
