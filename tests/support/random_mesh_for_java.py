"""The cases of `random_mesh.py` without what grpc-java does otherwise, by `docs/grfc-map.md`."""

from dataclasses import replace

from .random_mesh import CLUSTERS

# A route that no call has: without a cluster grpc-java's calls end with INTERNAL, whatever the routes say.
_NEVER = {"match": {"path": "/none/Such", "case_sensitive": True}, "route": {"cluster": CLUSTERS[0]}}
# Ends of ranges count there, so none may be a value of a call.
_ENDS = {-5: -4, 1: 2, 5: 6, 7: 8, 10: 11}


def for_grpc_java(case):
    """The case without what grpc-java does otherwise."""
    calls = [{**call, "metadata": [_pair(*pair) for pair in call["metadata"]]} for call in case.calls]
    return replace(case, resources=_made(case.resources), calls=calls)


def _pair(key, value):
    """A number has no blanks there."""
    return key, value if key.endswith("-bin") else value.strip()


_INSTEAD = {
    # It has another engine for regular expressions.
    ("regex", "\\C"): ".",
    # Calls wait for a cluster without a name.
    ("cluster", ""): CLUSTERS[0],
    # It looks at the rest of a route whose path no call can have.
    **{(kind, path): "/x/y" for kind in ("path", "prefix") for path in ("x", "//", "a", "/a/b/c")},
    # Its nanoseconds overflow, and its channel ends.
    **{(key, "315576000000s"): "300s" for key in ("interval", "base_ejection_time", "max_ejection_time")},
    ("interval", "0s"): "1s",
    # It accepts these.
    **{("num_retries", 0): 1, ("header_name", ""): "x", ("category", ""): "a", ("minimum_ring_size", 2**23 + 1): 1024},
    **{(key, "-1s"): "1s" for key in ("max_stream_duration", "grpc_timeout_header_max", "grpc_timeout_header_offset")},
}
# Its channel ends for the first one, and it accepts the next two; with the others the longest pattern wins, not
# the one that begins with a star.
_DOMAINS = {"": "other", "ca*se": "other", "**": "other", "case-*": "c*", "Case-*": "C*"}


def _made(made, within=""):
    if isinstance(made, list):
        return [_made(each, within) for each in made]
    if not isinstance(made, dict):
        return made
    if within == "match":  # what is not said counts as false there
        made = {"case_sensitive": True, **made}
    if within == "range_match":
        end = max(made["end"], made["start"] + 1)
        made = {"start": made["start"], "end": _ENDS.get(end, end)}
    if within == "routes" and "route" not in made:  # it refuses all but this one
        made = {**{key: each for key, each in made.items() if key != "redirect"}, "non_forwarding_action": {}}
    if within == "header" and made.get("regex_rewrite", {}).get("pattern") == {"regex": ""}:
        made = {"header_name": made["header_name"]}
    if within == "routes" and "cluster_header" in made.get("route", {}):  # of which it reads the overrides
        made = {key: value for key, value in made.items() if key != "typed_per_filter_config"}
    if within == "endpoints":  # it accepts those without a locality, and an address that stands twice in one
        endpoints = {str(each["endpoint"]): each for each in made["lb_endpoints"]}
        made = {"locality": {"zone": "none"}, **made, "lb_endpoints": list(endpoints.values())}
    if within == "lb_endpoints" and not made["endpoint"].get("address", {}).get(
        "socket_address"
    ):  # whatever its health
        made = {**made, "health_status": "HEALTHY"}
    if within == "typed_per_filter_config":  # it accepts one without a name
        made = {key: value for key, value in made.items() if key}
    return {key: _value(key, value, within) for key, value in made.items()}


def _value(key, value, within):
    if key == "virtual_hosts":
        return _with_domains(_made(value, key))
    if key == "routes" and isinstance(value, list):
        made = _made(value, key)
        return made if any(map(_has_cluster, made)) else [*made, _NEVER]
    if isinstance(value, dict | list):
        return _made(value, key)
    if key == "name" and within == "clusters":
        return value or CLUSTERS[0]
    return _INSTEAD.get((key, value), value)


def _has_cluster(route):
    is_skipped = "query_parameters" in route.get("match", {}) or "cluster_header" in route.get("route", {})
    return "route" in route and not is_skipped


def _with_domains(hosts):
    """The virtual hosts with domains that stand there once: of two stars the last one counts there."""
    used = set()
    for each in hosts:
        domains = {_DOMAINS.get(domain, domain) for domain in each["domains"]}
        each["domains"] = sorted(domains - used) or ["other"]
        used |= domains - {"other"}
    return hosts
