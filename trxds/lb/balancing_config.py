"""A service config's load balancing policy is parsed here (A24): the first policy of its list that is known.

The result is the same value as from a cluster's resource (`resources/lb_policy.py`), so both balance alike.
Limits and defaults are those of the policies' gRFCs. A control plane may configure a policy in the same form, by a
TypedStruct (A52).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

from msgspec import Struct

from trxds.core.json_reader import JsonNode, Problem
from trxds.core.metadata import is_key
from trxds.resolver.service_config import ReadLbPolicy
from trxds.resources.experiments import NO_EXPERIMENTS, Experiments
from trxds.resources.extension import Extension
from trxds.resources.lb_policy import CustomPolicy, ParseSettings, RandomSubsetting
from trxds.resources.leaf_policy import (
    DEFAULT_CHOICE_COUNT,
    MAX_CHOICE_COUNT,
    MAX_RING_SIZE,
    MIN_RING_SIZE,
    MIN_UPDATE_PERIOD,
    RING_SIZE_LIMIT,
    ClientSideWeightedRoundRobin,
    LbPolicyConfig,
    LeastRequest,
    PickFirst,
    RingHash,
    RoundRobin,
    StructPolicy,
)
from trxds.resources.orca import is_supported_metric
from trxds.resources.outlier_detection import FailurePercentage, OutlierDetectionSettings, SuccessRate
from trxds.resources.slow_start import SlowStart, slow_start_settings

from .configs import OutlierDetectionConfig

Policies: TypeAlias = Mapping[str, ParseSettings]

_DEPRECATED: Mapping[str, LbPolicyConfig] = MappingProxyType({"pick_first": PickFirst(), "round_robin": RoundRobin()})
# The limit that A52 has for policies in resources.
_MAX_DEPTH = 16


class _Known(Struct, frozen=True):
    """The parsers of the user's own policies, by name, and the features that are on."""

    policies: Policies
    experiments: Experiments


def make_parser(policies: Policies, experiments: Experiments = NO_EXPERIMENTS) -> ReadLbPolicy:
    """Return a parser of a service config's policy; `policies` are the parsers of the user's own, by name."""
    return partial(parse_lb_policy, known=_Known(policies, experiments))


def parse_lb_policy(top: JsonNode, known: _Known) -> LbPolicyConfig | None:
    """Parse `loadBalancingConfig`, or else the deprecated `loadBalancingPolicy`, which is only a name."""
    node = top.member("loadBalancingConfig")
    if node.value is not None:
        return _parse_first_known(node, known, 0)
    # A24: the deprecated field counts only if the other one is missing.
    older = top.member("loadBalancingPolicy")
    name = older.text().lower()
    if name and name not in _DEPRECATED:
        older.error(f"is {name!r}, and policies by name alone are pick_first and round_robin; use loadBalancingConfig")
    return _DEPRECATED.get(name)


def _parse_first_known(node: JsonNode, known: _Known, depth: int) -> LbPolicyConfig | None:
    if depth >= _MAX_DEPTH:
        node.error(f"is nested more than {_MAX_DEPTH} deep")
        return None
    names: list[str] = []
    for item in node.items("needs at least one policy", 'for example [{"round_robin": {}}]'):
        members = item.members()
        # A24: an entry with more than one name is an error, even if one of them is known.
        if len(members) != 1:
            item.error(f"has {len(members)} members; write one, the policy's name with its settings")
            return None
        for name, settings in members.items():
            names.append(name)
            if name in known.policies:
                return _parse_custom(name, settings, known.policies[name])
            if name in _LEAF_PARSERS:
                settings.object()
                return _LEAF_PARSERS[name](settings, known.experiments)
            if name in _PARENT_PARSERS:
                settings.object()
                return _PARENT_PARSERS[name](settings, known, depth)
    if names:
        all_known = ", ".join(sorted([*_LEAF_PARSERS, *_PARENT_PARSERS, *known.policies]))
        node.error(f"names no policy that is known here: {', '.join(names)}; known are {all_known}")
    return None


