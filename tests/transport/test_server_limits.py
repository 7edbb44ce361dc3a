"""One hostile client must not cost the others too much: in each attack, a good client is answered at once."""

from __future__ import annotations

import gc
import math
import ssl
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count, islice

import pytest
import trio
from support.hostile.peer import RST_STREAM, WINDOW_UPDATE, frame, message
from support.raw_client import RawClient, data, headers
from trio.testing import wait_all_tasks_blocked

from trxds.core.status import OK
from trxds.server.server_limits import ResetBudget
from trxds.testing import Call, ManagementServer, MemoryNetwork, Server, ServerLimits, serve, unary
from trxds.transport.connection import Connection
from trxds.transport.options import WireOptions
from trxds.transport.request import Request

pytestmark = pytest.mark.slow

ENHANCE_YOUR_CALM, NO_ERROR = 11, 0
REFUSED_STREAM, CANCEL = 7, 8
ADDRESS = "s:1"


class Stage:
    """A server in memory; `cancelled` counts the handlers that were cancelled."""

    def __init__(self, network: MemoryNetwork, server: Server) -> None:
        self.network, self.server = network, server
        self.begun = self.running = self.most_running = self.cancelled = 0

    async def wait(self, call: Call) -> None:
        self.begun += 1
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1

    async def linger(self, call: Call) -> None:
        """A handler that has to clean up when it is cancelled."""
        try:
            await self.wait(call)
        finally:
            with trio.CancelScope(shield=True):
                self.running += 1
                await trio.sleep(10)
                self.running -= 1

    async def hostile(self) -> RawClient:
        client = RawClient(await self.network.connect(ADDRESS))
        await client.greet()
        return client

    async def good_call(self) -> float:
        """Return the time that a good client's call takes, with connecting, on the test's clock."""
        began = trio.current_time()
        connection = Connection(await self.network.connect(ADDRESS), peer=ADDRESS)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.run)
            assert await connection.wait_ready()
            stream = connection.open_stream(Request("/s/Echo", "shop", one_reply=True))
            assert stream is not None
            stream.send_nowait(b"x", end=True)
            assert await stream.receive_unary() == b"x" and stream.status == OK
            nursery.cancel_scope.cancel()
        return trio.current_time() - began


@pytest.fixture
async def stage():
    async with on_stage() as stage:
        yield stage


@asynccontextmanager
async def on_stage(**how):
    async def echo(request: bytes, call: Call) -> bytes:
        return request

    network = MemoryNetwork()
    async with serve(network=network, address=ADDRESS, remember_calls=False, **how) as server:
        stage = Stage(network, server)
        server.handlers.update({"/s/Echo": unary(echo), "/s/Wait": stage.wait, "/s/Linger": stage.linger})
        yield stage


# -- floods


def rapid_reset() -> Iterator[bytes]:
    for stream in count(1, 2):
        yield headers(stream, pseudo_path="/s/Wait") + frame(RST_STREAM, 0, stream, CANCEL.to_bytes(4))


def data_behind_the_end() -> Iterator[bytes]:
    """MadeYouReset: data behind END_STREAM makes the server reset the stream."""
    for stream in count(1, 2):
        yield headers(stream, pseudo_path="/s/Wait", end=True) + data(stream, b"more")


def window_too_far() -> Iterator[bytes]:
    """MadeYouReset by a window above the largest size."""
    for stream in count(1, 2):
        yield headers(stream, pseudo_path="/s/Wait") + 2 * frame(WINDOW_UPDATE, 0, stream, (2**31 - 1).to_bytes(4))


def malformed_requests() -> Iterator[bytes]:
    for stream in count(1, 2):
        yield headers(stream, connection="close")


def content_lengths_too_short() -> Iterator[bytes]:
    for stream in count(1, 2):
        yield headers(stream, pseudo_path="/s/Wait", content_length="0") + data(stream, b"more")


def headers_too_large() -> Iterator[bytes]:
    for stream in count(1, 2):
        yield headers(stream, x="a" * 800, y="b" * 800)


def many_streams() -> Iterator[bytes]:
    for stream in count(1, 2):
        yield headers(stream, pseudo_path="/s/Wait")


