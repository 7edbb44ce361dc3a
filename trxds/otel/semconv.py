"""OpenTelemetry's own conventions for RPCs, which differ from gRPC's. The names are those of its compatibility page.

Only one metric has a counterpart there: the duration of a call.
"""

from __future__ import annotations

from trxds.resolver.target_uri import is_built_in, parse_non_xds_target
from trxds.transport.connect import split_address

OTHER = "_OTHER"


def call_labels(method: str, target: str) -> dict[str, str | int]:
    """Return the attributes of a call; `method` is its path, `/package.Service/Method`."""
    return {"rpc.system.name": "grpc", "rpc.method": OTHER if method == "other" else method, **server(target)}


def status_labels(code: str) -> dict[str, str]:
    """Return the attributes of a call's end; `code` is the name of its status."""
    labels = {"rpc.response.status_code": code}
    return labels if code == "OK" else {**labels, "error.type": code}


def server(target: str) -> dict[str, str | int]:
    """Return the server's name and port from the canonical target. Of xDS and custom resolvers it is a name only."""
    plain = parse_non_xds_target(target) if is_built_in(target.partition(":")[0].lower()) else None
    if plain is None:
        return {"server.address": target.rpartition("/")[2]}
    if not plain.name:
        return {"server.address": plain.addresses[0]} if len(plain.addresses) == 1 else {}
    host, port = split_address(plain.name)
    return {"server.address": host, "server.port": port}
