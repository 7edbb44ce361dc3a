"""A session cookie is written in gRPC's form, and read in all forms that gRPC or Envoy write (A55, A60, A61).

We write base64 of `addr[,addr...];cluster`, the form of the C++ client, and of a bare address for a target without a
control plane, which has no clusters. We read these forms, those of A60's text (`cluster:` before the name, or the name
in quotes), Envoy's protobuf form, and any of them in double quotes. A cookie of the same name may come from anywhere
and must not cost time or memory, so cookies are read up to the size that browsers keep.
"""

from __future__ import annotations

import base64
import math
import re

from msgspec import Struct, structs

from trxds.resources.address import address_text
from trxds.resources.stateful_session import CookieConfig

MAX_SIZE = 4096  # characters of a value; browsers keep 4096 bytes of a cookie with its name (RFC 6265 §6.1)
MAX_HOSTS = 32  # addresses of one endpoint that a cookie can name; endpoints have one or two (A61)
NO_ADDRESS = "(no address)"


class SessionCookie(Struct, frozen=True):
    """The contents of a session cookie: `addresses` and `cluster` as the cookie has them, or empty.

    Both may be any text, also another program's secret, so logs and errors show `hosts`. `expires` is in seconds on
    the wall clock; only Envoy's form has it.
    """

    addresses: str
    cluster: str = ""
    expires: float = math.inf
    hosts: tuple[str, ...] = ()
    """The first `MAX_HOSTS` addresses, with `NO_ADDRESS`, which no endpoint has, in place of any other text."""

    clusters: tuple[str, ...] = ()
    """The clusters that `cluster` may name, the likeliest first."""

    def __post_init__(self) -> None:
        parts = self.addresses.split(",", MAX_HOSTS)[:MAX_HOSTS] if self.addresses else ()
        structs.force_setattr(self, "hosts", tuple([each if _is_address(each) else NO_ADDRESS for each in parts]))
        structs.force_setattr(self, "clusters", possible_names(self.cluster))

    @property
    def is_list_of_hosts(self) -> bool:
        """Return whether there are addresses, and each is an `ip:port`, as A55 demands, or a socket of this machine."""
        return bool(self.hosts) and NO_ADDRESS not in self.hosts

    @property
    def names_host(self) -> bool:
        """Return whether an RPC may use any of the hosts; it passes over the texts that are no addresses."""
        return any(each != NO_ADDRESS for each in self.hosts)

    def __repr__(self) -> str:
        cluster = self.cluster if self.is_list_of_hosts else "not shown"
        return f"<SessionCookie {', '.join(self.hosts) or 'of no hosts'}; {cluster or 'no cluster'}>"


# The pattern also bounds the zone of an IPv6 address, which could otherwise be any text.
_ADDRESS_PATTERN = re.compile(r"\[?[0-9A-Fa-f:.]+(?:%[0-9A-Za-z_.-]{1,15})?\]?:[0-9]{1,5}")
_SOCKET_PATTERN = re.compile(r"unix(?:-abstract)?:[^,;]{1,108}")  # Linux bounds the path, in bytes
_CLUSTER_PREFIX = "cluster:"  # A60's text has this prefix before the name


def encode(addresses: str, cluster: str) -> str:
    """Return the cookie's value in gRPC's form (A60); without a cluster in A55's, which Envoy reads too."""
    return encode_base64(f"{addresses};{cluster}" if cluster else addresses)


def limit_addresses(addresses: str) -> str:
    """Return the first `MAX_HOSTS` addresses: more would not be read."""
    return addresses if addresses.count(",") < MAX_HOSTS else ",".join(addresses.split(",")[:MAX_HOSTS])


def possible_names(cluster: str) -> tuple[str, ...]:
    """Return the names that the text may stand for; itself first, as a name may have quotes or the prefix (A60)."""
    bare = cluster.removeprefix(_CLUSTER_PREFIX)
    unquoted = bare[1:-1] if len(bare) > 1 and bare[0] == bare[-1] == '"' else bare
    return tuple(dict.fromkeys((cluster, bare, unquoted)))


def encode_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")


def decode(value: str) -> SessionCookie | None:
    """Decode a cookie's value; return None if it is no session cookie."""
    # Before any decoding: a huge cookie must cost nothing.
    if len(value) > MAX_SIZE:
        return None
    data = _decode_base64(value.strip().strip('"'))
    if data is None:
        return None
    envoy = _decode_envoy(data)
    if envoy is not None:
        address, expires = envoy
        return SessionCookie(address, expires=expires or math.inf)
    # No check of the addresses here: the cluster of a cookie counts even if its hosts do not, and the other way round.
    addresses, _, cluster = data.decode("utf-8", "replace").partition(";")
    return SessionCookie(addresses, cluster)


def decode_hosts(value: str) -> SessionCookie | None:
    """Decode a cookie's value that names hosts and nothing else; return None for any other, an application's own."""
    held = decode(value)
    return held if held is not None and held.is_list_of_hosts else None


def is_socket(text: str) -> bool:
    """Return whether a cookie can have this address of a `unix:` or `unix-abstract:` target."""
    # Printable, because hosts of cookies are shown.
    return bool(_SOCKET_PATTERN.fullmatch(text)) and text.isprintable()


def _is_address(text: str) -> bool:
    if not _ADDRESS_PATTERN.fullmatch(text):
        return is_socket(text)
    ip, _, port = text.rpartition(":")
    if ip.startswith("[") != ip.endswith("]") or (":" in ip) != ip.startswith("["):
        return False
    return address_text(ip.strip("[]"), int(port)) is not None and int(port) <= 65535


def _decode_base64(text: str) -> bytes | None:
    """Decode base64 of the standard alphabet, with correct padding or none; return None if it is invalid."""
    missing = -len(text) % 4 if not text.endswith("=") else 0
    try:
        return base64.b64decode(text + "=" * missing, validate=True) or None
    except ValueError:  # binascii.Error is one
        return None


# -- Envoy's private message: `string address = 1; uint64 expires = 2` (epoch seconds, 0 for never)

_ADDRESS, _EXPIRES = 0x0A, 0x10
_VARINT_SIZE = 10  # bytes at most, for 64 bits


def _decode_envoy(data: bytes) -> tuple[str, int] | None:
    """Return address and expiry of Envoy's message, or None for other data: no address begins like such a message."""
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


def find_cookie(header: str, name: str) -> str | None:
    """Return the first cookie of that name in a `cookie` header."""
    # Not `http.cookies`, which rejects a header for one cookie that it cannot parse.
    for part in header.split(";"):
        key, equals, value = part.partition("=")
        if equals and key.strip() == name:
            return value.strip()
    return None


def path_matches(prefix: str, path: str) -> bool:
    """Return whether `prefix` matches the RPC's `:path` by RFC 6265 §5.1.4; the empty prefix matches all paths."""
    if not path.startswith(prefix):
        return False
    return not prefix or len(path) == len(prefix) or prefix.endswith("/") or path[len(prefix)] == "/"


def set_cookie_header(config: CookieConfig, value: str) -> str:
    """Return the Set-Cookie header, its attributes in the order of other gRPC clients (A55)."""
    path = f"; Path={config.path}" if config.path else ""
    # Max-Age has whole seconds (RFC 6265). Without it a browser keeps the cookie until it is closed.
    # A ttl below a second becomes 0, which deletes the cookie at once, as in the C++ client.
    age = f"; Max-Age={int(config.ttl)}" if config.ttl > 0 else ""
    return f"{config.name}={value}; HttpOnly{path}{age}"
