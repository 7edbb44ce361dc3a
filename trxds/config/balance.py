"""What a cluster's load balancing policy becomes for one priority: policies that have their endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TypeAlias

from trxds.resources.custom_policy import CustomPolicy
from trxds.resources.endpoint import Endpoint, HealthStatus, Locality
from trxds.resources.lb_policy import RandomSubsetting, WrrLocality
from trxds.resources.leaf_policy import (
    ClientSideWeightedRoundRobin,
    LbPolicyConfig,
    LeastRequest,
    PickFirst,
    RingHash,
    RoundRobin,
)

from .ejection_config import Ejecting
from .policies import (
    CustomConfig,
    LbConfig,
    LeastRequestConfig,
    OutlierDetectionConfig,
    PickFirstConfig,
    RandomSubsettingConfig,
    RingHashConfig,
    RoundRobinConfig,
    Target,
    WeightedRoundRobinConfig,
    WeightedTargetConfig,
)
from .weights import endpoint_weights

_Serving: TypeAlias = tuple[Locality, tuple[Endpoint, ...]]  # those of its endpoints that take new requests


def balance(policy: LbPolicyConfig, localities: Sequence[Locality], note: str) -> LbConfig:
    """`note` says why there are no endpoints, should there be none: with some it would only make updates differ."""
    # DRAINING never reaches the child, whatever override_host_status says (A55).
    serving = [(place, endpoints) for place in localities if (endpoints := _serving(place))]
    return _balance(policy, serving, "" if serving else note)


def _serving(locality: Locality) -> tuple[Endpoint, ...]:
    return tuple([e for e in locality.endpoints if e.health is not HealthStatus.DRAINING])  # faster from a list


def _balance(policy: LbPolicyConfig, serving: Sequence[_Serving], note: str) -> LbConfig:
    match policy:
        case WrrLocality(child):
            targets = {str(at.id): Target(at.weight, _balance(child, [(at, its)], note)) for at, its in serving}
            return WeightedTargetConfig(targets, note)
        case RandomSubsetting(size, child):
            return RandomSubsettingConfig(size, _balance(child, serving, note))
        case Ejecting(rules, child):
            return OutlierDetectionConfig(_endpoints(serving), rules, _balance(child, serving, note))
        case _:
            return _leaf(policy, serving, note)


def _endpoints(serving: Sequence[_Serving]) -> tuple[Endpoint, ...]:
    return tuple(chain.from_iterable(its for _, its in serving))


def _leaf(policy: LbPolicyConfig, serving: Sequence[_Serving], note: str) -> LbConfig:
    endpoints = _endpoints(serving)
    match policy:
        case RoundRobin():
            return RoundRobinConfig(endpoints, note)
        case PickFirst(shuffle):
            return PickFirstConfig(endpoints, endpoint_weights(serving), shuffle, note)
        case RingHash(smallest, largest, header):
            return RingHashConfig(endpoints, endpoint_weights(serving), smallest, largest, note, header)
        case LeastRequest(choice_count):
            return LeastRequestConfig(endpoints, choice_count, note)
        case ClientSideWeightedRoundRobin():
            return WeightedRoundRobinConfig(endpoints, policy, note)
        case CustomPolicy(name, settings):
            return CustomConfig(name, settings, endpoints, endpoint_weights(serving), note)
        case _:
            raise TypeError(f"no leaf policy for {policy!r}; its parser let it through")
