"""What a session cookie says: the text that gRPC writes, and all that gRPC or Envoy may have written.

We write base64 of `addr[,addr...];cluster`, the form of the C++ client. We read that, the
forms in A60's text (`cluster:` before the name, or the name in quotes), a bare address, Envoy's
protobuf form, and any of them in double quotes.
"""

from __future__ import annotations

import base64
import binascii
import math
from dataclasses import dataclass, field

from trxds.resources.address import address_text
from trxds.resources.filters import CookieConfig


@dataclass(frozen=True, slots=True)
class SessionCookie:
    """`addresses` is the list as it stood in the cookie; `cluster` is empty where it named none.

    `expires` is by the wall clock, in seconds: only Envoy's form has it.
    """

    addresses: str
    cluster: str = ""
    expires: float = math.inf
    hosts: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The addresses one by one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "hosts", tuple(self.addresses.split(",")) if self.addresses else ())


_CLUSTER = "cluster:"  # A60's text has it before the name


def encode(addresses: str, cluster: str) -> str:
    # A name that itself begins so gets it once more, because reading takes it off.
    prefix = _CLUSTER if cluster.startswith(_CLUSTER) else ""
    return base64_of(f"{addresses};{prefix}{cluster}")


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")


def decode(value: str) -> SessionCookie | None:
    """What a cookie's value says; None if it is none of ours."""
    data = _unbase64(value.strip().strip('"'))
    if data is None:
        return None
    envoy = _decode_envoy(data)
    if envoy is not None:
        address, expires = envoy
        return SessionCookie(address, expires=expires or math.inf)
    try:
        addresses, _, cluster = data.decode("utf-8").partition(";")
    except UnicodeDecodeError:
        return None
    return SessionCookie(addresses, cluster.removeprefix(_CLUSTER).strip('"'))


def names_hosts(addresses: str) -> bool:
    """Every address of the list is an `ip:port`, as A55 demands."""
    return all(map(_is_address, addresses.split(",")))


def _is_address(text: str) -> bool:
    ip, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and len(port) <= 5):
        return False
    if ip.startswith("[") != ip.endswith("]") or (":" in ip) != ip.startswith("["):
        return False
    return address_text(ip.strip("[]"), int(port)) is not None and int(port) <= 65535


def _unbase64(text: str) -> bytes | None:
    """The standard alphabet; padding may be missing, but must be right where it is there."""
    missing = -len(text) % 4 if not text.endswith("=") else 0
    try:
        return base64.b64decode(text + "=" * missing, validate=True) or None
    except (binascii.Error, ValueError):
        return None


# -- Envoy's private message: `string address = 1; uint64 expires = 2` (epoch seconds, 0 for never)

_ADDRESS, _EXPIRES = 0x0A, 0x10


def _decode_envoy(data: bytes) -> tuple[str, int] | None:
    """Address and expiry, or None if this is not that message. No address begins like one."""
    address, expires, at = "", 0, 0
    try:
        while at < len(data):
            key, at = data[at], at + 1
            number, at = _varint(data, at)
            if key == _EXPIRES:
                expires = number
            elif key == _ADDRESS and at + number <= len(data):
                address, at = data[at : at + number].decode("ascii"), at + number
            else:
                return None
    except (IndexError, UnicodeDecodeError):
        return None
    return address, expires


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


# -- headers


def find(header: str, name: str) -> str | None:
    """The first cookie of that name in a `cookie` header."""
    for part in header.split(";"):
        key, equals, value = part.partition("=")
        if equals and key.strip() == name:
            return value.strip()
    return None


def path_matches(prefix: str, path: str) -> bool:
    """RFC 6265 §5.1.4, against the RPC's `:path`; the empty prefix takes all."""
    if not path.startswith(prefix):
        return False
    return not prefix or len(path) == len(prefix) or prefix.endswith("/") or path[len(prefix)] == "/"


def set_cookie(config: CookieConfig, value: str) -> str:
    """The Set-Cookie header, its parts in the order in which other gRPC clients have them."""
    path = f"; Path={config.path}" if config.path else ""
    # Whole seconds, cut off. No Max-Age at all makes a session cookie.
    age = f"; Max-Age={int(config.ttl)}" if config.ttl > 0 else ""
    return f"{config.name}={value}; HttpOnly{path}{age}"
