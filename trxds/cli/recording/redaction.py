"""Resources in proto-JSON form without credentials, private keys and inline secrets.

What a gRPC client does not read, and what often holds secrets, is left out as a whole: TLS contexts, headers to add,
the configurations of filters that trxds does not know. Of the rest, each field goes whose name speaks of a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from google.protobuf import descriptor_pool, json_format, message_factory

from trxds.resources import protos
from trxds.resources.types import RESOURCE_TYPES
from trxds.testing.canonical_any import nested_anys

_WHOLE = frozenset(
    {
        "transport_socket",
        "transport_socket_matches",
        "request_headers_to_add",
        "response_headers_to_add",
        "initial_metadata",
        "google_grpc",
        "access_log",
    }
)
# In metadata and TypedStructs people name the fields, so also as `apiKey` and `API-KEY`.
_SECRET = re.compile(
    r"passw(or)?d|passphrase|secret|private[_-]?key|token|credential|api[_-]?key|ticket[_-]?keys|^inline[_-]?|jwks|hmac"
    r"|authorization",
    re.IGNORECASE,
)
_SECRET_HEADER = re.compile(r"authorization|cookie|token|secret|api-?key|credential|password", re.IGNORECASE)
_MATCHES = re.compile(r"_match(er)?$")

# The configurations that trxds reads, so what is in them has an effect, and no field for a secret.
_KNOWN = re.compile(
    r"/(envoy\.extensions\.(filters\.http\.(router|fault|stateful_session|rbac)\.|http\.stateful_session\."
    r"|filters\.network\.http_connection_manager\.|load_balancing_policies\.|clusters\.aggregate\.|upstreams\.http\.)"
    r"|envoy\.config\.(cluster|endpoint|listener|route)\.|xds\.type\.v3\.|google\.protobuf\.)"
)

NamedResource: TypeAlias = tuple[str, protos.AnyProto]
"""A resource and the name that it came by, which need not be in it (A47)."""

LEFT_OUT = "left-out"
"""The value in place of one of a header that holds credentials: a route matches no call by it then."""


@dataclass(slots=True)
class Redaction:
    """`resources` in proto-JSON form; `left_out` are the fields that are not in them, each with its resource."""

    resources: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def add(self, name: str, packed: protos.AnyProto) -> None:
        """Add a resource without its secrets."""
        kind = RESOURCE_TYPES[packed.type_url].kind
        known, unknown = _without_unknown(packed)
        # By way of its text, because an Any becomes an OrderedDict, which YAML does not know.
        data = json.loads(json_format.MessageToJson(known, preserving_proto_field_name=True))
        data["cluster_name" if kind == "EDS" else "name"] = name
        found = [*_redact(data, ""), *(f"the content of {type_url}" for type_url in unknown)]
        self.left_out += [f'{kind} resource "{name}": {each}' for each in found]
        self.resources.append(data)


def _without_unknown(packed: protos.AnyProto) -> tuple[protos.AnyProto, list[str]]:
    """Return the Any with an empty TypedStruct for each of a type that nobody here knows, and the types' URLs.

    JSON cannot hold such an Any. A client treats the TypedStruct as it treats the type.
    """
    try:
        descriptor = descriptor_pool.Default().FindMessageTypeByName(packed.type_url.rpartition("/")[2])
    except KeyError:
        return protos.pack(protos.TypedStruct(type_url=packed.type_url)), [packed.type_url]
    message, unknown = message_factory.GetMessageClass(descriptor).FromString(packed.value), []
    for each in nested_anys(message):
        known, found = _without_unknown(each)
        each.CopyFrom(known)
        unknown += found
    return protos.pack(message), unknown


def _redact(data: Any, path: str) -> Iterator[str]:
    """Remove secrets from the data, in place; yield the path of each."""
    if isinstance(data, list):
        for number, value in enumerate(data):
            yield from _redact(value, f"{path}[{number}]")
        return
    if not isinstance(data, dict):
        return
    if _is_header_match(data):
        for key in [key for key in data if _MATCHES.search(key)]:
            yield _below(path, key)
            del data[key]
        # Matches of query parameters and cookies have it too.
        data["string_match"] = {"exact": LEFT_OUT}
        return
    if "@type" in data and not _KNOWN.search(str(data["@type"])):
        if len(data) > 1:
            yield path
        # Its type alone, because a client accepts or refuses a filter by that.
        for key in [key for key in data if key != "@type"]:
            del data[key]
        return
    for key in list(data):
        if key in _WHOLE or _SECRET.search(key):
            yield _below(path, key)
            del data[key]
        else:
            yield from _redact(data[key], _below(path, key))


def _is_header_match(data: dict[str, Any]) -> bool:
    name = data.get("name")
    return isinstance(name, str) and bool(_SECRET_HEADER.search(name)) and any(map(_MATCHES.search, data))


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