FLOODS = {
    each.__name__: each
    for each in (
        rapid_reset,
        data_behind_the_end,
        window_too_far,
        malformed_requests,
        content_lengths_too_short,
        headers_too_large,
        many_streams,
    )
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
async def test_a_flood_of_resets_ends_the_connection_with_enhance_your_calm(
    flood: Callable[[], Iterator[bytes]], nursery: trio.Nursery, autojump_clock
) -> None:
    options = WireOptions(max_header_list=1000)
    async with on_stage(options=options) as stage:
        client = await stage.hostile()
        nursery.start_soon(client.read)
        with pytest.raises(trio.BrokenResourceError):
            for said in islice(flood(), 5000):
                await client.send(said)
        await wait_all_tasks_blocked()
        assert client.goaway in ((ENHANCE_YOUR_CALM,) if flood is not window_too_far else (ENHANCE_YOUR_CALM, 3))
        assert stage.begun <= 1000 + 100 + 1 and stage.most_running <= 100
        assert stage.server.connections == [] and stage.running == 0
        assert await stage.good_call() < 1


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
async def test_a_well_behaved_client_is_answered_during_a_flood_of_resets(
    flood: Callable[[], Iterator[bytes]], nursery: trio.Nursery, autojump_clock
) -> None:
    async with on_stage(limits=ServerLimits(max_resets=math.inf)) as stage:
        client = await stage.hostile()
        nursery.start_soon(client.read)
        before: list[int] = []

        async def attack() -> None:
            for said in flood():
                try:
                    await client.send(said)
                except trio.BrokenResourceError:
                    return
                before.append(len(said))

        nursery.start_soon(attack)
        for _ in range(3):
            sent = len(before)
            assert await stage.good_call() < 1
            assert len(before) - sent < 2000, "the good client had its turns"
        nursery.cancel_scope.cancel()


async def test_a_flood_of_resets_leaves_no_memory_behind(autojump_clock) -> None:
    async def attack(stage: Stage) -> None:
        client = await stage.hostile()
        async with trio.open_nursery() as reading:
            reading.start_soon(client.read)
            with pytest.raises(trio.BrokenResourceError):
                flood = rapid_reset()
                while True:
                    await client.send(*islice(flood, 50))
            reading.cancel_scope.cancel()
        await client.transport.aclose()  # what it sent and nobody read belongs to its own end
        await wait_all_tasks_blocked()

    async with on_stage() as stage:
        await attack(stage)  # what is made once
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(2):
                await attack(stage)
            gc.collect()
            left = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert left < 100_000


# -- streams and handlers


async def test_a_server_allows_100_concurrent_streams_by_default(stage: Stage, nursery, autojump_clock) -> None:
    client = await stage.hostile()
    for stream in range(1, 203, 2):
        await client.send(headers(stream, pseudo_path="/s/Wait"))
    assert int.from_bytes(await client.read_until(RST_STREAM, 201)) == REFUSED_STREAM
    assert stage.running == 100 and stage.server.options.max_concurrent_streams == 100
    await client.send(frame(RST_STREAM, 0, 1, CANCEL.to_bytes(4)), headers(203, pseudo_path="/s/Wait"))
    await wait_all_tasks_blocked()
    assert stage.begun == 101 and stage.cancelled == 1, "the connection goes on, and a stream is free again"


async def test_a_server_may_set_no_limit_on_concurrent_streams(nursery: trio.Nursery, autojump_clock) -> None:
    async with on_stage(max_concurrent_streams=None) as stage:
        client = await stage.hostile()
        for stream in range(1, 301, 2):
            await client.send(headers(stream, pseudo_path="/s/Wait"))
        await wait_all_tasks_blocked()
        assert stage.running == 150


async def test_options_without_a_stream_limit_keep_the_servers_default(nursery: trio.Nursery, autojump_clock) -> None:
    async with on_stage(options=WireOptions(stream_window=100_000)) as stage:
        assert stage.server.options.max_concurrent_streams == 100


async def test_a_reset_stream_frees_no_handler_slot_until_its_handler_returns(stage: Stage, autojump_clock) -> None:
    """A cancelled handler may have to clean up, while its stream is no longer open."""
    client = await stage.hostile()
    for stream in range(1, 601, 2):
        await client.send(headers(stream, pseudo_path="/s/Linger"))
        if stream > 100:
            await client.send(frame(RST_STREAM, 0, stream - 100, CANCEL.to_bytes(4)))
        await wait_all_tasks_blocked()
    assert stage.running == 100 and stage.begun == 100
    await trio.sleep(11)
    await wait_all_tasks_blocked()
    assert stage.begun > 100 and stage.most_running <= 100, "those that wait begin when others have ended"


async def test_a_call_that_is_reset_while_it_waits_for_a_handler_never_begins(nursery, autojump_clock) -> None:
    async with on_stage(max_concurrent_streams=1) as stage:
        client = await stage.hostile()
        reset = frame(RST_STREAM, 0, 1, CANCEL.to_bytes(4))
        await client.send(headers(1, pseudo_path="/s/Linger"))
        await wait_all_tasks_blocked()
        await client.send(reset, headers(3, pseudo_path="/s/Wait"), frame(RST_STREAM, 0, 3, CANCEL.to_bytes(4)))
        await client.send(headers(5), data(5, b"", end=True))
        await trio.sleep(11)
        assert stage.begun == 1
        assert (await client.answer(5))["grpc-status"] == "12", "the one behind it does"


# -- the budget for resets


def test_the_reset_budget_refills_with_time_and_with_served_calls() -> None:
    budget = ResetBudget(burst=2, rate=0.5, now=10)
    assert [budget.spend(10) for _ in range(3)] == [True, True, False]
    budget = ResetBudget(burst=2, rate=0.5, now=10)
    assert [budget.spend(now) for now in (10, 10, 12, 13)] == [True, True, True, False]
    budget = ResetBudget(burst=2, rate=0, now=0)
    for _ in range(5):
        budget.earn()
    assert [budget.spend(0) for _ in range(2)] == [True, True]
    budget.earn()
    assert [budget.spend(100) for _ in range(2)] == [True, False]


async def test_a_client_that_hedges_may_go_on_for_ever(nursery: trio.Nursery, autojump_clock) -> None:
    """One of two calls is cancelled, hundreds of times without a pause."""
    async with on_stage(limits=ServerLimits(max_resets=50)) as stage:
        client = await stage.hostile()
        for stream in range(1, 1201, 4):
            hedge = stream + 2
            await client.send(headers(stream, pseudo_path="/s/Echo"), data(stream, message(b"x"), end=True))
            await client.send(headers(hedge, pseudo_path="/s/Wait"))
            assert (await client.answer(stream))["grpc-status"] == "0"
            await client.send(frame(RST_STREAM, 0, hedge, CANCEL.to_bytes(4)))
        assert client.goaway is None and stage.server.connections != []


async def test_a_server_that_resets_its_own_calls_is_not_counted(nursery: trio.Nursery, autojump_clock) -> None:
    async def refuse(call: Call) -> None:
        call.reset(ENHANCE_YOUR_CALM)

    async with on_stage(limits=ServerLimits(max_resets=3)) as stage:
        stage.server.fallback = refuse
        client = await stage.hostile()
        for stream in range(1, 41, 2):
            await client.send(headers(stream))
            assert (await client.answer(stream))["reset"] == "11"
        assert client.goaway is None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"handshake_timeout": 0}, "handshake_timeout is 0; it must be above 0"),
        ({"preface_timeout": -1}, "preface_timeout is -1; it must be above 0"),
        ({"max_pending_connections": 0}, "max_pending_connections is 0; it must be above 0"),
        ({"max_resets": math.nan}, "max_resets is nan; it must be above 0"),
        ({"resets_per_second": math.inf}, "resets_per_second is inf; it must be 0 or above, and finite"),
    ],
)
def test_server_limits_that_make_no_sense_are_refused(wrong: dict[str, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ServerLimits(**wrong)


# -- a client that does not read its answers


async def test_a_client_that_reads_no_answers_is_not_read(nursery: trio.Nursery, autojump_clock) -> None:
    """Trailers and refusals wait for no window, so nothing else bounds them."""
    async with on_stage(limits=ServerLimits(max_resets=math.inf)) as stage:
        client = await stage.hostile()
        asked = trio.Event()

        async def ask() -> None:
            for stream in range(1, 2001, 2):
                path = f"/s/{stream}" + "a" * 1000  # the answer names it
                await client.send(headers(stream, pseudo_path=path, end=True))
            asked.set()

        nursery.start_soon(ask)
        await trio.sleep(60)
        (connection,) = stage.server.connections
        assert not asked.is_set() and connection.http2.engine.outgoing.unsent < 400_000
        assert await stage.good_call() < 1
        nursery.start_soon(client.read)
        with trio.fail_after(1):  # it goes on as soon as the client reads
            await asked.wait()


# -- connections that ask for nothing


async def test_a_connection_without_a_preface_is_closed_at_the_time_limit(stage: Stage, autojump_clock) -> None:
    client = RawClient(await stage.network.connect(ADDRESS))
    await client.send(b"PRI * HTTP/2.0\r\n")
    await client.read()
    assert trio.current_time() == pytest.approx(10, abs=0.01)
    await wait_all_tasks_blocked()
    assert stage.server.connections == []


async def test_a_preface_sent_byte_by_byte_gets_no_more_time(stage: Stage, nursery, autojump_clock) -> None:
    client = RawClient(await stage.network.connect(ADDRESS))
    nursery.start_soon(client.read)
    with pytest.raises(trio.BrokenResourceError):
        for byte in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":
            await client.send(bytes((byte,)))
            await trio.sleep(1)
    assert trio.current_time() < 12


async def test_a_client_may_be_idle_for_ever_once_its_preface_has_come(stage: Stage, autojump_clock) -> None:
    client = await stage.hostile()
    await trio.sleep(80_000)
    await client.send(headers(1), data(1, message(b"x"), end=True))
    assert (await client.answer(1))["grpc-status"] == "12"


async def test_a_slow_tls_handshake_is_closed_at_the_time_limit(nursery: trio.Nursery, autojump_clock) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    async with on_stage(tls=context, limits=ServerLimits(handshake_timeout=3)) as stage:
        client = RawClient(await stage.network.connect(ADDRESS))
        await client.read()
        assert trio.current_time() == pytest.approx(3, abs=0.01)


async def test_800_silent_connections_delay_nobody(stage: Stage, autojump_clock) -> None:
    silent = [RawClient(await stage.network.connect(ADDRESS)) for _ in range(800)]
    await wait_all_tasks_blocked()
    assert len(stage.server.connections) == 256
    assert await stage.good_call() < 1
    await trio.sleep(11)
    assert stage.server.connections == []
    assert len(silent) == 800


async def test_the_oldest_idle_connection_gets_a_goaway_when_too_many_send_no_request(nursery, autojump_clock) -> None:
    async with on_stage(limits=ServerLimits(max_pending_connections=2)) as stage:
        clients = [await stage.hostile() for _ in range(3)]
        await wait_all_tasks_blocked()
        await clients[0].read()
        assert clients[0].goaway == NO_ERROR
        assert len(stage.server.connections) == 2


async def test_a_connection_that_had_a_call_is_not_counted_as_pending(nursery: trio.Nursery, autojump_clock) -> None:
    async with on_stage(limits=ServerLimits(max_pending_connections=2)) as stage:
        healthy = [await stage.hostile() for _ in range(2)]
        for client in healthy:
            await client.send(headers(1), data(1, message(b"x"), end=True))
            await client.answer(1)
        others = [await stage.hostile() for _ in range(5)]
        for client in healthy:
            await client.send(headers(3), data(3, message(b"x"), end=True))
            assert (await client.answer(3))["grpc-status"] == "12"
        assert len(stage.server.connections) == 4
        assert len(others) == 5


async def test_connections_held_open_without_a_call_keep_no_new_client_out(
    nursery: trio.Nursery, autojump_clock
) -> None:
    async with on_stage(limits=ServerLimits(max_pending_connections=2)) as stage:
        held = [await stage.hostile() for _ in range(2)]
        silent = [RawClient(await stage.network.connect(ADDRESS)) for _ in range(2)]
        for _ in range(3):
            assert await stage.good_call() < 1
        assert (len(held), len(silent)) == (2, 2)


async def test_closed_connections_are_not_counted_as_pending(stage: Stage, autojump_clock) -> None:
    for _ in range(20):
        await stage.hostile()
    await wait_all_tasks_blocked()
    remembered = [weakref.ref(connection) for connection in stage.server.connections]
    stage.server.drop_connections()
    await wait_all_tasks_blocked()
    gc.collect()
    assert len(remembered) == 20 and [each() for each in remembered if each() is not None] == []
    assert not stage.server._pending._idle and not stage.server._pending._silent


async def test_a_control_plane_does_not_remember_the_calls_of_its_clients(autojump_clock) -> None:
    def calls() -> set[Call]:
        gc.collect()
        return {each for each in gc.get_objects() if isinstance(each, Call)}

    network, plane, of_other_tests = MemoryNetwork(), ManagementServer(), calls()
    async with plane.serve(ADDRESS, network):
        client = RawClient(await network.connect(ADDRESS))
        await client.greet()
        for stream in range(1, 101, 2):
            await client.send(headers(stream, end=True))
            await client.answer(stream)
        assert calls() <= of_other_tests
