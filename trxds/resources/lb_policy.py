"""Load balancing policies as a cluster's resource asks for them (A52)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LbPolicyConfig:
    """What any policy's configuration is; `lb/registry.py` finds the policy by its class."""


@dataclass(frozen=True, slots=True)
class RoundRobin(LbPolicyConfig):
    """Every endpoint in turn."""


@dataclass(frozen=True, slots=True)
class WrrLocality(LbPolicyConfig):
    """Localities by weight, `child` within each."""

    child: LbPolicyConfig


WRR_LOCALITY = WrrLocality(RoundRobin())  # what `lb_policy: ROUND_ROBIN` means
