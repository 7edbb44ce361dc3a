"""The outlier detection settings of a Cluster (A50): rules to eject hosts that fail too often.

Only the two algorithms that A50 has are read; Envoy's others go by HTTP codes.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from .units import parse_duration_or, wrapped_number_or
from .validation_errors import ValidationErrors


class SuccessRate(Struct, frozen=True):
    """The algorithm that ejects hosts with a success rate below mean - stdev × `stdev_factor` / 1000.

    It compares hosts with `request_volume` calls in an interval, if there are `minimum_hosts` of them. `enforcement` is
    the chance in percent that a host below is ejected. The fields of `FailurePercentage` have the same meaning.
    """

    stdev_factor: int = 1900
    enforcement: int = 100
    minimum_hosts: int = 5
    request_volume: int = 100


class FailurePercentage(Struct, frozen=True):
    """The algorithm that ejects hosts with more than `threshold` percent of failed calls, whatever the others do."""

    threshold: int = 85
    enforcement: int = 100
    minimum_hosts: int = 5
    request_volume: int = 50


class OutlierDetectionSettings(Struct, frozen=True):
    """The settings of a cluster; times are in seconds.

    A host is ejected for `base_ejection_time` times the number of its recent ejections.
    """

    interval: float = 10.0
    base_ejection_time: float = 30.0
    max_ejection_time: float = 300.0
    max_ejection_percent: int = 10
    success_rate: SuccessRate | None = None
    failure_percentage: FailurePercentage | None = None


_PERCENTAGES = (
    "max_ejection_percent",
    "enforcing_success_rate",
    "failure_percentage_threshold",
    "enforcing_failure_percentage",
)


def parse_outlier_detection(cluster: Any, problems: ValidationErrors) -> OutlierDetectionSettings | None:
    """Return the settings; None if the cluster uses neither algorithm, so that nothing has to be counted."""
    if not cluster.HasField("outlier_detection"):
        return None
    message, at = cluster.outlier_detection, problems.at("outlier_detection")
    default = OutlierDetectionSettings()
    interval = parse_duration_or(default.interval, message, "interval", at)
    base = parse_duration_or(default.base_ejection_time, message, "base_ejection_time", at)
    # A50: unset, it is 300 s or the base time, whichever is longer, so that a default cuts no ejection short.
    max_ejection_time = parse_duration_or(max(default.max_ejection_time, base), message, "max_ejection_time", at)
    for field in _PERCENTAGES:
        # A50: above 100 the resource is rejected, and the value is not capped.
        if getattr(message, field).value > 100:
            at.at(field).add("value must be <= 100")
    success_rate, failure_percentage = _success_rate(message), _failure_percentage(message)
    if success_rate is None and failure_percentage is None:
        return None
    return OutlierDetectionSettings(
        interval,
        base,
        max_ejection_time,
        wrapped_number_or(default.max_ejection_percent, message, "max_ejection_percent"),
        success_rate,
        failure_percentage,
    )


def _success_rate(message: Any) -> SuccessRate | None:
    # Unset means on, by A50 and in Envoy; the C++ client takes it for off.
    default = SuccessRate()
    enforcement = wrapped_number_or(default.enforcement, message, "enforcing_success_rate")
    if enforcement == 0:
        return None
    return SuccessRate(
        wrapped_number_or(default.stdev_factor, message, "success_rate_stdev_factor"),
        enforcement,
        wrapped_number_or(default.minimum_hosts, message, "success_rate_minimum_hosts"),
        wrapped_number_or(default.request_volume, message, "success_rate_request_volume"),
    )


def _failure_percentage(message: Any) -> FailurePercentage | None:
    default = FailurePercentage()
    # A50: 0 and unset both switch it off; the success rate is on unless it is 0.
    enforcement = wrapped_number_or(0, message, "enforcing_failure_percentage")
    if enforcement == 0:
        return None
    return FailurePercentage(
        wrapped_number_or(default.threshold, message, "failure_percentage_threshold"),
        enforcement,
        wrapped_number_or(default.minimum_hosts, message, "failure_percentage_minimum_hosts"),
        wrapped_number_or(default.request_volume, message, "failure_percentage_request_volume"),
    )
