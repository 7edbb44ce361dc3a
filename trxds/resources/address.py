"""Addresses as trxds writes them everywhere, the cookie included: `10.0.0.1:443`, `[::1]:443`."""

from __future__ import annotations

import socket
from typing import Any

from .problems import Problems

_HIGHEST_PORT = 65535


def address_text(ip: str, port: int) -> str | None:
    """None when `ip` is no IP address, but the name of a host, say.

    One address has one text, whatever its spelling in the resource: texts are compared.
    """
    try:
        socket.inet_pton(socket.AF_INET, ip)
        return f"{ip}:{port}"  # its only spelling
    except (OSError, ValueError):
        pass
    literal, percent, zone = ip.partition("%")
    try:
        ipv6 = socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, literal))
    except (OSError, ValueError):
        return None
    return f"[{ipv6}{percent}{zone}]:{port}"


def parse_address(parent: Any, problems: Problems, path: str = "address") -> str | None:
    """The envoy.config.core.v3.Address in `parent.address`; `path` is how it is called from `problems`."""
    if not parent.HasField("address"):
        problems.at(path).add("field not present")
        return None
    if not parent.address.HasField("socket_address"):
        problems.at(f"{path}.socket_address").add("field not present")
        return None
    address = parent.address.socket_address
    if address.port_value > _HIGHEST_PORT:
        problems.at(f"{path}.socket_address.port_value").add("invalid port")
        return None
    text = address_text(address.address, address.port_value)
    if text is None:
        problems.at(f"{path}.socket_address").add(f"Failed to parse address:{address.address}:{address.port_value}")
    return text
