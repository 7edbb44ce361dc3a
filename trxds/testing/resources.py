"""This file makes xDS resources in proto-JSON form with short calls, for tests.

Each function returns a dict that `ManagementServer.put` takes and `trxds plane` reads from YAML, and that a test may
change before it sends it. Defaults are those of common control planes: ADS for every reference, one catch-all virtual
host, round robin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

Resource: TypeAlias = dict[str, Any]

_TYPES = "type.googleapis.com/envoy"
_HTTP = f"{_TYPES}.extensions.filters.http"
_FROM_ADS: Resource = {"ads": {}, "resource_api_version": "V3"}


def listener(name: str, *, routes: str, filters: Iterable[Resource] = ()) -> Resource:
    """Return an API listener with the RouteConfiguration `routes` from RDS; the router filter is added last."""
    return {
        "@type": f"{_TYPES}.config.listener.v3.Listener",
        "name": name,
        "api_listener": {
            "api_listener": {
                "@type": f"{_TYPES}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
                "rds": {"route_config_name": routes, "config_source": _FROM_ADS},
                # A39: the router must be the last filter, or a client NACKs the listener.
                "http_filters": [*filters, _router()],
            }
        },
    }


def _router() -> Resource:
    return {"name": "router", "typed_config": {"@type": f"{_HTTP}.router.v3.Router"}}


def stateful_session(cookie: str = "session", *, path: str = "/", ttl: float | None = None) -> Resource:
    """Return the HTTP filter that pins a session by a cookie (A55); `ttl` is in seconds, None for a session cookie."""
    body: Resource = {"name": cookie, "path": path}
    if ttl is not None:
        body["ttl"] = _duration(ttl)
    state = {"@type": f"{_TYPES}.extensions.http.stateful_session.cookie.v3.CookieBasedSessionState", "cookie": body}
    return {
        "name": "stateful_session",
        "typed_config": {
            "@type": f"{_HTTP}.stateful_session.v3.StatefulSession",
            "session_state": {"name": "envoy.http.stateful_session.cookie", "typed_config": state},
        },
    }


def _duration(seconds: float) -> str:
    return f"{seconds:.9f}s"  # all decimals that proto-JSON has; `:g` would round to six digits


def _several(name: str, texts: Sequence[str]) -> list[str]:
    # A text is a sequence of texts too: its characters.
    if isinstance(texts, str):
        raise TypeError(f"{name} is {texts!r}; it must be a list, as in [{texts!r}]")
    return list(texts)


def routes(name: str, *entries: Resource, domains: Sequence[str] = ("*",)) -> Resource:
    """Return a RouteConfiguration with one virtual host; the first entry that matches is used."""
    return {
        "@type": f"{_TYPES}.config.route.v3.RouteConfiguration",
        "name": name,
        "virtual_hosts": [{"name": name, "domains": _several("domains", domains), "routes": list(entries)}],
    }


def route(to: str | Mapping[str, int], *, prefix: str = "") -> Resource:
    """Return a route entry to one cluster, or to several by weight: `route({"a": 80, "b": 20})`."""
    if isinstance(to, str):
        return {"match": {"prefix": prefix}, "route": {"cluster": to}}
    shares = [{"name": name, "weight": weight} for name, weight in to.items()]
    return {"match": {"prefix": prefix}, "route": {"weighted_clusters": {"clusters": shares}}}


def cluster(
    name: str, *, override_statuses: Sequence[str] | None = None, idle_timeout: float | None = None
) -> Resource:
    """Return an EDS cluster with round robin.

    `override_statuses` are the health statuses in which a cookie still reaches a host ("HEALTHY", "DRAINING", ...;
    A55); `idle_timeout` is the time in seconds for which such a host is kept without calls (A75).
    """
    body: Resource = {
        "@type": f"{_TYPES}.config.cluster.v3.Cluster",
        "name": name,
        "type": "EDS",
        "eds_cluster_config": {"eds_config": _FROM_ADS},
        "lb_policy": "ROUND_ROBIN",
    }
    if override_statuses is not None:
        body["common_lb_config"] = {
            "override_host_status": {"statuses": _several("override_statuses", override_statuses)}
        }
    if idle_timeout is not None:
        options = {"idle_timeout": _duration(idle_timeout)}
        upstream = {"@type": f"{_TYPES}.extensions.upstreams.http.v3.HttpProtocolOptions"}
        body["upstream_config"] = {
            "name": "http",
            "typed_config": {**upstream, "common_http_protocol_options": options},
        }
    return body


def load_reports(*metrics: str) -> Resource:
    """Return the fields with which a cluster's load is reported, with these custom metrics of its hosts (LRS, A85).

    `cluster("c") | load_reports("cpu_utilization", "named_metrics.*")`
    """
    return {"lrs_server": {"self": {}}, "lrs_report_endpoint_metrics": list(metrics)}


def custom_policy(name: str, **fields: Any) -> Resource:
    """Return the fields with which a cluster uses a custom policy of the client (A52).

    `cluster("c") | custom_policy("my.pkg.Policy", header="tenant")`
    """
    config = {"name": name, "typed_config": typed_struct(name, **fields)}
    return {"load_balancing_policy": {"policies": [{"typed_extension_config": config}]}}


def custom_filter(name: str, type_name: str, /, **fields: Any) -> Resource:
    """Return a listener's entry of a custom HTTP filter of the client: `name` is the entry's, and overrides use it.

    `listener("shop", routes="r", filters=[custom_filter("tenant", "my.pkg.Tenant", header="x-tenant")])`
    """
    return {"name": name, "typed_config": typed_struct(type_name, **fields)}


def filter_overrides(**overrides: Resource) -> Resource:
    """Return the field with which a virtual host, a route or a weighted cluster overrides filters, by their names.

    `route("c") | filter_overrides(tenant=typed_struct("my.pkg.Tenant", header="x-shop"))`
    """
    return {"typed_per_filter_config": overrides}


def typed_struct(type_name: str, /, **fields: Any) -> Resource:
    """Return a configuration of that type in the form that needs no compiled message (`xds.type.v3.TypedStruct`)."""
    any_type = "type.googleapis.com/"
    return {"@type": f"{any_type}xds.type.v3.TypedStruct", "type_url": f"{any_type}{type_name}", "value": fields}


def aggregate(name: str, *clusters: str, lb_policy: str = "CLUSTER_PROVIDED") -> Resource:
    """Return an aggregate cluster of these clusters, the most preferred first (A37)."""
    return {
        "@type": f"{_TYPES}.config.cluster.v3.Cluster",
        "name": name,
        "cluster_type": {
            "name": "envoy.clusters.aggregate",
            "typed_config": {
                "@type": f"{_TYPES}.extensions.clusters.aggregate.v3.ClusterConfig",
                "clusters": list(clusters),
            },
        },
        "lb_policy": lb_policy,
    }


def logical_dns(name: str, host: str, port: int) -> Resource:
    """Return a LOGICAL_DNS cluster: one endpoint, with the addresses of `host` in DNS (A37)."""
    where = {"address": host, "port_value": port}
    return {
        "@type": f"{_TYPES}.config.cluster.v3.Cluster",
        "name": name,
        "type": "LOGICAL_DNS",
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": {"socket_address": where}}}]}],
        },
    }


def endpoints(cluster_name: str, *localities: Resource) -> Resource:
    """Return the ClusterLoadAssignment of a cluster."""
    return {
        "@type": f"{_TYPES}.config.endpoint.v3.ClusterLoadAssignment",
        "cluster_name": cluster_name,
        "endpoints": list(localities),
    }


def locality(
    *addresses: str, zone: str = "a", priority: int = 0, weight: int = 1, health: Mapping[str, str] | None = None
) -> Resource:
    """Return a locality of endpoints at "host:port"; those that `health` does not name are HEALTHY.

    Several localities may share one `health`. `ValueError` for an address of another form.
    """
    states = health or {}
    for address in addresses:
        if not isinstance(address, str):
            raise TypeError(f"{address!r} is no address of an endpoint; write texts, as in locality(*addresses)")
    return {
        "locality": {"zone": zone},
        "priority": priority,
        # EDS ignores a locality without a weight (A27).
        "load_balancing_weight": weight,
        "lb_endpoints": [_endpoint(address, states.get(address, "HEALTHY")) for address in addresses],
    }


def _endpoint(address: str, health: str) -> Resource:
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal()):
        raise ValueError(f"{address!r} is no address of an endpoint; write host:port or [v6]:port")
    where = {"address": host.strip("[]"), "port_value": int(port)}
    return {"health_status": health, "endpoint": {"address": {"socket_address": where}}}


def bootstrap(*servers: str, node: str = "trxds-test", features: Sequence[str] = ("xds_v3",)) -> Resource:
    """Return the bootstrap of a client of the ADS servers at these addresses, "host:port", without TLS.

    The first server is used, and the next ones if it cannot be reached (A71).
    """
    return {
        "xds_servers": [
            {
                "server_uri": server,
                "channel_creds": [{"type": "insecure"}],
                "server_features": _several("features", features),
            }
            for server in servers
        ],
        "node": {"id": node},
    }
