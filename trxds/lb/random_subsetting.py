"""A part of the endpoints, another one in each client, so that neither side has too many connections (A68).

By rendezvous hashing: when an endpoint comes or goes, a client's part changes by one at most.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from xxhash import xxh64_intdigest

from trxds.config.policies import (
    CustomConfig,
    LbConfig,
    LeastRequestConfig,
    PickFirstConfig,
    RandomSubsettingConfig,
    RingHashConfig,
    RoundRobinConfig,
    Target,
    WeightedRoundRobinConfig,
    WeightedTargetConfig,
)
from trxds.resources.endpoint import Endpoint

from .explain import Said
from .pick import PickArgs
from .policy import CONNECTING, Decision, Inputs, Surroundings

_CHILD = "subset"


class RandomSubsetting:
    def __init__(self, surroundings: Surroundings) -> None:
        self._seed = surroundings.random.getrandbits(64)  # what makes this client's part its own
        self._narrowed: tuple[RandomSubsettingConfig, LbConfig] | None = None

    def decide(self, inputs: Inputs, now: float) -> Decision:
        report = inputs.children.get(_CHILD, CONNECTING)
        return Decision(report.state, report.picker, children={_CHILD: self._subset(inputs.config)})

    def explain(self, inputs: Inputs, call: PickArgs) -> Said:
        endpoints = sum(1 for _ in _endpoints(inputs.config.child))
        subset = min(endpoints, inputs.config.subset_size)
        return Said(f"{endpoints} endpoints", f"{subset} of them", "the lowest by this client's own hashes", _CHILD)

    def _subset(self, config: RandomSubsettingConfig) -> LbConfig:
        if self._narrowed is None or self._narrowed[0] is not config:
            kept = chosen(_endpoints(config.child), config.subset_size, self._seed)
            self._narrowed = config, narrowed(config.child, kept)
        return self._narrowed[1]


def chosen(endpoints: Iterator[Endpoint], size: int, seed: int) -> frozenset[str]:
    """The first addresses of so many endpoints, those with the lowest hashes."""
    firsts = [endpoint.addresses[0] for endpoint in endpoints]
    firsts.sort(key=lambda address: xxh64_intdigest(address.encode(), seed))
    return frozenset(firsts[:size])


def _endpoints(config: LbConfig) -> Iterator[Endpoint]:
    match config:
        case WeightedTargetConfig(targets):
            for target in targets.values():
                yield from _endpoints(target.config)
        case RandomSubsettingConfig(_, child):
            yield from _endpoints(child)
        case _:
            yield from getattr(config, "endpoints", ())


def narrowed(config: LbConfig, kept: Collection[str]) -> LbConfig:
    """The same configuration with those endpoints only."""
    match config:
        case WeightedTargetConfig(targets):
            parts = {name: Target(target.weight, narrowed(target.config, kept)) for name, target in targets.items()}
            # A locality of which nothing is left takes no part in the draw.
            return replace(config, targets={n: part for n, part in parts.items() if any(_endpoints(part.config))})
        case RandomSubsettingConfig(_, child):
            return replace(config, child=narrowed(child, kept))
        case PickFirstConfig() | RingHashConfig() | CustomConfig():
            pairs = [p for p in zip(config.endpoints, config.weights, strict=True) if p[0].addresses[0] in kept]
            return replace(config, endpoints=tuple(e for e, _ in pairs), weights=tuple(w for _, w in pairs))
        case RoundRobinConfig() | LeastRequestConfig() | WeightedRoundRobinConfig():
            return replace(config, endpoints=tuple(e for e in config.endpoints if e.addresses[0] in kept))
        case _:
            raise TypeError(f"{config!r} has no endpoints to choose from")
