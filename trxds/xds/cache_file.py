"""The resource cache as bytes: the last accepted resources of one xDS client, with a checksum and a version.

The first line has the format's version and the checksum of the rest; each other line is a resource in JSON. It has the
bytes that a server sent: whoever reads the file parses and validates them again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct, field

from .bootstrap import Bootstrap
from .discovery_response import Raw

_FORMAT = "trxds xDS resource cache"
_VERSION = 1

Seconds: TypeAlias = Annotated[float, Meta(ge=0, lt=253402300800)]
"""A time in seconds since 1970, before the year 10000: no calendar has a later one."""


class CachedResource(Struct, frozen=True):
    """One resource as `server` sent it. `current_at` is the last time at which it was in use while its server answered.

    These are the members of a line of the file; the value's bytes are base64 there.
    """

    name: str
    type_url: str = field(name="type")
    value: bytes
    version: str
    server: str
    accepted_at: Seconds
    current_at: Seconds

    @property
    def raw(self) -> Raw:
        return self.type_url, self.value


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
    body = b"".join(msgspec.json.encode(each) + b"\n" for each in resources)
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
        return [msgspec.json.decode(each, type=CachedResource) for each in body.splitlines()]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:  # a checksum is no signature
        raise DamagedCacheError(f"it has another form: {type(error).__name__}") from error
