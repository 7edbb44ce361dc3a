"""The health service (grpc.health.v1) of a program that is a client: SERVING for as long as it answers.

Load balancers and orchestrators check it first. The program has no services of its own, so only the empty name, which
stands for the whole server, has a status.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

import trio
from google.protobuf.wrappers_pb2 import Int32Value, StringValue

from trxds.core.status import StatusCode
from trxds.server.handlers import server_streaming, unary
from trxds.server.server_call import Call, Handler

SERVICE = "/grpc.health.v1.Health"

# The messages have one field each: on the wire they are what these are, and nobody else's package is needed.
_parse, _serialize = StringValue.FromString, Int32Value.SerializeToString
_SERVING = Int32Value(value=1)
_SERVICE_UNKNOWN = Int32Value(value=3)


async def _check(service: StringValue, call: Call) -> Int32Value:
    if service.value:
        call.abort(StatusCode.NOT_FOUND, f"no service {service.value!r} here; ask for the empty name")
    return _SERVING


async def _watch(service: StringValue, call: Call) -> AsyncGenerator[Int32Value, None]:
    """Send the status and keep the stream open. A service that is unknown may be added later, says the protocol."""
    yield _SERVICE_UNKNOWN if service.value else _SERVING
    await trio.sleep_forever()


HANDLERS: Mapping[str, Handler] = {
    f"{SERVICE}/Check": unary(_check, _parse, _serialize),
    f"{SERVICE}/Watch": server_streaming(_watch, _parse, _serialize),
}
