"""A host says on its connection whether it takes calls, by the Watch call of grpc.health.v1 (A17)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import Protocol

import trio
from msgspec import Struct

from trxds.core.backoff import RestartBackoff
from trxds.core.metadata import Headers
from trxds.core.status import OK, Status, StatusCode, unavailable

from .connection import Connection
from .request import Request
from .streaming_calls import listen

_log = logging.getLogger("trxds.transport")

PATH = "/grpc.health.v1.Health/Watch"
_SERVING = 1
_STATUS_NAMES = {0: "UNKNOWN", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}


class WatchedHost(Protocol):
    """What the metadata of a Watch call may depend on: a token is sent over TLS only."""

    @property
    def address(self) -> str: ...
    @property
    def secure(self) -> bool: ...


class HealthCheck(Struct, frozen=True):
    """What a channel asks each of its hosts (A17).

    `service` is the name in the request; empty stands for the whole server. `authority` is the channel's. `metadata`
    returns the header fields of the channel's call credentials, or the status with which the call fails.
    """

    service: str
    authority: str
    metadata: Callable[[WatchedHost], Awaitable[Headers | Status]]
    random: Random


async def watch_health(
    check: HealthCheck, host: WatchedHost, connection: Connection, on_health: Callable[[Status], None]
) -> None:
    """Pass each health of the host to `on_health`, OK or why not, for as long as its connection takes calls."""
    # Imported late: a channel without health checks does not need protobuf.
    from google.protobuf.wrappers_pb2 import StringValue

    request = StringValue(value=check.service).SerializeToString()
    backoff = RestartBackoff(check.random)

    def on_message(message: bytes) -> None:
        backoff.was_answered = True
        on_health(_health_in(message, check.service, host.address))

    while True:
        metadata = await check.metadata(host)
        if isinstance(metadata, Status):
            status: Status | None = metadata
        else:
            stream = connection.open_stream(Request(PATH, check.authority, metadata))
            status = await listen(stream, request, on_message) if stream is not None else None
        if status is None:
            return
        # Of the host, not of the function that gives the credentials.
        if status.code is StatusCode.UNIMPLEMENTED and status is not metadata:
            # A17: as if there were no health checks.
            _log.error("%s: has no grpc.health.v1 service, so it counts as healthy; serve it there", host.address)
            on_health(OK)
            return
        how = "ended with OK; a server keeps it open" if status.code is StatusCode.OK else f"failed: {status}"
        on_health(unavailable(f"{host.address}: its health check {how}"))
        await trio.sleep(backoff.next())


def _health_in(message: bytes, service: str, address: str) -> Status:
    """Return the health in a HealthCheckResponse."""
    from google.protobuf.message import DecodeError
    from google.protobuf.wrappers_pb2 import Int32Value

    try:
        # One enum is the whole message, so on the wire it is an Int32Value.
        health = Int32Value.FromString(message).value
    except DecodeError:
        return unavailable(f"{address}: its health check sent no HealthCheckResponse")
    name = _STATUS_NAMES.get(health, str(health))
    text = f"{address}: says {name} for service {service!r} in its health check"
    return OK if health == _SERVING else unavailable(text)
