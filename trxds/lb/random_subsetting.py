"""random_subsetting gives each client another subset of the endpoints, so no side has too many connections (A68).

It uses rendezvous hashing: when an endpoint is added or removed, a client's subset changes by one endpoint at most.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

from msgspec import structs
from xxhash import xxh64_intdigest

from trxds.resources.endpoint import Endpoint
from trxds.resources.lb_policy import RandomSubsetting as RandomSubsettingConfig
from trxds.resources.leaf_policy import LbPolicyConfig

from .configs import OutlierDetectionConfig, Target, WeightedTargetConfig
from .endpoint_set import Endpoints
from .pick import TraceNote
from .policy import CONNECTING, ChannelControl, Decision, PolicyInputs

_CHILD = "subset"
_HANDED_ON = TraceNote("the endpoints with the lowest hashes by this client's seed")


class RandomSubsetting:
    """The random_subsetting policy; its only child gets the subset."""

    only_child: ClassVar[str] = _CHILD

    def __init__(self, channel_control: ChannelControl) -> None:
        self._seed = channel_control.random.getrandbits(64)  # each client has another one, and so another subset
        self._last: tuple[RandomSubsettingConfig, Endpoints, tuple[LbPolicyConfig, Endpoints]] | None = None

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        report = inputs.children.get(_CHILD, CONNECTING)
        config, endpoints = self._choose(inputs.config, inputs.endpoints)
        return Decision(
            report.state,
            report.picker,
            children={_CHILD: config},
            endpoints={_CHILD: endpoints},
            handed_on=_HANDED_ON,
            in_first_pass=report.in_first_pass,
        )

    def describe(self, inputs: PolicyInputs, now: float) -> str:
        return f"{min(len(inputs.endpoints), inputs.config.subset_size)} of {len(inputs.endpoints)} endpoints"

    def _choose(self, config: RandomSubsettingConfig, endpoints: Endpoints) -> tuple[LbPolicyConfig, Endpoints]:
        last = self._last
        # Once for the same inputs, because it hashes all endpoints and each report of the child comes here.
        if last is None or last[0] is not config or last[1] is not endpoints:
            subset = endpoints.only(rank_addresses(endpoints, config.subset_size, self._seed))
            last = self._last = config, endpoints, (narrow_config(config.child, subset), subset)
        return last[2]


def rank_addresses(endpoints: Iterable[Endpoint], size: int, seed: int) -> dict[str, int]:
    """Return the first addresses of the `size` endpoints with the lowest hashes, with their ranks."""
    firsts = [endpoint.addresses[0] for endpoint in endpoints]
    # A68: a subset has the order of the hashes. If it had the list's, most clients with a pick_first below would use
    # the list's first endpoints.
    if size < len(firsts):
        firsts.sort(key=lambda address: xxh64_intdigest(address.encode(), seed))
    return {first: rank for rank, first in enumerate(firsts[:size])}


def narrow_config(config: LbPolicyConfig, endpoints: Endpoints) -> LbPolicyConfig:
    """Return the configuration without localities that have none of the endpoints: RPCs for them would fail."""
    match config:
        case WeightedTargetConfig(targets):
            parts = endpoints.parts
            left = {
                name: Target(target.weight, narrow_config(target.config, parts[name]))
                for name, target in targets.items()
                if name in parts
            }
            return replace(config, targets=left)
        case RandomSubsettingConfig() | OutlierDetectionConfig():
            return structs.replace(config, child=narrow_config(config.child, endpoints))
        case _:
            return config
