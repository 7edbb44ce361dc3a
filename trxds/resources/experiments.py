"""Experiments: the features of gRPC that the environment switches on or off."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

SLOW_START_VARIABLE = "TRXDS_EXPERIMENTAL_SLOW_START"
HTTP_CONNECT_VARIABLE = "GRPC_EXPERIMENTAL_XDS_HTTP_CONNECT"
CUSTOM_METRICS_VARIABLE = "GRPC_EXPERIMENTAL_WRR_CUSTOM_METRICS"
OVERRIDE_HOST_VARIABLE = "GRPC_EXPERIMENTAL_XDS_ENABLE_OVERRIDE_HOST"
AGGREGATE_LB_POLICY_VARIABLE = "GRPC_XDS_AGGREGATE_CLUSTER_BACKWARD_COMPAT"
PER_TRY_TIMEOUT_VARIABLE = "TRXDS_XDS_PER_TRY_TIMEOUT"
AUTHORITY_REWRITE_VARIABLE = "GRPC_EXPERIMENTAL_XDS_AUTHORITY_REWRITE"
CONNECTION_SCALING_VARIABLE = "GRPC_EXPERIMENTAL_XDS_MAX_CONCURRENT_STREAMS_CONNECTION_SCALING"


class Experiments(Struct, frozen=True):
    """The features that are on. What is off is not read, so a wrong value there is no error."""

    slow_start: bool = False
    """`slow_start_config` of round_robin, least_request and weighted_round_robin (the draft A100)."""

    http_connect: bool = False
    """A cluster's hosts may have HTTP CONNECT proxies (A86)."""

    custom_metrics: bool = False
    """`metric_names_for_computing_utilization` of weighted_round_robin (A114)."""

    override_host: bool = True
    """Session affinity (A55): without it there is no such filter, and no DRAINING host."""

    aggregate_lb_policy: bool = False
    """The clusters of an aggregate get its load balancing policy, as before A75."""

    per_try_timeout: bool = False
    """That field of a retry policy, which A44 ignores."""

    authority_rewrite: bool = False
    """`auto_host_rewrite` of a route, if the server is trusted (A81)."""

    connection_scaling: bool = False
    """The number of connections that a cluster allows to a host (A105)."""


NO_EXPERIMENTS = Experiments()


def read_experiments(environ: Mapping[str, str]) -> Experiments:
    """Return the features that are on: what C-core 1.85 has by default unless it is `false`, others if `true`."""

    def is_on(variable: str, *, default: bool = False) -> bool:
        text = environ.get(variable, "").lower()
        return text != "false" if default else text == "true"

    return Experiments(
        slow_start=is_on(SLOW_START_VARIABLE),
        http_connect=is_on(HTTP_CONNECT_VARIABLE),
        custom_metrics=is_on(CUSTOM_METRICS_VARIABLE, default=True),
        override_host=is_on(OVERRIDE_HOST_VARIABLE, default=True),
        aggregate_lb_policy=is_on(AGGREGATE_LB_POLICY_VARIABLE),
        per_try_timeout=is_on(PER_TRY_TIMEOUT_VARIABLE),
        authority_rewrite=is_on(AUTHORITY_REWRITE_VARIABLE, default=True),
        connection_scaling=is_on(CONNECTION_SCALING_VARIABLE, default=True),
    )
