"""What a session cookie says: the text that gRPC writes, and all that gRPC or Envoy may have written.

We write base64 of `addr[,addr...];cluster`, the form of the C++ client. We read that, the
forms in A60's text (`cluster:` before the name, or the name in quotes), a bare address, Envoy's
protobuf form, and any of them in double quotes. Who sets a cookie of the same name for something else, or
makes one up, must not cost us time or memory, so that cookies are read up to the size that browsers keep.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from dataclasses import dataclass, field

from trxds.resources.address import address_text
from trxds.resources.stateful_session import CookieConfig

MAX_SIZE = 4096  # characters of a value; browsers keep as many bytes of a cookie with its name (RFC 6265 §6.1)
MAX_HOSTS = 32  # addresses of one endpoint that a cookie can name; endpoints have one or two (A61)
NO_ADDRESS = "(no ip:port)"


@dataclass(frozen=True, slots=True)
class SessionCookie:
    """`addresses` and `cluster` as they stood in the cookie; `cluster` is empty where it named none.

    Both may be anything, also another program's secret: logs and errors show `hosts`. `expires` is by the wall clock,
    in seconds: only Envoy's form has it.
    """

    addresses: str
    cluster: str = ""
    expires: float = math.inf
    hosts: tuple[str, ...] = field(init=False, compare=False)
    """The first `MAX_HOSTS` addresses, with `NO_ADDRESS` in place of what is none: no endpoint has such an address."""

    clusters: tuple[str, ...] = field(init=False, compare=False)
    """The names that `cluster` may stand for, the likeliest first."""

    def __post_init__(self) -> None:
        given = self.addresses.split(",", MAX_HOSTS)[:MAX_HOSTS] if self.addresses else ()
        object.__setattr__(self, "hosts", tuple([each if _is_address(each) else NO_ADDRESS for each in given]))
        object.__setattr__(self, "clusters", _names(self.cluster))

    @property
    def is_list_of_hosts(self) -> bool:
        """Every address is an `ip:port`, as A55 demands."""
        return bool(self.hosts) and NO_ADDRESS not in self.hosts

    def __repr__(self) -> str:
        cluster = self.cluster if self.is_list_of_hosts else "not shown"
        return f"<SessionCookie {', '.join(self.hosts) or 'of no hosts'}; {cluster or 'no cluster'}>"


# Also bounds a zone, which could otherwise be any text.
_FORM = re.compile(r"\[?[0-9A-Fa-f:.]+(?:%[0-9A-Za-z_.-]{1,15})?\]?:[0-9]{1,5}")
_CLUSTER = "cluster:"  # A60's text has it before the name


def encode(addresses: str, cluster: str) -> str:
    return base64_of(f"{addresses};{cluster}")


def written(addresses: str) -> str:
    """As many of them as would be read."""
    return addresses if addresses.count(",") < MAX_HOSTS else ",".join(addresses.split(",")[:MAX_HOSTS])


def _names(cluster: str) -> tuple[str, ...]:
    """First the text itself: names may have quotes or begin like the prefix, and we write them as they are (A60)."""
    bare = cluster.removeprefix(_CLUSTER)
    unquoted = bare[1:-1] if len(bare) > 1 and bare[0] == bare[-1] == '"' else bare
    return tuple(dict.fromkeys((cluster, bare, unquoted)))


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")


def decode(value: str) -> SessionCookie | None:
    """What a cookie's value says; None if it is none of ours."""
    if len(value) > MAX_SIZE:
        return None
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
    return SessionCookie(addresses, cluster)


def _is_address(text: str) -> bool:
    if not _FORM.fullmatch(text):
        return False
    ip, _, port = text.rpartition(":")
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
_VARINT_SIZE = 10  # bytes at most, for 64 bits


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
    except (IndexError, ValueError):
        return None
    return address, expires


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * _VARINT_SIZE, 7):
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
    raise ValueError("a varint of more than 64 bits")


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