def _parse_custom(name: str, settings: JsonNode, parse: ParseSettings) -> CustomPolicy | None:
    try:
        return CustomPolicy(name, parse(settings.object()))
    except Exception as error:  # whatever the user's parser raises is a problem of this config, not of the channel
        settings.error(f"{type(error).__name__}: {error}")
        return None


def _parse_random_subsetting(node: JsonNode, known: _Known, depth: int) -> RandomSubsetting | None:
    size = node.member("subsetSize")
    count = size.integer(0)
    if count < 1:
        size.error("must be at least 1")
    child = _parse_first_known(node.member("childPolicy"), known, depth + 1)
    return RandomSubsetting(count, child) if child is not None else None


def _parse_outlier_detection(node: JsonNode, known: _Known, depth: int) -> OutlierDetectionConfig | None:
    rules = _parse_outlier_rules(node)
    child = _parse_first_known(node.member("childPolicy"), known, depth + 1)
    return OutlierDetectionConfig(rules, child) if child is not None else None


def _parse_outlier_rules(node: JsonNode) -> OutlierDetectionSettings | None:
    """Parse the rules; return None if the config has none of the algorithms.

    An algorithm that is missing does not run. In a cluster's resource success rate runs unless it is switched off.
    """
    default = OutlierDetectionSettings()
    base = node.member("baseEjectionTime").duration(default.base_ejection_time)
    rules = OutlierDetectionSettings(
        node.member("interval").duration(default.interval),
        base,
        node.member("maxEjectionTime").duration(max(default.max_ejection_time, base)),
        _parse_percent(node.member("maxEjectionPercent"), default.max_ejection_percent),
        _parse_success_rate(node.member("successRateEjection")),
        _parse_failure_percentage(node.member("failurePercentageEjection")),
    )
    # A50: without an algorithm the policy only passes its child through.
    return rules if rules.success_rate or rules.failure_percentage else None


def _parse_success_rate(node: JsonNode) -> SuccessRate | None:
    if not node.has_object():
        return None
    default = SuccessRate()
    return SuccessRate(
        node.member("stdevFactor").integer(default.stdev_factor),
        _parse_percent(node.member("enforcementPercentage"), default.enforcement),
        node.member("minimumHosts").integer(default.minimum_hosts),
        node.member("requestVolume").integer(default.request_volume),
    )


def _parse_failure_percentage(node: JsonNode) -> FailurePercentage | None:
    if not node.has_object():
        return None
    default = FailurePercentage()
    return FailurePercentage(
        _parse_percent(node.member("threshold"), default.threshold),
        _parse_percent(node.member("enforcementPercentage"), default.enforcement),
        node.member("minimumHosts").integer(default.minimum_hosts),
        node.member("requestVolume").integer(default.request_volume),
    )


def _parse_percent(node: JsonNode, default: int) -> int:
    value = node.integer(default)
    if value > 100:
        node.error("must be a percentage, at most 100")
    return value


def _parse_slow_start(node: JsonNode, experiments: Experiments) -> SlowStart | None:
    return slow_start_settings(node.member("slowStartConfig")) if experiments.slow_start else None


def _parse_round_robin(node: JsonNode, experiments: Experiments) -> RoundRobin:
    return RoundRobin(_parse_slow_start(node, experiments))


def _parse_pick_first(node: JsonNode, experiments: Experiments) -> PickFirst:
    return PickFirst(node.member("shuffleAddressList").boolean())


def _parse_ring_hash(node: JsonNode, experiments: Experiments) -> RingHash:
    min_node, max_node = node.member("minRingSize"), node.member("maxRingSize")
    min_size, max_size = min_node.integer(MIN_RING_SIZE), max_node.integer(MAX_RING_SIZE)
    for size, size_node in ((min_size, min_node), (max_size, max_node)):
        if not 1 <= size <= RING_SIZE_LIMIT:
            size_node.error(f"must be in the range 1 to {RING_SIZE_LIMIT}")
    if min_size > max_size:
        min_node.error("must not be more than maxRingSize")
    return RingHash(min_size, max_size, _parse_hash_header(node.member("requestHashHeader")))


