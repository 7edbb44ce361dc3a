"""Fixtures of several files, most of all a connection whose server's end a test controls frame by frame.

That end is h2 itself and not our engine.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest
import trio
import trustme
from msgspec import structs
from support.attacked_server import on_stage
from support.fast_engine import FIXED, OPTIONS
from support.lone_calls import asked
from support.raw_client import RawClient
from support.subchannel_states import Middle, States
from trio.testing import wait_all_tasks_blocked

from trxds.testing import Call, MemoryNetwork, Server, serve, server_streaming, unary
from trxds.testing.network import memory_stream_pair
from trxds.testing.simulation.links import Link, SimulatedStream, Wire
from trxds.testing.simulation.timeline import Timeline
from trxds.transport import frames
from trxds.transport.certificates import CertificateFiles
from trxds.transport.connection import Connection
from trxds.transport.events import SettingsReceived
from trxds.transport.fast_http2 import FastHttp2Engine
from trxds.transport.options import WireOptions
from trxds.transport.pool import SubchannelPool
from trxds.transport.request import Request

E = TypeVar("E", bound=h2.events.Event)

HEADERS = [(":status", "200"), ("content-type", "application/grpc")]
OK_TRAILERS = [("grpc-status", "0")]


class ScriptedServer:
    """A server that does nothing by itself: it opens no window and answers nothing."""

    def __init__(self, transport: trio.abc.Stream, settings: dict[Any, int]) -> None:
        self.transport = transport
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="ascii"))
        if settings:
            self.h2.local_settings = h2.settings.Settings(client=False, initial_values=settings)
        self.seen: list[h2.events.Event] = []

    async def greet(self) -> None:
        self.h2.initiate_connection()
        await self.flush()

    async def flush(self) -> None:
        await self.transport.send_all(self.h2.data_to_send())

    async def read(self) -> None:
        """Add the events of one read to `seen`."""
        self.seen += self.h2.receive_data(await self.transport.receive_some())

    async def next(self, kind: type[E]) -> E:
        """Return the next event of that kind; those before it are dropped."""
        while True:
            while self.seen:
                event = self.seen.pop(0)
                if isinstance(event, kind):
                    return event
            await self.read()

    async def request(self) -> int:
        """Wait for a request; return its stream identifier."""
        stream_id = (await self.next(h2.events.RequestReceived)).stream_id
        assert stream_id is not None
        return stream_id

    async def request_end(self, stream_id: int) -> None:
        while (await self.next(h2.events.StreamEnded)).stream_id != stream_id:
            pass

    async def answer(self, stream_id: int, message: bytes = b"", trailers: list[tuple[str, str]] | None = None) -> None:
        """Send headers, one message and trailers."""
        self.answer_later(stream_id, message, trailers)
        await self.flush()

    def answer_later(self, stream_id: int, message: bytes = b"", trailers: list[tuple[str, str]] | None = None) -> None:
        """Send them with the next `flush`."""
        self.h2.send_headers(stream_id, HEADERS)
        self.h2.send_data(stream_id, framed(message))
        self.h2.send_headers(stream_id, trailers or OK_TRAILERS, end_stream=True)

    async def send_within_windows(self, stream_id: int, data: bytes) -> int:
        """Send as much as the client's windows allow, until it opens no more; return how much that was."""
        sent = 0
        while True:
            room = min(self.h2.local_flow_control_window(stream_id), self.h2.max_outbound_frame_size, len(data) - sent)
            if room <= 0:
                return sent
            self.h2.send_data(stream_id, data[sent : sent + room])
            sent += room
            await self.flush()
            await wait_all_tasks_blocked()
            with trio.move_on_after(0.001):
                await self.read()


def framed(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4) + message


def socket_pair() -> tuple[trio.abc.Stream, trio.abc.Stream]:
    """Return two connected sockets in this process: bytes arrive at once, so they work with Trio's MockClock."""
    ours, theirs = (trio.socket.from_stdlib_socket(end) for end in socket.socketpair())
    return trio.SocketStream(ours), trio.SocketStream(theirs)


def simulated_pair() -> tuple[trio.abc.Stream, trio.abc.Stream]:
    """Return two ends that know how many bytes make them readable, as sockets of TCP do; bytes arrive at once."""
    wires = [Wire(Link(), Timeline(), Random(), lambda _: None) for _ in range(2)]
    ends = [SimulatedStream(wire) for wire in wires]
    wires[0].receiver, wires[1].receiver = ends[1], ends[0]
    ends[0].peer, ends[1].peer = ends[1], ends[0]
    return ends[0], ends[1]


