"""Experiments: features of gRPC that are drafts or new, and that the environment switches on or off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SLOW_START_VARIABLE = "TRXDS_EXPERIMENTAL_SLOW_START"
HTTP_CONNECT_VARIABLE = "GRPC_EXPERIMENTAL_XDS_HTTP_CONNECT"
CUSTOM_METRICS_VARIABLE = "GRPC_EXPERIMENTAL_WRR_CUSTOM_METRICS"


@dataclass(frozen=True, slots=True)
class Experiments:
    """The features that are on. What is off is not read, so a wrong value there is no error."""

    slow_start: bool = False
    """`slow_start_config` of round_robin, least_request and weighted_round_robin (the draft A100)."""

    http_connect: bool = False
    """A cluster's hosts may have HTTP CONNECT proxies (A86)."""

    custom_metrics: bool = False
    """`metric_names_for_computing_utilization` of weighted_round_robin (A114)."""


NO_EXPERIMENTS = Experiments()


def read_experiments(environ: Mapping[str, str]) -> Experiments:
    """Return the features that are on: what C-core 1.85 has by default unless it is `false`, others if `true`."""
    return Experiments(
        slow_start=environ.get(SLOW_START_VARIABLE, "").lower() == "true",
        http_connect=environ.get(HTTP_CONNECT_VARIABLE, "").lower() == "true",
        custom_metrics=environ.get(CUSTOM_METRICS_VARIABLE, "").lower() != "false",
    )
