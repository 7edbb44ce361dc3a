"""A server that answers each attempt of a call as its script says; python-h2 reads, and hyperframe writes its frames.

A call names its script by the header `x-script`, as `client:script`. So several clients can play the same scripts, and
`seen` has what the server was sent by each: for each attempt its headers and its messages. A call that a client makes
of its own accord has the script of its path.
"""

from __future__ import annotations

import socket
import struct
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import trio
from hyperframe import frame as hf

Fields: TypeAlias = list[tuple[bytes, bytes]]
Action: TypeAlias = tuple[Any, ...]
"""What the server does: ("headers", fields), ("data", bytes), ("end", fields), ("end_data", bytes), ("reset", code),
("goaway", streams not processed, code), ("close",), ("cut",), ("sleep", seconds), ("request",)."""

NAME = b"x-script"
_LIMITS = {3: 10_000, 4: 2**20}  # streams and window


@dataclass
class Attempt:
    """One attempt, as the server saw it: headers in order, the bytes of its body, and whether it ended or was reset."""

    headers: Fields
    body: bytearray = field(default_factory=bytearray)
    is_complete: bool = False
    reset: int | None = None


class ScriptedServer:
    """`scripts` has the actions for each attempt of a script, by its name; the last ones count for all that follow."""

    def __init__(self) -> None:
        self.scripts: dict[str, Sequence[Sequence[Action]]] = {}
        self.seen: defaultdict[str, list[Attempt]] = defaultdict(list)

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """Serve on loopback as long as the block; the value is the address."""
        async with self.serve_on_ports(1) as (address,):
            yield address

    @asynccontextmanager
    async def serve_on_ports(self, count: int) -> AsyncIterator[list[str]]:
        """Serve on several ports as long as the block; the value is their addresses."""
        async with trio.open_nursery() as nursery:
            serve = partial(trio.serve_tcp, self._serve, 0, host="127.0.0.1")
            listeners = [(await nursery.start(serve))[0] for _ in range(count)]
            yield [f"127.0.0.1:{each.socket.getsockname()[1]}" for each in listeners]
            nursery.cancel_scope.cancel()

    async def _serve(self, transport: trio.SocketStream) -> None:
        async with trio.open_nursery() as nursery:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError, h2.exceptions.ProtocolError):
                await _Connection(self, transport, nursery).run()
            nursery.cancel_scope.cancel()


class _Connection:
    def __init__(self, server: ScriptedServer, transport: trio.SocketStream, nursery: trio.Nursery) -> None:
        self._server = server
        self._transport = transport
        self._nursery = nursery
        config = h2.config.H2Configuration(client_side=False, header_encoding=None, validate_inbound_headers=False)
        self._http2 = h2.connection.H2Connection(config)
        self._attempts: dict[int, Attempt] = {}
        self._ended: defaultdict[int, trio.Event] = defaultdict(trio.Event)
        self._writing = trio.Lock()

    async def run(self) -> None:
        self._http2.initiate_connection()
        self._http2.update_settings(_LIMITS)
        self._http2.increment_flow_control_window(2**24)
        await self._flush()
        while data := await self._transport.receive_some(65_536):
            for event in self._http2.receive_data(data):
                self._on(event)
            await self._flush()
        await self._transport.aclose()

    def _on(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived():
                headers: Any = event.headers
                attempt = self._attempts[event.stream_id] = Attempt([(bytes(k), bytes(v)) for k, v in headers])
                self._nursery.start_soon(self._play, event.stream_id, attempt)
            case h2.events.DataReceived():
                self._attempts[event.stream_id].body += event.data
                self._http2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.StreamEnded():
                self._attempts[event.stream_id].is_complete = True
                self._ended[event.stream_id].set()
            case h2.events.StreamReset():
                self._attempts[event.stream_id].reset = event.error_code
                self._ended[event.stream_id].set()

    async def _play(self, stream: int, attempt: Attempt) -> None:
        headers = dict(attempt.headers)
        name = headers.get(NAME, headers[b":path"]).decode()
        seen = self._server.seen[name]
        script = self._server.scripts[name.rpartition(":")[2]]
        actions = script[min(len(seen), len(script) - 1)]
        seen.append(attempt)
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            for action in actions:
                await self._act(stream, *action)

    async def _act(self, stream: int, kind: str, *what: Any) -> None:
        match kind:
            case "request":
                await self._ended[stream].wait()
            case "sleep":
                await trio.sleep(what[0])
            case "headers":
                await self._send(lambda: self._header_frame(stream, what[0], end=False))
            case "end":
                await self._send(lambda: self._header_frame(stream, what[0], end=True))
            case "data":
                await self._send(lambda: hf.DataFrame(stream, what[0]).serialize())
            case "end_data":
                await self._send(lambda: hf.DataFrame(stream, what[0], flags=["END_STREAM"]).serialize())
            case "reset":
                await self._send(lambda: hf.RstStreamFrame(stream, what[0]).serialize())
            case "goaway":
                last = max(stream - 2 * what[0], 0)
                await self._send(lambda: hf.GoAwayFrame(0, last, what[1], b"by script").serialize())
            case "close":
                await self._transport.aclose()
            case "cut":
                self._transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                await self._transport.aclose()
            case _:
                raise ValueError(kind)

    def _header_frame(self, stream: int, fields: Fields, *, end: bool) -> bytes:
        made = hf.HeadersFrame(stream, self._http2.encoder.encode(fields), flags=["END_HEADERS"])
        if end:
            made.flags.add("END_STREAM")
        return bytes(made.serialize())

    async def _send(self, make: Any) -> None:
        async with self._writing:
            await self._transport.send_all(make())

    async def _flush(self) -> None:
        async with self._writing:
            if data := self._http2.data_to_send():
                await self._transport.send_all(data)
