"""OpenTelemetry's own conventions for RPCs, which are not gRPC's: the names that its compatibility page gives.

Of the metrics only a call's duration has a counterpart.
"""

from __future__ import annotations

from trxds.config.target import parse_plain
from trxds.wire.connect import split_address

OTHER = "_OTHER"


def call_labels(method: str, target: str) -> dict[str, str | int]:
    """Of a call; `method` as gRPC has it."""
    return {"rpc.system.name": "grpc", "rpc.method": OTHER if method == "other" else method, **server(target)}


def status_labels(code: str) -> dict[str, str]:
    """Of its end; `code` is the name of its status."""
    labels = {"rpc.response.status_code": code}
    return labels if code == "OK" else {**labels, "error.type": code}


def server(target: str) -> dict[str, str | int]:
    """The server's name and port, as the program said them; a target of xDS is a name without a port."""
    plain = parse_plain(target)
    if plain is None:
        return {"server.address": target.rpartition("/")[2]}
    if not plain.name:
        return {"server.address": plain.addresses[0]} if len(plain.addresses) == 1 else {}
    host, port = split_address(plain.name)
    return {"server.address": host, "server.port": port}
