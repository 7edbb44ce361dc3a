"""Resources that name the HTTP CONNECT proxy of each endpoint (A86)."""

from __future__ import annotations

KEY = "envoy.http11_proxy_transport_socket.proxy_address"
ADDRESS = "envoy.config.core.v3.Address"
SOCKETS = "envoy.extensions.transport_sockets"
PROXY, TLS = f"{SOCKETS}.http_11_proxy.v3.Http11ProxyUpstreamTransport", f"{SOCKETS}.tls.v3.UpstreamTlsContext"
TYPE = "type.googleapis.com/"


def wrapper(inner=None):
    """The transport socket of a proxy, around another one or none."""
    around = {} if inner is None else {"transport_socket": {"name": "inner", "typed_config": inner}}
    return {"name": "proxy", "typed_config": {"@type": TYPE + PROXY, **around}}


def tls(roots="mesh"):
    validation = {"ca_certificate_provider_instance": {"instance_name": roots}}
    return {"@type": TYPE + TLS, "common_tls_context": {"validation_context": validation}}


def proxied_by(address, key=KEY, **fields):
    """The metadata that names the proxy."""
    host, _, port = address.rpartition(":")
    value = {"socket_address": {"address": host.strip("[]"), "port_value": int(port), **fields}}
    return {"typed_filter_metadata": {key: {"@type": TYPE + ADDRESS, **value}}}
