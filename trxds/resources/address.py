"""Addresses as trxds writes them everywhere, the session cookie included: `10.0.0.1:443`, `[::1]:443` (A27, A55)."""

from __future__ import annotations

import socket
from typing import Any

from .validation_errors import ValidationErrors

MAX_PORT = 65535


def address_text(ip: str, port: int) -> str | None:
    """Return the text of an address; None if `ip` is no IP address but, for example, a host name.

    An address has one text, whatever its spelling in the resource: texts are compared.
    """
    try:
        # `ipaddress` takes about twenty times as long, and there may be ten thousand endpoints.
        socket.inet_pton(socket.AF_INET, ip)
        return f"{ip}:{port}"  # inet_pton takes no other spelling of an IPv4 address
    except (OSError, ValueError):
        pass
    # A link-local address may have a zone ("fe80::1%eth0"), which inet_pton does not parse.
    literal, percent, zone = ip.partition("%")
    try:
        ipv6 = socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, literal))
    except (OSError, ValueError):
        return None
    return f"[{ipv6}{percent}{zone}]:{port}"


def parse_address(message: Any) -> str | None:
    """Return the text of an envoy.config.core.v3.Address; None if `check_address` finds an error.

    Fields that are not set read as empty, and an empty text is no address, so a valid address costs no further check.
    """
    address = message.socket_address
    port = address.port_value
    return address_text(address.address, port) if port <= MAX_PORT else None


def check_address(message: Any, problems: ValidationErrors) -> None:
    """Note the errors of an address."""
    if not problems.has_field(message, "socket_address"):
        return
    address, at = message.socket_address, problems.at("socket_address")
    if address.port_value > MAX_PORT:
        at.at("port_value").add("invalid port")
    elif parse_address(message) is None:
        # A27, A86: it must be an IP address. A name has to be resolved, and LOGICAL_DNS is for that.
        at.add(f"Failed to parse address:{address.address}:{address.port_value}")
