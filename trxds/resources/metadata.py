"""Typed metadata of resources (A83): the HTTP CONNECT proxy of an endpoint, or of all endpoints of a locality (A86)."""

from __future__ import annotations

from typing import Any

from . import protos
from .address import check_address, parse_address
from .extension import Extension, unpack
from .validation_errors import ValidationErrors

PROXY_ADDRESS = "envoy.http11_proxy_transport_socket.proxy_address"
_ADDRESS = "envoy.config.core.v3.Address"


def parse_proxy_address(parent: Any, problems: ValidationErrors) -> str:
    """Return the proxy's address in the metadata of `parent`; empty if the key is absent or has another type (A86).

    A value of another type is left out (A83): it is for other clients. Addresses are checked under every key.
    """
    proxy = ""
    for key in sorted(parent.metadata.typed_filter_metadata):
        at = problems.at(f"metadata.typed_filter_metadata[{key}]")
        extension = unpack(parent.metadata.typed_filter_metadata[key], at)
        if extension is not None and extension.type_name == _ADDRESS:
            address = _parse_address(extension)
            if key == PROXY_ADDRESS:
                proxy = address
    return proxy


def _parse_address(extension: Extension) -> str:
    message = extension.parse(protos.Address, "could not parse")
    if message is None:
        return ""
    at = extension.problems.at("socket_address")
    if message.HasField("socket_address") and not at.has_field(message.socket_address, "port_value"):
        return ""
    text = parse_address(message)
    if text is None:
        check_address(message, extension.problems)
    return text or ""
