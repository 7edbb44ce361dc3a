"""This file sets up the resolver of a channel without a control plane, from its target and a service config (A2)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from random import Random
from typing import Any, TypeAlias

from trxds.lb.balancing_config import make_parser
from trxds.lb.config_builder import Update, build_priority
from trxds.resolver.non_xds_resolver import NonXdsResolver, ResolvedAddress
from trxds.resolver.service_config import EMPTY_SERVICE_CONFIG, ServiceConfig, parse_service_config
from trxds.resolver.target_uri import NonXdsTarget
from trxds.resolver.xds_resolver import ResolverResultHandler
from trxds.resources.leaf_policy import LbPolicyConfig, PickFirst
from trxds.transport.connect import Network

from .resolver_setup import Policies, ResolverSetup, check_policies

_log = logging.getLogger("trxds.client")

ServiceConfigSource: TypeAlias = str | Mapping[str, Any] | None


def non_xds_setup(
    target: NonXdsTarget,
    service_config: ServiceConfigSource,
    authority: str,
    policies: Policies | None,
    network: Network,
) -> ResolverSetup:
    """Return the resolver setup; an `authority` replaces the target's. `ValueError` lists the config's errors."""
    policies = policies or {}
    check_policies(policies)
    # Parsed before anything runs: a bad service config is the caller's error (A21).
    config = _parse(service_config, policies)
    if config.health_checks:
        _log.warning("%s: healthCheckConfig is ignored; a connected host counts as healthy", target.text)

    tree = _PolicyTree(config.lb_policy or PickFirst())

    def make_resolver(handler: ResolverResultHandler) -> NonXdsResolver:
        return NonXdsResolver(target, config, network.resolve, handler, Random())

    return ResolverSetup(
        authority or target.authority,
        make_resolver,
        tree.root_policy,
        tree.to_update,
        policies,
        throttling=config.throttling,
        first_wait=f"the addresses of {target.text}",
    )


class _PolicyTree:
    """`_Balanced` builds a tree of one policy, over all resolved addresses."""

    def __init__(self, policy: LbPolicyConfig) -> None:
        self._policy = policy
        self.root_policy = policy.policy

    def to_update(self, resolved: ResolvedAddress) -> Update:
        """Return the root policy's update for the addresses that `NonXdsResolver` found."""
        return Update(*build_priority(self._policy, (resolved.locality,), resolved.note))


def _parse(source: ServiceConfigSource, policies: Policies) -> ServiceConfig:
    if source is None:
        return EMPTY_SERVICE_CONFIG
    if not isinstance(source, str | Mapping):
        raise TypeError(f"service_config is JSON text or a mapping of the same shape, not {type(source).__name__}")
    return parse_service_config(source, make_parser({name: kind.parse for name, kind in policies.items()}))