def _parse_hash_header(node: JsonNode) -> str:
    """Parse `requestHashHeader` (A76): the name of an ASCII header, or empty."""
    name = node.text().lower()
    if name and (not is_key(name) or name.endswith("-bin")):
        node.error(f"is {name!r}; write the name of an ASCII header, as x-user-id")
    return name


def _parse_least_request(node: JsonNode, experiments: Experiments) -> LeastRequest:
    choices = node.member("choiceCount")
    count = choices.integer(DEFAULT_CHOICE_COUNT)
    if count < DEFAULT_CHOICE_COUNT:
        choices.error(f"must be at least {DEFAULT_CHOICE_COUNT}")
    # A48 caps a large count, and refuses one below 2.
    return LeastRequest(min(count, MAX_CHOICE_COUNT), _parse_slow_start(node, experiments))


def _parse_weighted_round_robin(node: JsonNode, experiments: Experiments) -> ClientSideWeightedRoundRobin:
    penalty = node.member("errorUtilizationPenalty")
    factor = penalty.number(1.0)
    if factor < 0:
        penalty.error("must not be less than 0")
    out_of_band = node.member("enableOobLoadReport").boolean()
    period = node.member("oobReportingPeriod").duration(10.0)
    return ClientSideWeightedRoundRobin(
        node.member("blackoutPeriod").duration(10.0),
        node.member("weightExpirationPeriod").duration(180.0),
        # A58: a shorter period is raised to 100 ms and is no error.
        max(node.member("weightUpdatePeriod").duration(1.0), MIN_UPDATE_PERIOD),
        factor,
        period if out_of_band else None,
        _parse_metric_names(node) if experiments.custom_metrics else (),
        _parse_slow_start(node, experiments),
    )


def _parse_metric_names(node: JsonNode) -> tuple[str, ...]:
    """Parse `metricNamesForComputingUtilization` (A114)."""
    names = []
    for item in node.member("metricNamesForComputingUtilization").items():
        names.append(name := item.text())
        if isinstance(item.value, str) and not is_supported_metric(name):
            item.error(f"is {name!r}; write a field as cpu_utilization, or a map's key as named_metrics.queue")
    return tuple(names)


_LEAF_PARSERS: Mapping[str, Callable[[JsonNode, Experiments], LbPolicyConfig]] = MappingProxyType(
    {
        "round_robin": _parse_round_robin,
        "pick_first": _parse_pick_first,
        "ring_hash_experimental": _parse_ring_hash,
        "least_request_experimental": _parse_least_request,
        "weighted_round_robin": _parse_weighted_round_robin,
    }
)

# Parents have a policy inside, so their parsers need the depth: it is bounded.
_PARENT_PARSERS: Mapping[str, Callable[[JsonNode, _Known, int], LbPolicyConfig | None]] = MappingProxyType(
    {
        "random_subsetting_experimental": _parse_random_subsetting,
        "outlier_detection_experimental": _parse_outlier_detection,
    }
)


def make_struct_policies(experiments: Experiments = NO_EXPERIMENTS) -> Mapping[str, StructPolicy]:
    """Return the parsers of the policies that a TypedStruct may name, by their names (A52)."""
    return MappingProxyType({name: partial(_parse_struct, read, experiments) for name, read in _LEAF_PARSERS.items()})


def _parse_struct(
    read: Callable[[JsonNode, Experiments], LbPolicyConfig], experiments: Experiments, struct: Extension
) -> LbPolicyConfig | None:
    problems: list[Problem] = []
    config = read(JsonNode(struct.fields, problems), experiments)
    for problem in problems:
        struct.problems.at(problem.path).add(problem.text)
    return None if problems else config
