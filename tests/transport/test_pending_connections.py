"""Connections that ask for nothing are closed, and keep no good client out."""

from __future__ import annotations

import gc
import ssl
import weakref

import pytest
import trio
import trustme
from support.attacked_server import ADDRESS, NO_ERROR, Stage, on_stage
from support.hostile.peer import message
from support.raw_client import RawClient, data, headers
from support.tls_peers import server_context
from trio.testing import wait_all_tasks_blocked

from trxds.testing import ServerLimits

pytestmark = pytest.mark.slow


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


async def test_a_client_that_is_silent_after_its_tls_handshake_is_closed_at_the_time_limit(
    ca: trustme.CA, nursery: trio.Nursery, autojump_clock
) -> None:
    trusting = ssl.create_default_context()
    ca.configure_trust(trusting)
    async with on_stage(tls=server_context(ca, "shop"), limits=ServerLimits(preface_timeout=3)) as stage:
        transport = await stage.network.connect(ADDRESS)
        tls = trio.SSLStream(transport, trusting, server_hostname="shop", https_compatible=True)
        await tls.do_handshake()
        await RawClient(tls).read()
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
