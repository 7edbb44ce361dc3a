"""Random rules by which an xDS server takes calls: its routes and its RBAC filters (A36, A41), and calls to it."""

from __future__ import annotations

from random import Random
from typing import Any

from envoy.config.listener.v3.listener_pb2 import Listener
from envoy.extensions.filters.http.rbac.v3 import rbac_pb2
from envoy.extensions.filters.http.router.v3 import router_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2
from envoy.extensions.transport_sockets.tls.v3 import tls_pb2
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message

from trxds.resources import protos

_FILTERS = "type.googleapis.com/envoy.extensions.filters."
_NEEDED = (rbac_pb2, router_pb2, http_connection_manager_pb2, tls_pb2)  # whose messages are in an Any
METHODS = ("a.B/C", "x.Y/z")
VALUES = ("1", "abc", "xabcx", "")
NAMES = ("client-a", "client-b")
"""Of the certificates of clients."""


def listener(draw: Random, name: str, tls: dict[str, Any] | None) -> Any:
    """The listener of a server at any port, with this DownstreamTlsContext."""
    rules = [
        {"name": f"rbac-{number}", "typed_config": {"@type": f"{_FILTERS}http.rbac.v3.RBAC", "rules": _rules(draw)}}
        for number in range(draw.choice([0, 1, 1, 2]))
    ]
    router = {"name": "router", "typed_config": {"@type": f"{_FILTERS}http.router.v3.Router"}}
    matches = [_match(draw) for _ in range(draw.choice([1, 2]))]
    if draw.random() < 0.6:
        matches.append({"prefix": ""})
    # Two equal routes end the server.
    different = [each for number, each in enumerate(matches) if each not in matches[:number]]
    routes = [{"match": each, "non_forwarding_action": {}} for each in different]
    manager = {
        "@type": f"{_FILTERS}network.http_connection_manager.v3.HttpConnectionManager",
        "route_config": {"name": "r", "virtual_hosts": [{"name": "v", "domains": ["*"], "routes": routes}]},
        "http_filters": [*rules, router],
    }
    chain: dict[str, Any] = {"filters": [{"name": "manager", "typed_config": manager}]}
    if tls is not None:
        context = {"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext", **tls}
        chain["transport_socket"] = {"name": "envoy.transport_sockets.tls", "typed_config": context}
    made: Message = ParseDict(
        {
            "name": name,
            "address": {"socket_address": {"address": "0.0.0.0", "port_value": 0}},
            "filter_chains": [chain],
        },
        Listener(),
    )
    return protos.AnyProto(type_url=f"type.googleapis.com/{made.DESCRIPTOR.full_name}", value=made.SerializeToString())


def call(draw: Random) -> dict[str, Any]:
    metadata = [(key, draw.choice(VALUES)) for key in ("x-a", "x-b") for _ in range(draw.choice([0, 1, 1, 2]))]
    return {"path": f"/{draw.choice(METHODS)}", "metadata": metadata, "timeout": 60, "wait_for_ready": True}


def _match(draw: Random) -> dict[str, Any]:
    where = draw.choice([{"path": "/a.B/C"}, {"prefix": "/a.B/"}, {"prefix": "/x"}, {"prefix": ""}])
    return {**where, "headers": [_header(draw)] if draw.random() < 0.4 else [], "case_sensitive": True}


def _header(draw: Random) -> dict[str, Any]:
    value = draw.choice(VALUES[:3])
    kinds = [{"string_match": {kind: value}} for kind in ("exact", "prefix", "suffix", "contains")]
    regex = {"string_match": {"safe_regex": {"regex": f".*{value}"}}}
    made = draw.choice([*kinds, regex, {"present_match": True}, {"present_match": False}])
    return {"name": draw.choice(["x-a", "x-b"]), "invert_match": draw.random() < 0.2, **made}


def _rules(draw: Random) -> dict[str, Any]:
    policies = {
        f"p{number}": {
            "permissions": [_permission(draw) for _ in range(draw.choice([1, 1, 2]))],
            "principals": [_principal(draw) for _ in range(draw.choice([1, 1, 2]))],
        }
        for number in range(draw.choice([1, 2]))
    }
    return {"action": draw.choice(["ALLOW", "ALLOW", "DENY"]), "policies": policies}


def _permission(draw: Random, depth: int = 0) -> dict[str, Any]:
    path = draw.choice([{"exact": "/a.B/C"}, {"prefix": "/x"}, {"suffix": "C"}, {"contains": "Y"}])
    made = [{"any": True}, {"header": _header(draw)}, {"url_path": {"path": path}}]
    if depth < 2:
        some = {"rules": [_permission(draw, depth + 1) for _ in range(2)]}
        made += [{"and_rules": some}, {"or_rules": some}, {"not_rule": _permission(draw, depth + 1)}]
    return draw.choice(made)


def _principal(draw: Random, depth: int = 0) -> dict[str, Any]:
    named = {"principal_name": draw.choice([{"exact": draw.choice(NAMES)}, {"suffix": "-a"}, {"prefix": "client"}])}
    address = {"address_prefix": draw.choice(["127.0.0.0", "10.0.0.0"]), "prefix_len": 8}
    made = [{"any": True}, {"authenticated": named}, {"header": _header(draw)}, {"direct_remote_ip": address}]
    if depth < 2:
        some = {"ids": [_principal(draw, depth + 1) for _ in range(2)]}
        made += [{"and_ids": some}, {"or_ids": some}, {"not_id": _principal(draw, depth + 1)}]
    return draw.choice(made)
