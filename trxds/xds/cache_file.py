"""The resource cache as bytes: the last accepted resources of one xDS client, with a checksum and a version.

The first line has the format's version and the checksum of the rest; each other line is a resource in JSON. It has the
bytes that a server sent: whoever reads the file parses and validates them again.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from msgspec import Struct

from .bootstrap import Bootstrap
from .discovery_response import Raw

_FORMAT = "trxds xDS resource cache"
_VERSION = 1
_YEAR_10000 = 253402300800.0  # seconds since 1970


class CachedResource(Struct, frozen=True):
    """One resource as `server` sent it. Times are in seconds since 1970.

    `current_at` is the last time at which the resource was in use while its server answered.
    """

    name: str
    raw: Raw
    version: str
    server: str
    accepted_at: float
    current_at: float


class DamagedCacheError(Exception):
    """The bytes are no cache that this version of trxds can read."""


def cache_key(bootstrap: Bootstrap, target: str) -> str:
    """Return the name of the cache of a target: another for other servers, another node, or another target."""
    servers = {name: [each.uri for each in found.servers] for name, found in sorted(bootstrap.authorities.items())}
    identity = [target, bootstrap.node.id, bootstrap.node.cluster, [each.uri for each in bootstrap.servers], servers]
    return sha256(json.dumps(identity).encode()).hexdigest()[:32]


def encode_cache(resources: Iterable[CachedResource]) -> bytes:
    """Return the file's content."""
    # One by one: a thread that encodes ten thousand at once holds up all others.
    body = "".join(f"{_encode(each)}\n" for each in resources).encode()
    return f"{_FORMAT} {_VERSION} {sha256(body).hexdigest()}\n".encode() + body


def decode_cache(data: bytes) -> list[CachedResource]:
    """Return the resources of a file; `DamagedCacheError` says why there are none."""
    head, _, body = data.partition(b"\n")
    words = head.decode("utf-8", "replace").rsplit(" ", 2)
    if len(words) != 3 or words[0] != _FORMAT:
        raise DamagedCacheError("it is no resource cache")
    if words[1] != str(_VERSION):
        raise DamagedCacheError(f"it has version {words[1]:.20} of the format, and this trxds reads version {_VERSION}")
    if words[2] != sha256(body).hexdigest():
        raise DamagedCacheError("its checksum is wrong")
    try:
        return [_decode(json.loads(each)) for each in body.splitlines()]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:  # a checksum is no signature
        raise DamagedCacheError(f"it has another form: {type(error).__name__}") from error


def _encode(resource: CachedResource) -> str:
    type_url, value = resource.raw
    row = {
        "type": type_url,
        "name": resource.name,
        "version": resource.version,
        "server": resource.server,
        "accepted_at": resource.accepted_at,
        "current_at": resource.current_at,
        "value": b64encode(value).decode("ascii"),
    }
    return json.dumps(row, separators=(",", ":"))


def _decode(row: dict[str, Any]) -> CachedResource:
    texts = [row[name] for name in ("name", "type", "version", "server", "value")]
    if not all(isinstance(each, str) for each in texts):
        raise TypeError
    for each in texts:
        each.encode()  # JSON can have half a surrogate pair, which no message and no log takes
    name, type_url, version, server, value = texts
    times = float(row["accepted_at"]), float(row["current_at"])
    if not all(0 <= each < _YEAR_10000 for each in times):
        raise ValueError("a time that no calendar has")
    return CachedResource(name, (type_url, b64decode(value, validate=True)), version, server, *times)
