"""A retry waits for its backoff, its host or a stream: nothing is lost, and each wait can be cancelled and repeated."""

from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
import trio
import trio.lowlevel
import trio.testing
from support.failing import PATH, failing
from support.mesh import bidi, method
from support.tasks import task_names

from trxds import RpcError, StatusCode
from trxds.core.status import Status
from trxds.transport.options import WireOptions


async def test_messages_sent_while_a_retry_waits_for_a_stream_are_not_lost(nursery, autojump_clock):
    received = []

    async def refuse_and_then_read_late(call):
        if call.metadata.first("grpc-previous-rpc-attempts") is None:
            await call.receive()
            await call.receive()
            call.abort(StatusCode.UNAVAILABLE, "told to")
        await call.send_initial_metadata()
        await trio.sleep(5)
        async for message in call:
            received.append(message)
        await call.send(b"end")

    async with failing(0, options=WireOptions(stream_window=65_535)) as (mesh, channel, _):
        (server,) = mesh.servers.values()
        server.handlers[PATH] = refuse_and_then_read_late
        async with bidi(channel, PATH).open() as call:
            nursery.start_soon(call.receive)
            await call.send(b"a" * 120_000)
            await call.send(b"b" * 120_000)
            await trio.sleep(14)
            await call.send(b"c")
            call.done_sending()
            await trio.sleep(30)
        assert [message[:1] for message in received] == [b"a", b"b", b"c"]


@asynccontextmanager
async def queued_retry(nursery):
    """Yield a call whose next attempt waits in its host's queue, for the only stream, which the call `other` has.

    `waiting` is the cancel scope of the task that waits for the attempt.
    """
    waiting, options = trio.CancelScope(), WireOptions(max_concurrent_streams=1)

    async def wait():
        with waiting:
            await call.wait_initial_metadata()

    async with failing(1, options=options) as (mesh, channel, handler), bidi(channel, PATH).open(b"fail") as call:
        nursery.start_soon(wait)
        await trio.sleep(1)  # in the backoff
        async with bidi(channel).open(b"") as other:
            await other.receive()
            await trio.sleep(20)
            (server,) = mesh.servers.values()
            yield SimpleNamespace(call=call, handler=handler, other=other, waiting=waiting, server=server)


async def test_messages_sent_while_a_retry_waits_in_its_hosts_queue_follow_the_replay(nursery, autojump_clock):
    async with queued_retry(nursery) as queued:
        nursery.start_soon(queued.call.send, b"late")
        await trio.testing.wait_all_tasks_blocked()
        queued.other.cancel()
        await trio.sleep(1)
        assert queued.handler.attempts[1] == ("1", [b"fail", b"late"])


async def test_the_end_of_a_request_while_a_retry_waits_in_its_hosts_queue_follows_the_replay(nursery, autojump_clock):
    async with queued_retry(nursery) as queued:
        queued.call.done_sending()
        queued.other.cancel()
        await trio.sleep(1)
        assert queued.handler.attempts[1] == ("1", [b"fail"])


async def test_a_wait_that_is_cancelled_while_a_retry_is_in_its_hosts_queue_can_be_repeated(nursery, autojump_clock):
    async with queued_retry(nursery) as queued:
        queued.waiting.cancel()
        await trio.testing.wait_all_tasks_blocked()
        queued.other.cancel()
        with trio.fail_after(5):
            assert await queued.call.receive() == b"fail"
        assert queued.handler.attempts[1] == ("1", [b"fail"])


async def test_a_second_task_that_receives_follows_a_retry_whose_connection_is_lost_in_the_queue(
    nursery, autojump_clock
):
    received = []

    async def receive():
        received.append(await queued.call.receive())

    async with queued_retry(nursery) as queued:
        nursery.start_soon(receive)
        await trio.testing.wait_all_tasks_blocked()
        queued.server.connections[0].drop()
        await trio.sleep(1)
        assert received == [b"fail"]


async def test_wait_initial_metadata_goes_on_over_a_retry(autojump_clock):
    async with failing(1) as (_, channel, _), bidi(channel, PATH).open(b"fail") as call:
        call.done_sending()
        assert (await call.wait_initial_metadata()).first("set-cookie")


async def poll(receive):
    """Call `receive` and cancel it each second, until it returns."""
    while True:
        with trio.move_on_after(1):
            return await receive()


async def test_a_wait_that_is_cancelled_in_a_backoff_goes_on_with_it(autojump_clock):
    async with failing(2) as (_, channel, handler), bidi(channel, PATH).open(b"fail") as call:
        call.done_sending()
        began = trio.current_time()
        assert await poll(call.receive) == b"fail"
        assert 16 <= trio.current_time() - began <= 24
        assert [number for number, _ in handler.attempts] == [None, "1", "2"]