async def closed_at_the_end(end: trio.socket.SocketType) -> None:
    with end:
        await trio.sleep_forever()


MakeWire = Callable[..., Awaitable[tuple[Connection, ScriptedServer]]]


@pytest.fixture(params=["lean", "h2"])
def wire(nursery: trio.Nursery, request: pytest.FixtureRequest) -> MakeWire:
    """`await wire(settings, options=...)` returns a running connection, on each engine, and its server."""

    async def make(
        settings: dict[Any, int] | None = None,
        *,
        options: WireOptions | None = None,
        capacity: int = 1 << 16,
        sockets: bool = False,
        simulated: bool = False,
        within: trio.Nursery = nursery,
    ) -> tuple[Connection, ScriptedServer]:
        ours, theirs = socket_pair() if sockets else simulated_pair() if simulated else memory_stream_pair(capacity)
        chosen = structs.replace(options or WireOptions(), lean=request.param == "lean")
        connection = Connection(ours, peer="10.0.0.1:443", options=chosen)
        server = ScriptedServer(theirs, settings or {})
        within.start_soon(connection.run)
        if isinstance(theirs, trio.SocketStream):
            nursery.start_soon(closed_at_the_end, theirs.socket)
        await server.greet()
        assert await connection.wait_ready()
        return connection, server

    return make


@pytest.fixture
def request_() -> Callable[..., Request]:
    def make(path: str = "/shop.Cart/Add", **fields: Any) -> Request:
        # Most that send one message want one back.
        return Request(path, "shop", **{"one_reply": "message" in fields, **fields})

    return make


async def fail_in_the_end() -> None:
    """Fail when no task can go on, where a test would otherwise wait for ever."""
    await trio.sleep(1000)
    raise TimeoutError


@pytest.fixture
def delegated(wire, request_, nursery):
    """Return a connection with delegated reading, after enough lone calls, and its server."""

    async def make(options: WireOptions | None = None, settings: Any = None) -> tuple[Connection, Any]:
        connection, server = await wire(settings, options=options, sockets=True)
        for _ in range(20):
            await asked(connection, server, request_(message=b"x"))
        assert connection.inline_reads.is_delegated
        nursery.start_soon(fail_in_the_end)
        return connection, server

    return make


@pytest.fixture
def engine() -> FastHttp2Engine:
    """Return an engine with one stream, 1, after both prefaces."""
    made = FastHttp2Engine(OPTIONS)
    assert made.receive(frames.settings({})) == [SettingsReceived()]
    assert made.open_stream(FIXED, [], []) == 1
    made.outgoing.take()
    return made


@pytest.fixture
async def stage():
    """Yield a server that good clients and hostile ones call."""
    async with on_stage() as stage:
        yield stage


@pytest.fixture
def network() -> MemoryNetwork:
    """Return a network of the test's own."""
    return MemoryNetwork()


@pytest.fixture
async def server(network: MemoryNetwork):
    """Yield a server that `client` sends its frames to."""

    async def echo(request: bytes, call: Call) -> bytes:
        return request

    async def letters(request: bytes, call: Call):
        for letter in request.decode():
            yield letter.encode()

    handlers = {"/s/M": unary(echo), "/s/Letters": server_streaming(letters)}
    async with serve(handlers, network=network, address="s:1") as server:
        yield server


@pytest.fixture
async def client(network: MemoryNetwork, server: Server) -> RawClient:
    """Return a client that a test controls frame by frame."""
    client = RawClient(await network.connect("s:1"))
    await client.greet()
    return client


@pytest.fixture
async def pool(network: MemoryNetwork, nursery: trio.Nursery) -> SubchannelPool:
    """Return a pool that runs."""
    pool = SubchannelPool(network, WireOptions(), Middle())
    nursery.start_soon(pool.run)
    await wait_all_tasks_blocked()
    return pool


@pytest.fixture
def states(pool: SubchannelPool) -> States:
    """Return the states of one subchannel of the pool."""
    return States(pool)


@pytest.fixture
def files(ca: trustme.CA, tmp_path: Path) -> CertificateFiles:
    """Write the files of a client and of what it trusts."""
    ca.cert_pem.write_to_path(str(tmp_path / "roots.pem"))
    leaf = ca.issue_cert("client.example")
    leaf.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "client.pem"))
    return CertificateFiles(str(tmp_path / "roots.pem"), str(tmp_path / "client.pem"), str(tmp_path / "client.pem"))
