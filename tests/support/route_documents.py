"""Documents of RouteConfigurations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trxds.resources.route import Route, RouteConfig

T = "type.googleapis.com/"
ANY_PATH = {"prefix": ""}


def routes(*entries: Mapping[str, Any], **host: Any) -> dict[str, Any]:
    return {"name": "routes", "virtual_hosts": [{"name": "vh", "domains": ["*"], "routes": list(entries), **host}]}


def to(cluster: str = "a", match: Mapping[str, Any] = ANY_PATH, **action: Any) -> dict[str, Any]:
    return {"match": match, "route": {"cluster": cluster, **action}}


def weighted(*clusters: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"match": ANY_PATH, "route": {"weighted_clusters": {"clusters": list(clusters), **more}}}


def only_route(config: object) -> Route:
    assert isinstance(config, RouteConfig)
    (host,) = config.virtual_hosts
    (route,) = host.routes
    return route
