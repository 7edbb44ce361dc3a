"""A server's limits on streams, handlers and unread answers: a good client is answered at once beside a hostile one."""

from __future__ import annotations

import gc
import math

import pytest
import trio
from support.attacked_server import ADDRESS, CANCEL, REFUSED_STREAM, Stage, on_stage
from support.hostile.peer import RST_STREAM, frame
from support.raw_client import RawClient, data, headers
from trio.testing import wait_all_tasks_blocked

from trxds.testing import Call, ManagementServer, MemoryNetwork, ServerLimits
from trxds.transport.options import WireOptions

pytestmark = pytest.mark.slow


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
