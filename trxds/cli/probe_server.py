"""The probe of a control plane for `trxds check --connect`: one request and its response.

The request is the first one of any client, for a Listener, in the protocol that the bootstrap states for the server. A
request without a name asks for all Listeners.
"""

from __future__ import annotations

from functools import partial

import trio
from msgspec import Struct

from trxds.client.shared_xds_client import parse_context
from trxds.resources.cooperative_parse import run_at_once
from trxds.resources.extension import parse
from trxds.resources.filters import HTTP_FILTERS
from trxds.resources.types import LDS, RESOURCE_TYPES, ParseContext
from trxds.transport.connect import Network
from trxds.transport.connection import Connection
from trxds.transport.options import WireOptions
from trxds.transport.request import Request
from trxds.transport.run_in_thread import run_in_thread
from trxds.xds.authorization import fetch_authorization
from trxds.xds.bootstrap import Bootstrap, Node, ServerConfig
from trxds.xds.channel_credentials import secure_network
from trxds.xds.control_plane_stream import build_request, describe_end
from trxds.xds.discovery_request import DiscoveryRequestParams, ProtocolVariant, set_node
from trxds.xds.resource_files import FilesContent, ResourceFiles
from trxds.xds.xds_channel import describe_connect_error
from trxds.xds.xds_client import protocol_variant, server_context


class ProbeResult(Struct, frozen=True):
    is_good: bool
    text: str


async def probe_server(
    server: ServerConfig, bootstrap: Bootstrap, network: Network, listener: str, within: float
) -> ProbeResult:
    """Return the server's answer within that many seconds; `listener` may be empty."""
    context = server_context(parse_context(frozenset(bootstrap.certificate_providers), {}, HTTP_FILTERS), server)
    if server.files:
        return await run_in_thread(partial(read_files, server, context, listener))
    progress = f"no connection within {within:g} s"
    dialect = protocol_variant(server)
    with trio.move_on_after(within):
        try:
            request = build_request(server, dialect.path, await fetch_authorization(server))
            transport = await secure_network(network, server.credentials, server.address).connect(server.address)
        except OSError as error:
            return ProbeResult(False, f"no connection: {describe_connect_error(error)}")
        # The snapshot caches of go-control-plane and java-control-plane answer nothing that they do not have.
        missing = f'Listener "{listener}"' if listener else f'Listener for node "{bootstrap.node.id}"'
        progress = f"connected, but no answer within {within:g} s; a server that has no {missing} may be silent"
        async with trio.open_nursery() as nursery:
            connection = Connection(transport, peer=server.address, options=WireOptions())
            nursery.start_soon(connection.run, name=f"check/{server.uri}")
            answer = await _exchange(
                connection, request, _discovery_request(dialect, bootstrap.node, listener), dialect.remedy
            )
            nursery.cancel_scope.cancel()
        return answer if isinstance(answer, ProbeResult) else _read_response(dialect, answer, context, listener)
    return ProbeResult(False, progress)


def read_files(server: ServerConfig, context: ParseContext, listener: str) -> ProbeResult:
    """Return what the files that stand in for a server have."""
    content = ResourceFiles(server.files).read_if_changed() or FilesContent()
    if content.problems:
        return ProbeResult(False, "; ".join(content.problems))
    names = sorted(name for type_url, name in content.resources if type_url == LDS.type_url)
    text = f"the files have {_count_listeners(len(names))}{': ' if names else ''}{', '.join(names)}"
    errors = []
    for type_url, name in content.resources:
        type, found = RESOURCE_TYPES[type_url], content.resources[type_url, name]
        if parsed := type.read(found.value, context).errors:
            errors.append(f"{found.place}: {name}: {type.validation_message(parsed)}")
    if listener and listener not in names:
        return ProbeResult(False, f'{text}; "{listener}" is not there')
    return ProbeResult(not errors, "; ".join((text, *errors)))


async def _exchange(connection: Connection, request: Request, question: bytes, remedy: str) -> bytes | ProbeResult:
    """Return the first message that the server sends, or the reason why there is none."""
    await connection.wait_ready()
    stream = connection.open_stream(request)
    if stream is None:
        return ProbeResult(False, f"connected, but {connection.error.message if connection.error else 'no HTTP/2'}")
    try:
        await stream.send(question)
        message = await stream.receive()
    finally:
        stream.cancel()
    return message or ProbeResult(
        False, f"the ADS stream ended without an answer: {describe_end(stream.status, remedy)}"
    )


def _discovery_request(dialect: ProtocolVariant, node: Node, listener: str) -> bytes:
    names = [listener] if listener else []
    request = dialect.request(
        DiscoveryRequestParams(LDS, names, requested=None, version="", versions={}, nonce="", is_answer=False)
    )
    set_node(request, node)
    question: bytes = request.SerializeToString()
    return question


def _read_response(dialect: ProtocolVariant, message: bytes, context: ParseContext, listener: str) -> ProbeResult:
    response = parse(dialect.response, message)
    if response is None:
        return ProbeResult(False, f"{len(message)} bytes came that are no {dialect.response.DESCRIPTOR.name}")
    reading = run_at_once(dialect.read(response, LDS, {}, context))
    found = [item.parsed for item in reading.items]
    names = sorted(parsed.name or "(no name)" for parsed in found)
    errors = [
        f"{parsed.name or '(no name)'}: {LDS.validation_message(parsed.errors)}" for parsed in found if parsed.errors
    ]
    text = f"answers with {_count_listeners(len(names))}{': ' if names else ''}{', '.join(names)}"
    if reading.failed:
        return ProbeResult(False, f"{text}; {'; '.join(f'{each.name}: {each}' for each in reading.failed)}")
    if listener and listener not in names:
        return ProbeResult(False, f'{text}; "{listener}" is not there')
    if errors:
        return ProbeResult(False, f"{text}; {'; '.join(errors)}")
    return ProbeResult(True, text)


def _count_listeners(names: int) -> str:
    return f"{names or 'no'} Listener{'' if names == 1 else 's'}"
