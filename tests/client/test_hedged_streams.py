"""Hedged streams (A6) send all messages on every attempt until one is chosen."""

import pytest
import trio
import trio.testing
from support.hedged import PATH, Host, queued_hedge
from support.mesh import bidi, method
from support.tasks import task_names

from trxds import RpcError, StatusCode
from trxds.core.status import Status


async def test_a_hedged_stream_sends_all_messages_on_every_attempt_and_goes_on_with_the_chosen(hedged, autojump_clock):
    async with hedged() as world:
        host = world.serve(Host(100, 0.5))
        async with bidi(world.channel, PATH).open() as call:
            await call.send(b"one")
            await trio.sleep(1.2)
            await call.send(b"two")
            assert await call.receive() == b"1"
            await call.send(b"three")
            call.done_sending()
            with pytest.raises(trio.ClosedResourceError):
                await call.send(b"four")
            assert await call.receive() is None
            await trio.testing.wait_all_tasks_blocked()
        assert host.said == [[b"one", b"two"], [b"one", b"two", b"three"]]


async def test_a_hedged_stream_over_the_replay_buffer_commits_to_one_attempt(hedged, autojump_clock):
    async with hedged() as world:
        host = world.serve(Host(10))
        async with bidi(world.channel, PATH).open() as call:
            for _ in range(5):
                await call.send(bytes(100_000))
            assert call.peer == world.mesh.hosts[0]
            call.done_sending()
            assert await call.receive() == b"0"
        assert host.times == [0] and [len(each) for each in host.said[0]] == [100_000] * 5


async def test_leaving_a_hedged_stream_cancels_all_attempts(hedged, autojump_clock):
    async with hedged() as world:
        host = world.serve(Host(100))
        async with bidi(world.channel, PATH).open(b"one"):
            await trio.sleep(1.5)
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(host.over) == [0, 1]
        assert not [name for name in task_names() if name.startswith("hedge")]
        assert world.channel._state.calls.open == {}


async def test_the_callers_own_exception_leaves_a_hedged_stream_as_it_is(hedged, autojump_clock):
    async with hedged() as world:
        world.serve(Host(100))
        with pytest.raises(KeyError, match="mine"):
            async with bidi(world.channel, PATH).open():
                raise KeyError("mine")


async def test_a_message_over_max_send_size_ends_a_hedged_call(hedged, autojump_clock):
    async with hedged() as world:
        world.channel._state.defaults = world.channel._state.defaults.__class__(max_send_size=10)
        world.serve(Host(100))
        async with bidi(world.channel, PATH).open() as call:
            for step in (lambda: call.send(bytes(11)), call.receive):
                with pytest.raises(RpcError, match="larger than the limit of 10"):
                    await step()


@pytest.mark.parametrize("kind", [method, bidi])
async def test_a_hedged_call_ends_with_its_channel(kind, hedged, nursery, autojump_clock):
    ended = []

    async def call(channel):
        with pytest.raises(RpcError) as caught:
            async with kind(channel, PATH).open(b"x") as opened:
                await opened.receive()
        ended.append(caught.value.status)

    async with hedged() as world:
        world.serve(Host(100))
        nursery.start_soon(call, world.channel)
        await trio.sleep(1.5)
        world.channel._state.close()
        await trio.testing.wait_all_tasks_blocked()
        assert ended == [Status(StatusCode.CANCELLED, "channel closed")]


async def test_the_attempts_of_a_hedged_stream_end_with_its_session(hedged, autojump_clock):
    async with hedged() as world, trio.open_nursery() as nursery:
        host = world.serve(Host(100))

        async def hold(session, task_status):
            with pytest.raises(RpcError, match="session closed"):
                async with bidi(session, PATH).open(b"one") as call:
                    task_status.started()
                    await trio.sleep(50)
                    assert host.over == [0]
                    await call.receive()

        async with world.channel.session() as session:
            await nursery.start(hold, session)
            await trio.testing.wait_all_tasks_blocked()


async def test_a_message_sent_in_the_step_in_which_a_queued_hedge_opens_is_sent_once(monkeypatch, autojump_clock):
    async with queued_hedge(monkeypatch, lambda call: call._rpc.hedging.send(b"two")) as (call, host):
        assert await call.receive() == b"1"
        call.done_sending()
        assert await call.receive() is None
        assert host.said[1] == [b"one", b"two"]
