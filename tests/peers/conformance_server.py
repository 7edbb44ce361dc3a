"""trxds.testing.serve as the server under test of connectconformance.

It reads one ServerCompatRequest from stdin, listens as that says, answers with a ServerCompatResponse on stdout, and
serves connectrpc.conformance.v1.ConformanceService until it is terminated. Only gRPC over HTTP/2 is served.
"""

from __future__ import annotations

import base64
import ssl
import sys
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from pathlib import Path
from typing import Any, NoReturn

import trio
from google.rpc import status_pb2

sys.path.insert(0, str(Path(__file__).parents[1]))  # for tests/support

from support.conformance_protos import conformance_protos, read_message, write_message

from trxds import StatusCode
from trxds.testing import Call, serve

PROTOS = conformance_protos()
UNLIMITED = 2**31 - 1


class Conformance:
    """The methods of ConformanceService. Each reply is defined by the request, and echoes what was asked."""

    async def Unary(self, request: Any, call: Call) -> Any:
        return PROTOS.UnaryResponse(payload=await self._only_reply(request.response_definition, call, [request]))

    async def IdempotentUnary(self, request: Any, call: Call) -> Any:
        payload = await self._only_reply(request.response_definition, call, [request])
        return PROTOS.IdempotentUnaryResponse(payload=payload)

    async def ClientStream(self, requests: AsyncIterator[Any], call: Call) -> Any:
        asked = [request async for request in requests]
        definition = asked[0].response_definition if asked else PROTOS.UnaryResponseDefinition()
        return PROTOS.ClientStreamResponse(payload=await self._only_reply(definition, call, asked))

    async def ServerStream(self, request: Any, call: Call) -> AsyncGenerator[Any, None]:
        definition = request.response_definition
        await call.send_initial_metadata(pairs(definition.response_headers))
        call.set_trailing_metadata(pairs(definition.response_trailers))
        for number, data in enumerate(definition.response_data):
            asked = request_info(call, [request]) if number == 0 else None
            await trio.sleep(definition.response_delay_ms / 1000)
            yield PROTOS.ServerStreamResponse(payload=payload_of(data, asked))
        self._end(definition, call, [request])

    async def BidiStream(self, requests: AsyncIterator[Any], call: Call) -> AsyncGenerator[Any, None]:
        asked: list[Any] = []
        definition = PROTOS.StreamResponseDefinition()
        number, full_duplex = 0, False
        async for request in requests:
            asked.append(request)
            if len(asked) == 1 and number == 0:
                definition, full_duplex = request.response_definition, request.full_duplex
                call.set_trailing_metadata(pairs(definition.response_trailers))
                await call.send_initial_metadata(pairs(definition.response_headers))
            if full_duplex:
                if number >= len(definition.response_data):
                    break
                await trio.sleep(definition.response_delay_ms / 1000)
                info = request_info(call, asked) if number == 0 else request_info(None, asked)
                yield PROTOS.BidiStreamResponse(payload=payload_of(definition.response_data[number], info))
                number += 1
                asked.clear()
        for data in definition.response_data[number:]:
            await trio.sleep(definition.response_delay_ms / 1000)
            yield PROTOS.BidiStreamResponse(payload=payload_of(data, request_info(call, asked) if not number else None))
            number += 1
        self._end(definition, call, asked)

    async def _only_reply(self, definition: Any, call: Call, asked: list[Any]) -> Any:
        call.set_trailing_metadata(pairs(definition.response_trailers))
        await call.send_initial_metadata(pairs(definition.response_headers))
        await trio.sleep(definition.response_delay_ms / 1000)
        if definition.HasField("error"):
            fail(definition.error, call, request_info(call, asked))
        return payload_of(definition.response_data, request_info(call, asked))

    def _end(self, definition: Any, call: Call, asked: list[Any]) -> None:
        if definition.HasField("error"):
            # Where no reply has said what was asked, the error says it.
            fail(definition.error, call, None if definition.response_data else request_info(call, asked))


def fail(error: Any, call: Call, info: Any | None) -> NoReturn:
    status = status_pb2.Status(code=error.code, message=error.message)
    for detail in error.details:
        status.details.add(type_url=detail.type_url, value=detail.value)
    if info is not None:
        status.details.add(type_url=f"type.googleapis.com/{info.DESCRIPTOR.full_name}", value=info.SerializeToString())
    call.abort(StatusCode(error.code), error.message, status.SerializeToString() if status.details else None)


def payload_of(data: bytes, info: Any | None) -> Any:
    payload = PROTOS.ConformancePayload(data=data)
    if info is not None:
        payload.request_info.CopyFrom(info)
    return payload


def request_info(call: Call | None, requests: Iterable[Any]) -> Any:
    """What was asked: with metadata and timeout, if the call is given."""
    info = PROTOS.ConformancePayload().request_info
    for request in requests:
        info.requests.add().Pack(request)
    if call is not None:
        for key in dict.fromkeys(key for key, _ in call.metadata):
            info.request_headers.add(name=key, value=[text(value) for value in call.metadata.all(key)])
        if call.timeout is not None:
            info.timeout_ms = round(call.timeout * 1000)
    return info


def text(value: str | bytes) -> str:
    return base64.b64encode(value).rstrip(b"=").decode() if isinstance(value, bytes) else value


def pairs(headers: Iterable[Any]) -> list[tuple[str, str | bytes]]:
    """Metadata from messages; binary values are in base64 there, padded or not."""
    return [
        (header.name, base64.b64decode(value + "==") if header.name.lower().endswith("-bin") else value)
        for header in headers
        for value in header.value
    ]


def tls_context(request: Any) -> ssl.SSLContext | None:
    if not request.use_tls:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["h2"])
    with tempfile.TemporaryDirectory() as folder:
        chain, key = Path(folder, "chain"), Path(folder, "key")
        chain.write_bytes(request.server_creds.cert)
        key.write_bytes(request.server_creds.key)
        context.load_cert_chain(chain, key)
    if request.client_tls_cert:
        context.load_verify_locations(cadata=request.client_tls_cert.decode())
        context.verify_mode = ssl.CERT_REQUIRED
    return context


async def main() -> None:
    request = read_message(sys.stdin.buffer, PROTOS.ServerCompatRequest)
    limit = request.message_receive_limit or UNLIMITED
    async with serve(tls=tls_context(request), max_receive_size=limit, remember_calls=False) as server:
        server.add_service(PROTOS.service, Conformance())
        host, _, port = server.address.rpartition(":")
        certificate = request.server_creds.cert if request.use_tls else b""
        write_message(sys.stdout.buffer, PROTOS.ServerCompatResponse(host=host, port=int(port), pem_cert=certificate))
        await trio.sleep_forever()


trio.run(main)