@pytest.mark.parametrize("method", ["receive", "wait_initial_metadata"])
async def test_a_wait_that_is_cancelled_while_a_retry_connects_can_be_repeated(method, autojump_clock):
    async with failing(1) as (mesh, channel, handler), bidi(channel, PATH).open(b"fail") as call:
        call.done_sending()
        with trio.move_on_after(1):
            await call.receive()
        mesh.network.black_hole(mesh.hosts[0])
        mesh.network.cut(mesh.hosts[0])
        with trio.move_on_after(19):
            await call.receive()
        mesh.network.restore(mesh.hosts[0])
        assert await poll(getattr(call, method))
        assert len(handler.attempts) == 2


async def test_a_wait_that_is_cancelled_in_the_backoff_of_a_failed_pick_goes_on_with_it(autojump_clock):
    async with failing(1) as (mesh, channel, handler), bidi(channel, PATH).open(b"fail") as call:
        with trio.move_on_after(1):
            await call.receive()
        mesh.endpoints("cart", [])
        await trio.sleep(12)
        with trio.move_on_after(1):
            await call.receive()  # finds no host
        began = trio.current_time()
        mesh.endpoints("cart", mesh.hosts)
        assert await poll(call.receive) == b"fail"
        assert 6 <= trio.current_time() - began <= 12
        assert [number for number, _ in handler.attempts] == [None, "2"]


async def test_a_call_whose_time_is_over_while_a_retry_connects_makes_no_attempt_any_more(autojump_clock):
    async with failing(1) as (mesh, channel, handler), bidi(channel, PATH).open(b"fail", timeout=15) as call:
        await trio.sleep(1)
        mesh.network.black_hole(mesh.hosts[0])
        mesh.network.cut(mesh.hosts[0])
        for _ in range(2):
            with pytest.raises(RpcError, match="DEADLINE_EXCEEDED"):
                await call.receive()
            mesh.network.restore(mesh.hosts[0])
            await trio.sleep(60)
        assert len(handler.attempts) == 1


async def test_a_task_that_receives_while_another_ones_retry_connects_gets_the_answer(autojump_clock):
    async with failing(1) as (mesh, channel, _), bidi(channel, PATH).open(b"fail") as call:
        call.done_sending()
        async with trio.open_nursery() as waiting:
            waiting.start_soon(call.wait_initial_metadata)
            await trio.sleep(1)
            mesh.network.black_hole(mesh.hosts[0])
            mesh.network.cut(mesh.hosts[0])
            await trio.sleep(19)
            mesh.network.restore(mesh.hosts[0])
            assert await call.receive() == b"fail"


@pytest.mark.parametrize("first", ["headers", "message"])
async def test_two_tasks_that_wait_for_a_response_both_go_on_with_the_next_attempt(first, autojump_clock):
    got = {}
    async with failing(1) as (_, channel, handler), bidi(channel, PATH).open(b"fail") as call:

        async def headers():
            got["headers"] = (await call.wait_initial_metadata()).first("set-cookie") is not None

        async def message():
            got["message"] = await call.receive()

        call.done_sending()
        async with trio.open_nursery() as nursery:
            for step in (headers, message) if first == "headers" else (message, headers):
                nursery.start_soon(step)
                await trio.testing.wait_all_tasks_blocked()
        assert got == {"headers": True, "message": b"fail"}
        assert len(handler.attempts) == 2


async def test_a_call_in_backoff_holds_its_cluster(nursery, autojump_clock):
    async with failing(1) as (mesh, channel, _):
        answers = []

        async def call():
            answers.append(await method(channel, PATH)(b"x"))

        nursery.start_soon(call)
        await trio.sleep(1)
        mesh.cluster("other")
        mesh.endpoints("other", mesh.hosts)
        mesh.route("other")
        await trio.sleep(1)
        assert "cluster/cart" in task_names()
        await trio.sleep(30)
        assert answers == [b"x"]
        assert "cluster/cart" not in task_names()


async def test_a_call_in_backoff_ends_with_the_channel(nursery, autojump_clock):
    outcome = []

    async def call(channel):
        with pytest.raises(RpcError) as ended:
            await method(channel, PATH)(b"x")
        outcome.append(ended.value.status)

    async with failing(9) as (_, channel, _):
        nursery.start_soon(call, channel)
        await trio.sleep(1)
    await trio.lowlevel.checkpoint()
    assert outcome == [Status(StatusCode.CANCELLED, "channel closed")]
