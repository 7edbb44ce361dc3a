"""A cluster's outlier detection: what is refused, what is off, and the defaults (A50)."""

from __future__ import annotations

from typing import Any

import pytest

from trxds.resources.outlier_detection import FailurePercentage, OutlierDetectionSettings, SuccessRate
from trxds.resources.types import CDS


def cds(**fields: Any) -> dict[str, Any]:
    return {
        "name": "a",
        "type": "EDS",
        "eds_cluster_config": {"eds_config": {"ads": {}}},
        "outlier_detection": fields,
    }


def rules(read: Any, **fields: Any) -> OutlierDetectionSettings | None:
    parsed = read(CDS, cds(**fields))
    assert parsed.errors == ()
    found = parsed.value.ejection
    assert found is None or isinstance(found, OutlierDetectionSettings)
    return found


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("interval", "-1s", ".seconds error:value must be in the range [0, 315576000000]"),
        ("base_ejection_time", "-1s", ".seconds error:value must be in the range [0, 315576000000]"),
        ("max_ejection_time", "-0.5s", ".nanos error:value must be in the range [0, 999999999]"),
        ("max_ejection_percent", 101, " error:value must be <= 100"),
        ("enforcing_success_rate", 101, " error:value must be <= 100"),
        ("enforcing_failure_percentage", 101, " error:value must be <= 100"),
        ("failure_percentage_threshold", 101, " error:value must be <= 100"),
    ],
)
def test_a_bad_outlier_detection_field_is_rejected_with_its_path(
    read: Any, field: str, value: object, error: str
) -> None:
    assert read(CDS, cds(**{field: value})).errors == (f"field:outlier_detection.{field}{error}",)


def test_a_bad_outlier_detection_field_is_rejected_even_if_both_algorithms_are_off(read: Any) -> None:
    assert read(CDS, cds(enforcing_success_rate=0, interval="-1s")).errors


def test_a_cluster_without_the_field_has_no_outlier_detection(read: Any) -> None:
    resource = cds()
    del resource["outlier_detection"]
    assert read(CDS, resource).value.ejection is None


def test_the_defaults_are_those_of_a50(read: Any) -> None:
    assert rules(read) == OutlierDetectionSettings(
        interval=10.0,
        base_ejection_time=30.0,
        max_ejection_time=300.0,
        max_ejection_percent=10,
        success_rate=SuccessRate(stdev_factor=1900, enforcement=100, minimum_hosts=5, request_volume=100),
        failure_percentage=None,
    )


def test_failure_percentage_is_off_unless_enforced_and_has_defaults(read: Any) -> None:
    assert rules(read, enforcing_success_rate=0) is None
    assert rules(read, enforcing_success_rate=0, enforcing_failure_percentage=0) is None
    assert rules(read, enforcing_success_rate=0, enforcing_failure_percentage=50) == OutlierDetectionSettings(
        failure_percentage=FailurePercentage(threshold=85, enforcement=50, minimum_hosts=5, request_volume=50)
    )


def test_outlier_detection_fields_replace_the_defaults(read: Any) -> None:
    assert rules(
        read,
        interval="1.5s",
        base_ejection_time="2s",
        max_ejection_time="3s",
        max_ejection_percent=0,
        enforcing_success_rate=1,
        success_rate_stdev_factor=2,
        success_rate_minimum_hosts=3,
        success_rate_request_volume=4,
        enforcing_failure_percentage=5,
        failure_percentage_threshold=0,
        failure_percentage_minimum_hosts=7,
        failure_percentage_request_volume=8,
    ) == OutlierDetectionSettings(1.5, 2.0, 3.0, 0, SuccessRate(2, 1, 3, 4), FailurePercentage(0, 5, 7, 8))


def test_100_percent_is_valid_in_each_field_of_outlier_detection(read: Any) -> None:
    found = rules(
        read,
        max_ejection_percent=100,
        enforcing_success_rate=100,
        enforcing_failure_percentage=100,
        failure_percentage_threshold=100,
    )
    assert found is not None and found.max_ejection_percent == 100
    assert found.success_rate is not None and found.success_rate.enforcement == 100
    assert found.failure_percentage == FailurePercentage(100, 100, 5, 50)


@pytest.mark.parametrize(("base", "longest"), [("299s", 300.0), ("400s", 400.0)])
def test_the_longest_ejection_is_five_minutes_or_the_base(read: Any, base: str, longest: float) -> None:
    found = rules(read, base_ejection_time=base)
    assert found is not None and found.max_ejection_time == longest


def test_envoys_other_algorithms_are_ignored(read: Any) -> None:
    assert rules(read, consecutive_5xx=3, enforcing_consecutive_gateway_failure=100) == rules(read)
