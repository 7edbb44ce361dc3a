"""A service config's outlier detection is parsed to the same settings that a cluster's resource has (A50).

An algorithm that is missing does not run. In a cluster's resource success rate runs unless it is switched off.
"""

from __future__ import annotations

from trxds.core.json_reader import JsonNode
from trxds.resources.outlier_detection import FailurePercentage, OutlierDetectionSettings, SuccessRate

_DEFAULT = OutlierDetectionSettings()


def outlier_detection_settings(node: JsonNode) -> OutlierDetectionSettings | None:
    """Parse the settings; return None if the config has none of the algorithms."""
    base = node.member("baseEjectionTime").duration(_DEFAULT.base_ejection_time)
    rules = OutlierDetectionSettings(
        node.member("interval").duration(_DEFAULT.interval),
        base,
        node.member("maxEjectionTime").duration(max(_DEFAULT.max_ejection_time, base)),
        _parse_percent(node.member("maxEjectionPercent"), _DEFAULT.max_ejection_percent),
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
