"""The transport socket of a cluster: TLS (A29), and around it perhaps an HTTP CONNECT proxy (A86)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import protos
from .extension import Extension, extension
from .upstream_tls import UpstreamTls, parse_upstream_tls
from .validation_errors import ValidationErrors

if TYPE_CHECKING:
    from .context import ParseContext


def parse_transport_socket(
    message: Any, context: ParseContext, problems: ValidationErrors
) -> tuple[UpstreamTls | None, bool]:
    """Return a cluster's TLS configuration, and whether its endpoints may have HTTP CONNECT proxies.

    TLS is validated even if the channel does not use it (A29). Proxies are used whatever its credentials are
    (A86).
    """
    # A29: not supported. To ignore it could make connections less safe than the control plane means.
    if message.transport_socket_matches:
        problems.at("transport_socket_matches").add("feature unsupported")
    config = _socket(message, problems)
    # A86: without the guard it is refused as any other type.
    if config is None or not context.experiments.http_connect or config.type_name != _PROXY:
        return _tls(config, context), False
    wrapper = config.parse(protos.Http11ProxyUpstreamTransport, "can't decode Http11ProxyUpstreamTransport")
    if wrapper is None:
        return None, True
    return _tls(_socket(wrapper, config.problems), context), True


_PROXY = "envoy.extensions.transport_sockets.http_11_proxy.v3.Http11ProxyUpstreamTransport"


def _socket(parent: Any, problems: ValidationErrors) -> Extension | None:
    if not parent.HasField("transport_socket"):
        return None
    return extension(parent.transport_socket, "typed_config", problems.at("transport_socket"))


def _tls(config: Extension | None, context: ParseContext) -> UpstreamTls | None:
    if config is None:
        return None
    error_texts = "unrecognized transport socket type", "can't decode UpstreamTlsContext"
    parsed = config.parse_only(protos.UpstreamTlsContext, *error_texts)
    return parse_upstream_tls(parsed, context, config.problems) if parsed is not None else None
