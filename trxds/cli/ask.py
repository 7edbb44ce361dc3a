"""What a control plane answers to one question, for `trxds check --connect`.

The question is the first that any client asks, for a Listener; one for no name in particular
means all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import trio

from trxds.ads.bootstrap import Node, ServerConfig
from trxds.ads.protocol import Conversation
from trxds.ads.response import read
from trxds.ads.stream import PATH
from trxds.resources.protos import DecodeError, DiscoveryResponse
from trxds.resources.slices import at_once
from trxds.resources.types import LDS, ParseContext
from trxds.wire.connect import Network, WireOptions, connect_error
from trxds.wire.connection import Connection
from trxds.wire.request import Request

LARGEST_ANSWER = 1 << 30  # bytes


@dataclass(frozen=True, slots=True)
class Answer:
    good: bool
    text: str


async def ask(server: ServerConfig, node: Node, network: Network, listener: str, within: float) -> Answer:
    """What the server says within that many seconds; `listener` may be empty."""
    progress = "no connection"
    with trio.move_on_after(within):
        try:
            transport = await network.connect(server.address)
        except OSError as error:
            return Answer(False, f"no connection: {connect_error(error)}")
        progress = "connected, but no answer"
        async with trio.open_nursery() as nursery:
            connection = Connection(transport, peer=server.address, options=WireOptions())
            nursery.start_soon(connection.run, name=f"check/{server.uri}")
            answer = await _converse(connection, server, node, listener)
            nursery.cancel_scope.cancel()
        return answer
    return Answer(False, f"{progress} within {within:g} s")


async def _converse(connection: Connection, server: ServerConfig, node: Node, listener: str) -> Answer:
    await connection.wait_ready()
    authority = "localhost" if server.address.startswith("unix:") else server.address
    stream = connection.open_stream(Request(PATH, authority, max_receive_size=LARGEST_ANSWER))
    if stream is None:
        return Answer(False, f"connected, but {connection.error.message if connection.error else 'no HTTP/2'}")
    try:
        await stream.send(_question(server, node, listener))
        message = await stream.receive()
    finally:
        stream.cancel()
    if message is None:
        return Answer(False, f"the ADS stream ended without an answer: {stream.status}")
    return _understood(message, server, listener)


def _question(server: ServerConfig, node: Node, listener: str) -> bytes:
    conversation = Conversation(server, node)
    conversation.subscribe(LDS, listener)
    conversation.stream_opened()
    request = conversation.next_request()
    assert request is not None
    if not listener:
        del request.resource_names[:]
    question: bytes = request.SerializeToString()
    return question


def _understood(message: bytes, server: ServerConfig, listener: str) -> Answer:
    try:
        response = DiscoveryResponse.FromString(message)
    except DecodeError:
        return Answer(False, f"{len(message)} bytes came that are no DiscoveryResponse")
    reading = at_once(read(response, LDS, {}, ParseContext(server_features=server.features)))
    names = sorted(item.parsed.name or "(no name)" for item in reading.items)
    text = f"answers with {_count(len(names))}{': ' if names else ''}{', '.join(names)}"
    if listener and listener not in names:
        return Answer(False, f'{text}; "{listener}" is not there')
    if reading.errors:
        return Answer(False, f"{text}; {'; '.join(reading.errors)}")
    return Answer(True, text)


def _count(names: int) -> str:
    return f"{names or 'no'} Listener{'' if names == 1 else 's'}"
