"""The fault filter's configuration: what is refused with which text, and what it becomes (A33)."""

from __future__ import annotations

from typing import Any

import pytest

from trxds.core.status import StatusCode
from trxds.resources.fault import Abort, Delay, FaultConfig, FractionalPercent
from trxds.resources.types import LDS, RDS

T = "type.googleapis.com/"
HCM = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
ROUTER = "envoy.extensions.filters.http.router.v3.Router"
FAULT = "envoy.extensions.filters.http.fault.v3.HTTPFault"


def listener(**fault: Any) -> dict[str, Any]:
    filters = [
        {"name": "fault", "typed_config": {"@type": T + FAULT, **fault}},
        {"name": "router", "typed_config": {"@type": T + ROUTER}},
    ]
    rds = {"route_config_name": "routes", "config_source": {"ads": {}}}
    return {
        "name": "svc",
        "api_listener": {"api_listener": {"@type": T + HCM, "rds": rds, "http_filters": filters}},
    }


def percent(numerator: int, denominator: str | int = "HUNDRED") -> dict[str, Any]:
    return {"numerator": numerator, "denominator": denominator}


CONFIGS = [
    ({}, FaultConfig()),
    ({"delay": {"fixed_delay": "0.25s"}}, FaultConfig(Delay(0.25))),
    (
        {"delay": {"header_delay": {}, "percentage": percent(3, "TEN_THOUSAND")}},
        FaultConfig(Delay(0.0, True, FractionalPercent(3, 10_000))),
    ),
    (
        {"abort": {"grpc_status": 10, "percentage": percent(7)}},
        FaultConfig(None, Abort(StatusCode.ABORTED, False, FractionalPercent(7))),
    ),
    ({"abort": {"header_abort": {}}}, FaultConfig(None, Abort(StatusCode.OK, True))),
    ({"abort": {"http_status": 404}}, FaultConfig(None, Abort(StatusCode.UNIMPLEMENTED))),
    ({"abort": {"http_status": 503}}, FaultConfig(None, Abort(StatusCode.UNAVAILABLE))),
    ({"abort": {"http_status": 418}}, FaultConfig(None, Abort(StatusCode.UNKNOWN))),
    ({"abort": {"http_status": 200}}, FaultConfig(None, Abort(StatusCode.OK))),
    ({"abort": {"grpc_status": 0}}, FaultConfig(None, Abort(StatusCode.OK))),
    ({"abort": {"grpc_status": 16}}, FaultConfig(None, Abort(StatusCode.UNAUTHENTICATED))),
    ({"abort": {"percentage": percent(5, "MILLION")}}, FaultConfig(None, Abort(share=FractionalPercent(5, 1_000_000)))),
    ({"abort": {"percentage": percent(5, 9)}}, FaultConfig(None, Abort(share=FractionalPercent(5, 1_000_000)))),
    ({"max_active_faults": 0}, FaultConfig(max_active=0)),
    (
        {"upstream_cluster": "other", "headers": [{"name": "h", "exact_match": "v"}]},
        FaultConfig(unread_limits=("upstream_cluster", "headers")),
    ),
    ({"downstream_nodes": ["canary"]}, FaultConfig(unread_limits=("downstream_nodes",))),
    ({"response_rate_limit": {"header_limit": {}}}, FaultConfig()),
]


@pytest.mark.parametrize("fields, config", CONFIGS)
def test_a_fault_becomes_a_value(read: Any, fields: dict[str, Any], config: FaultConfig) -> None:
    parsed = read(LDS, listener(**fields))
    assert parsed.errors == ()
    assert parsed.value.http_filters[0].config == config


AT = f"field:api_listener.api_listener.value[{HCM}].http_filters[0].typed_config.value[{FAULT}]"


def test_a_fault_with_an_invalid_status_code_is_rejected(read: Any) -> None:
    errors = read(LDS, listener(abort={"grpc_status": 17})).errors
    assert errors == (f"{AT}.abort.grpc_status error:invalid gRPC status code: 17",)


def test_a_delay_out_of_range_is_refused(read: Any) -> None:
    errors = read(LDS, listener(delay={"fixed_delay": "-1s"})).errors
    assert errors == (f"{AT}.delay.fixed_delay.seconds error:value must be in the range [0, 315576000000]",)


def test_a_fault_filter_override_has_the_same_type(read: Any) -> None:
    override = {"fault": {"@type": T + FAULT, "abort": {"grpc_status": 5}}}
    host = {"name": "v", "domains": ["*"], "typed_per_filter_config": override}
    parsed = read(RDS, {"name": "routes", "virtual_hosts": [host]})
    assert parsed.value.virtual_hosts[0].filter_overrides == {"fault": FaultConfig(None, Abort(StatusCode.NOT_FOUND))}
