"""Load balancing policies in a Cluster (A52).

A control plane lists alternatives, the best first, and a client takes the first that it knows. A TypedStruct has the
name and the JSON of a policy in a service config: a user's own policies come in no other form, and those of trxds may.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias

from msgspec import Struct

from . import leaf_policy as leaf
from . import protos
from .context import ParseContext
from .experiments import Experiments
from .extension import Extension, extension
from .leaf_policy import LbPolicyConfig, RoundRobin
from .validation_errors import ValidationErrors

ParseSettings: TypeAlias = Callable[[Mapping[str, Any]], Any]
"""The user's own code, which makes settings of a TypedStruct's fields (A52)."""

_MAX_DEPTH = 16


class WrrLocality(LbPolicyConfig, Struct, frozen=True, gc=False):
    """A policy that chooses a locality by weight, and applies `child` within it (A52)."""

    policy: ClassVar[str] = "xds_wrr_locality_experimental"
    child: LbPolicyConfig


class RandomSubsetting(LbPolicyConfig, Struct, frozen=True, gc=False):
    """A policy that uses a random subset of the endpoints, so many for each client, and applies `child` to it (A68)."""

    policy: ClassVar[str] = "random_subsetting_experimental"
    subset_size: int
    child: LbPolicyConfig


@dataclass(frozen=True, slots=True)
class CustomPolicy(LbPolicyConfig):
    """A user's policy (A52). `settings` are the result of the user's parser, and are compared to find a change."""

    policy: str  # the name that the user gave it
    settings: Any

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CustomPolicy) or self.policy != other.policy:
            return False
        try:
            return bool(self.settings == other.settings)
        except Exception:  # the program's own `==`, for example of an array
            return False

    def __hash__(self) -> int:
        return hash(self.policy)  # without the settings, which may be a dict


WRR_LOCALITY = WrrLocality(RoundRobin())  # what `lb_policy: ROUND_ROBIN` means


class WrapperPolicy(Struct, frozen=True):
    """The context of a policy inside others, with its depth."""

    context: ParseContext
    depth: int = 0

    def child(self, message: Any, field: str, problems: ValidationErrors) -> LbPolicyConfig | None:
        """Return the policy in that field of `message`, an envoy.config.cluster.v3.LoadBalancingPolicy."""
        if not problems.has_field(message, field):
            return None
        below = WrapperPolicy(self.context, self.depth + 1)
        return parse_load_balancing_policy(getattr(message, field), below, problems.at(field))


LbPolicyType: TypeAlias = Callable[[Extension, WrapperPolicy], LbPolicyConfig | None]


def parse_load_balancing_policy(
    message: Any, nesting: WrapperPolicy, problems: ValidationErrors
) -> LbPolicyConfig | None:
    """Return the first known policy in the list; None (and a problem) if there is none."""
    # A52: 16 levels at most, or the control plane could make the parser recur too deep.
    if nesting.depth >= _MAX_DEPTH:
        problems.add(f"exceeded max recursion depth of {_MAX_DEPTH}")
        return None
    # A52: the first known policy is used. If its configuration is invalid, so is the resource; no other one is tried.
    for index, policy in enumerate(message.policies):
        at = problems.at(f"policies[{index}]")
        if not at.has_field(policy, "typed_extension_config"):
            return None
        config = extension(policy.typed_extension_config, "typed_config", at.at("typed_extension_config"))
        if config is None:
            return None
        if config.fields is not None:
            if config.type_name in nesting.context.struct_policies:
                return nesting.context.struct_policies[config.type_name](config)
        elif config.type_name in LB_POLICIES:
            return LB_POLICIES[config.type_name](config, nesting)
    problems.add("no supported load balancing policy config found")
    return None


def _leaf(parse: Callable[[Extension, Experiments], LbPolicyConfig | None]) -> LbPolicyType:
    """Return the type of a policy without a child."""
    return lambda config, nesting: parse(config, nesting.context.experiments)


def _wrr_locality(config: Extension, nesting: WrapperPolicy) -> WrrLocality | None:
    message = leaf.parse_message(config, protos.WrrLocality)
    if message is None:
        return None
    child = nesting.child(message, "endpoint_picking_policy", config.problems)
    return WrrLocality(child) if child is not None else None


def _random_subsetting(config: Extension, nesting: WrapperPolicy) -> RandomSubsetting | None:
    message = leaf.parse_message(config, protos.RandomSubsetting)
    if message is None:
        return None
    if not message.subset_size.value:
        config.problems.at("subset_size").add("must be greater than 0")
    child = nesting.child(message, "child_policy", config.problems)
    return RandomSubsetting(message.subset_size.value, child) if child is not None else None


def parse_custom_policy(parse: ParseSettings, config: Extension) -> CustomPolicy | None:
    """Return the user's policy of that TypedStruct; `parse` makes its settings."""
    assert config.fields is not None
    try:
        return CustomPolicy(config.type_name, parse(config.fields))
    except Exception as error:  # the user's code may raise anything: that rejects the resource, not the channel
        config.problems.add(f"{type(error).__name__}: {error}")
        return None


_POLICIES = "envoy.extensions.load_balancing_policies"

# By the names of their messages.
LB_POLICIES: Mapping[str, LbPolicyType] = MappingProxyType(
    {
        f"{_POLICIES}.round_robin.v3.RoundRobin": _leaf(leaf.round_robin),
        f"{_POLICIES}.pick_first.v3.PickFirst": _leaf(leaf.pick_first),
        f"{_POLICIES}.ring_hash.v3.RingHash": _leaf(leaf.ring_hash),
        f"{_POLICIES}.least_request.v3.LeastRequest": _leaf(leaf.least_request),
        f"{_POLICIES}.client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin": _leaf(
            leaf.client_side_weighted_round_robin
        ),
        f"{_POLICIES}.wrr_locality.v3.WrrLocality": _wrr_locality,
        f"{_POLICIES}.random_subsetting.v3.RandomSubsetting": _random_subsetting,
    }
)
