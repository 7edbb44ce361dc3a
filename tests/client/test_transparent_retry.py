"""Calls that no server has processed are retried transparently (A6)."""

import pytest
import trio
from msgspec import structs
from support.mesh import Mesh, ask, bidi, method
from support.watching import Watcher

from trxds import RpcError, StatusCode
from trxds.transport.h2_engine import ErrorCode


async def test_new_calls_after_a_goaway_use_a_new_connection(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        (server,) = mesh.servers.values()
        await ask(channel)
        server.goaway()
        assert await ask(channel) == mesh.hosts[0]
        assert mesh.network.attempts[mesh.hosts[0]] == 2


async def test_open_streams_finish_after_a_goaway(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, bidi(channel).open(b"one") as call:
        (server,) = mesh.servers.values()
        await call.receive()
        server.goaway()
        await trio.sleep(1)
        await call.send(b"two")
        assert (await call.receive()).endswith(b"two")
        call.done_sending()
        assert await call.receive() is None


async def test_calls_beyond_max_concurrent_streams_wait_and_succeed(autojump_clock):
    running = most = 0

    async def slow(call):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.sleep(1)
        running -= 1
        await call.send(b"")

    async with Mesh.run(0) as mesh:
        host = await mesh.add_host(max_concurrent_streams=2)
        mesh.servers[host].handlers["/shop.Cart/Slow"] = slow
        mesh.endpoints("cart", [host])
        async with mesh.channel() as channel:
            await ask(channel)
            began = trio.current_time()
            async with trio.open_nursery() as calls:
                for _ in range(10):
                    calls.start_soon(method(channel, "/shop.Cart/Slow"), b"")
            assert most == 2
            assert trio.current_time() - began == pytest.approx(5)


async def test_queued_calls_move_to_another_host_when_their_connection_is_lost(autojump_clock):
    async def silent(call):
        await trio.sleep_forever()

    async with Mesh.run(0) as mesh:
        host = await mesh.add_host(max_concurrent_streams=1)
        mesh.servers[host].handlers["/shop.Cart/Silent"] = silent
        mesh.endpoints("cart", [host])
        answers = []
        async with mesh.channel() as channel:
            await ask(channel)

            async def first():
                with pytest.raises(RpcError) as lost:
                    await method(channel, "/shop.Cart/Silent")(b"")
                answers.append(lost.value.status.code)

            async def second():
                answers.append(await ask(channel))

            async with trio.open_nursery() as calls:
                calls.start_soon(first)
                await trio.sleep(1)
                calls.start_soon(second)
                await trio.sleep(1)
                assert answers == []
                mesh.network.cut(host)
            assert set(answers) == {StatusCode.UNAVAILABLE, host}


class Refuses:
    """Ends the first calls with RST_STREAM(REFUSED_STREAM)."""

    def __init__(self, times):
        self.left = times

    async def __call__(self, call):
        if self.left:
            self.left -= 1
            call.reset(ErrorCode.REFUSED_STREAM)
            return
        async for message in call:
            await call.send(message)


async def refusing(mesh, times):
    handler = mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/Refuse"] = Refuses(times)
    return handler


async def test_a_refused_stream_is_retried_transparently(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await refusing(mesh, 1)
        assert await method(channel, "/shop.Cart/Refuse")(b"x") == b"x"


async def test_a_stream_refused_twice_fails_the_call(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await refusing(mesh, 2)
        with pytest.raises(RpcError, match="UNAVAILABLE"):
            await method(channel, "/shop.Cart/Refuse")(b"x")


async def test_a_call_that_was_never_sent_is_retried_transparently_without_limit(nursery, autojump_clock):
    async with Mesh.run(0) as mesh:
        host = await mesh.add_host(max_concurrent_streams=0)
        mesh.endpoints("cart", [host])
        (server,) = mesh.servers.values()
        answers = []

        async def call(channel):
            answers.append(await ask(channel))

        async with mesh.channel() as channel:
            nursery.start_soon(call, channel)
            for allowed in (0, 0, 0, 1):
                await trio.sleep(1)
                assert answers == []
                server.options = structs.replace(server.options, max_concurrent_streams=allowed)
                server.goaway()
            await trio.sleep(1)
            assert answers == [host]
            assert mesh.network.attempts[host] == 5


async def test_a_call_that_leaves_the_queue_of_a_lost_connection_is_the_same_attempt(nursery, autojump_clock):
    # No server has seen it, so it is no retry, not even a transparent one.
    watcher = Watcher()
    async with Mesh.run(0) as mesh:
        host = await mesh.add_host(max_concurrent_streams=0)
        mesh.endpoints("cart", [host])
        server = mesh.servers[host]
        async with mesh.channel() as channel:
            with channel.observed_by(watcher):
                nursery.start_soon(ask, channel)
                await trio.sleep(1)
                server.options = structs.replace(server.options, max_concurrent_streams=1)
                server.goaway()
                await trio.sleep(1)
    assert watcher.of("attempt", "ended") == ["attempt 0", "ended OK"]


async def test_a_refused_open_call_replays_its_message(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await refusing(mesh, 1)
        async with bidi(channel, "/shop.Cart/Refuse").open(b"x") as call:
            assert await call.receive() == b"x"


async def test_a_lost_connection_fails_the_calls_on_it_and_names_the_host(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, bidi(channel).open(b"one") as call:
        await call.receive()
        mesh.network.cut(mesh.hosts[0])
        with pytest.raises(RpcError, match=mesh.hosts[0]) as caught:
            await call.receive()
        assert caught.value.status.code is StatusCode.UNAVAILABLE
