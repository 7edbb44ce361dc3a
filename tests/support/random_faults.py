"""Random fault injection (A33) that leaves nothing to chance, and calls whose headers ask for faults.

A fault is for all calls or for none, by the configuration or by a header. `max_active_faults`, which grpcio counts for
its process, is in meshes of its own.
"""

from __future__ import annotations

from random import Random
from typing import Any

from trxds.testing import resources as xds

_FAULT = "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault"
DELAY = 1.5
SHORT_DELAY = 0.6
NUMBERS = ("0", "1", "5", "14", "16", "17", "99", "-1", "", "x", "+5", "1.5", "0x5", "007", "4294967296", "100", "101")


def mesh(draw: Random, number: int, cluster: str) -> list[Any]:
    """The resources of a listener with fault filters, and of its routes, which may override them."""
    names = draw.choice([["f"], ["f"], ["f", "g"]])
    route = xds.route({cluster: 1})
    routes = xds.routes(f"r-{number}", route)
    for scope in (route, routes["virtual_hosts"][0], *route["route"]["weighted_clusters"]["clusters"]):
        if draw.random() < 0.25:
            scope["typed_per_filter_config"] = {draw.choice(names): {"@type": _FAULT, **fault(draw)}}
    filters = [{"name": name, "typed_config": {"@type": _FAULT, **fault(draw)}} for name in names]
    return [xds.listener(f"case-{number}", routes=f"r-{number}", filters=filters), routes]


def fault(draw: Random) -> dict[str, Any]:
    """A configuration of the filter."""
    made: dict[str, Any] = {}
    if draw.random() < 0.5:
        kind = draw.choice([{"fixed_delay": f"{DELAY}s"}, {"fixed_delay": "0s"}, {"header_delay": {}}])
        made["delay"] = {**kind, "percentage": _percentage(draw)}
    if draw.random() < 0.7:
        codes = [{"grpc_status": draw.choice([0, 1, 5, 14, 16])}, {"http_status": draw.choice([200, 404, 503, 418])}]
        made["abort"] = {**draw.choice([*codes, {"header_abort": {}}]), "percentage": _percentage(draw)}
    return made


def limited_mesh(draw: Random, number: int, cluster: str) -> list[Any]:
    """The resources of a listener of which only so many calls at once are delayed."""
    delay = {"fixed_delay": f"{SHORT_DELAY}s", "percentage": {"numerator": 100}}
    most = draw.choice([0, 1, 2, 3, 5])
    filters = [{"name": "f", "typed_config": {"@type": _FAULT, "delay": delay, "max_active_faults": most}}]
    routes = xds.routes(f"r-{number}", xds.route(cluster))
    return [xds.listener(f"case-{number}", routes=f"r-{number}", filters=filters), routes]


def _percentage(draw: Random) -> dict[str, Any]:
    denominator, whole = draw.choice([("HUNDRED", 100), ("TEN_THOUSAND", 10_000), ("MILLION", 1_000_000)])
    return {"numerator": draw.choice([0, whole, whole, whole, 2 * whole]), "denominator": denominator}


def headers(draw: Random) -> list[tuple[str, str]]:
    """What a call asks for."""
    made = []
    if draw.random() < 0.6:
        made.append(("x-envoy-fault-abort-grpc-request", draw.choice(NUMBERS)))
    if draw.random() < 0.4:
        made.append(("x-envoy-fault-delay-request", draw.choice(["0", "1500", "1500", "-1500", "x", ""])))
    for name in ("x-envoy-fault-abort-percentage", "x-envoy-fault-delay-request-percentage"):
        if draw.random() < 0.2:
            made.append((name, draw.choice(["0", "0", "100", "1000000", "-1", "x", ""])))
    return made
