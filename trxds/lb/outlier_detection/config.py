"""A service config's outlier detection is parsed to the same settings that a cluster's resource has (A50).

An algorithm that is missing does not run. In a cluster's resource success rate runs unless it is switched off.
"""

from __future__ import annotations

from trxds.core.json_reader import JsonNode
from trxds.resources.outlier_detection import FailurePercentage, OutlierDetectionSettings, SuccessRate

_DEFAULT = OutlierDetectionSettings()


def outlier_detection_settings(place: JsonNode) -> OutlierDetectionSettings | None:
    """Parse the settings; return None if the config has none of the algorithms."""
    base = place.member("baseEjectionTime").duration(_DEFAULT.base_ejection_time)
    rules = OutlierDetectionSettings(
        place.member("interval").duration(_DEFAULT.interval),
        base,
        place.member("maxEjectionTime").duration(max(_DEFAULT.max_ejection_time, base)),
        _percent(place.member("maxEjectionPercent"), _DEFAULT.max_ejection_percent),
        _success_rate(place.member("successRateEjection")),
        _failure_percentage(place.member("failurePercentageEjection")),
    )
    # A50: without an algorithm the policy only passes its child through.
    return rules if rules.success_rate or rules.failure_percentage else None


def _success_rate(place: JsonNode) -> SuccessRate | None:
    if not place.has_object():
        return None
    default = SuccessRate()
    return SuccessRate(
        place.member("stdevFactor").integer(default.stdev_factor),
        _percent(place.member("enforcementPercentage"), default.enforcement),
        place.member("minimumHosts").integer(default.minimum_hosts),
        place.member("requestVolume").integer(default.request_volume),
    )


def _failure_percentage(place: JsonNode) -> FailurePercentage | None:
    if not place.has_object():
        return None
    default = FailurePercentage()
    return FailurePercentage(
        _percent(place.member("threshold"), default.threshold),
        _percent(place.member("enforcementPercentage"), default.enforcement),
        place.member("minimumHosts").integer(default.minimum_hosts),
        place.member("requestVolume").integer(default.request_volume),
    )


def _percent(place: JsonNode, default: int) -> int:
    value = place.integer(default)
    if value > 100:
        place.error("must be a percentage, at most 100")
    return value
