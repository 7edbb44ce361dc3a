"""Typed metadata of resources: values by key, each parsed by its type in a registry (A83, A86)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from . import protos
from .address import MAX_PORT, address_text
from .extension import Extension, unpack
from .validation_errors import ValidationErrors

PROXY_ADDRESS = "envoy.http11_proxy_transport_socket.proxy_address"
"""The key of the HTTP CONNECT proxy of an endpoint, or of all endpoints of a locality (A86)."""


class AddressMetadata(Struct, frozen=True):
    """An envoy.config.core.v3.Address as text: `10.0.0.1:3128`, `[::1]:3128`."""

    text: str


MetadataValue: TypeAlias = AddressMetadata
MetadataType: TypeAlias = Callable[[Extension], MetadataValue | None]


def parse_metadata(message: Any, problems: ValidationErrors) -> Mapping[str, MetadataValue]:
    """Return the values of `typed_filter_metadata` by key; `problems` is at the Metadata.

    A value of a type that is not registered is left out (A83): it is for other clients.
    """
    found: dict[str, MetadataValue] = {}
    for key in sorted(message.typed_filter_metadata):
        extension = unpack(message.typed_filter_metadata[key], problems.at(f"typed_filter_metadata[{key}]"))
        if extension is None or extension.type_name not in _TYPES:
            continue
        value = _TYPES[extension.type_name](extension)
        if value is not None:
            found[key] = value
    return found


def proxy_address(metadata: Mapping[str, MetadataValue]) -> str:
    """Return the address of the proxy; empty if the key is absent or its value has another type (A86)."""
    value = metadata.get(PROXY_ADDRESS)
    return value.text if isinstance(value, AddressMetadata) else ""


def _parse_address(extension: Extension) -> AddressMetadata | None:
    message = extension.parse(protos.Address, "could not parse")
    if message is None:
        return None
    at = extension.problems.at("socket_address")
    if not message.HasField("socket_address"):
        at.add("field not present")
        return None
    address = message.socket_address
    if address.WhichOneof("port_specifier") != "port_value":
        at.at("port_value").add("field not present")
        return None
    if address.port_value > MAX_PORT:
        at.at("port_value").add("invalid port")
        return None
    # A86: an IP address. A name would have to be resolved, for each connection anew.
    text = address_text(address.address, address.port_value)
    if text is None:
        at.add(f"Failed to parse address:{address.address}:{address.port_value}")
        return None
    return AddressMetadata(text)


_TYPES: Mapping[str, MetadataType] = {"envoy.config.core.v3.Address": _parse_address}
