"""Calls whose ends meet: a block is left, a session closes or the sending ends while other tasks still use the call."""

import math

import pytest
import trio
import trio.testing
from support.bad_peers import listening, website
from support.failing import PATH as FAIL
from support.failing import failing
from support.hedged import HEDGING, PATH, THROTTLE, Hedged, Host
from support.mesh import Mesh, bidi, method
from support.own_filters import listen, own

from trxds import RpcError, Status, StatusCode
from trxds.client.call import CallSteps
from trxds.client.call_scope import CallScope
from trxds.core.connectivity import Connectivity
from trxds.core.status import CANCELLED, OK
from trxds.filters import FilterCall
from trxds.lb.pick import QUEUE_PICKER

TOLD = "/shop.Cart/Told"


class Open:
    closed = False


async def test_a_failure_behind_ok_has_its_reason_and_the_call_stays_ok(autojump_clock):
    scope = CallScope(Open(), PATH, 0.0, None, "")
    scope.end(OK)
    assert scope.end(CANCELLED).status is CANCELLED
    assert scope.status is OK


async def test_headers_of_a_trailers_only_ok_that_nobody_took_are_empty_after_the_block(autojump_clock):
    async def end(call):
        async for _ in call:
            break

    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        mesh.servers[mesh.hosts[0]].handlers[TOLD] = end
        async with bidi(channel, TOLD).open(b"x") as call:
            await trio.sleep(1)
        assert call.status == OK
        assert not await call.wait_initial_metadata()


async def test_a_hedged_attempt_with_an_http_error_takes_one_token(hedged, autojump_clock):
    proxy, attempts = "10.0.9.9:50051", []
    policy = HEDGING | {"maxAttempts": 2, "hedgingDelay": "10s"}
    async with (
        hedged(policy=policy, throttling=THROTTLE | {"maxTokens": 10}) as world,
        listening(world.mesh.network, proxy, website("503", attempts)),
    ):
        world.mesh.endpoints("cart", [proxy])
        await trio.testing.wait_all_tasks_blocked()
        assert (await world.failure()).code is StatusCode.UNAVAILABLE
        assert len(attempts) == 2 and world.channel._state.throttle.tokens == 8


async def test_an_unreadable_message_behind_a_failure_leaves_the_status_of_that(autojump_clock):
    def parsed(payload):
        raise ValueError(payload)

    async def fail(call):
        async for _ in call:
            break
        await call.send(b"bad")
        call.abort(StatusCode.UNAVAILABLE, "told to")

    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        mesh.servers[mesh.hosts[0]].handlers[TOLD] = fail
        many = channel.method(TOLD, None, parsed, client_streaming=True, server_streaming=True)
        async with many.open() as call:
            await call.send(b"x")
            await trio.sleep(1)
            with pytest.raises(RpcError, match="told to"):
                await call.send(b"x")
            with pytest.raises(RpcError):
                list(CallSteps(call).receive_arrived())
            assert call.status == Status(StatusCode.UNAVAILABLE, "told to")
            assert not call.cancel()


async def test_a_filter_that_raises_leaves_the_servers_trailing_metadata_to_the_caller(autojump_clock):
    class Raising(FilterCall):
        def on_receive(self, message):
            raise ValueError("a bug")

    async def answer(call):
        call.set_trailing_metadata([("x-cost", "7")])
        async for message in call:
            await call.send(message)

    async with Mesh.run(1) as mesh:
        listen(mesh, "own")
        mesh.servers[mesh.hosts[0]].handlers[TOLD] = answer
        async with mesh.channel(http_filters=own(lambda call: Raising())) as channel:
            with pytest.raises(RpcError, match="INTERNAL") as caught:
                await method(channel, TOLD)(b"x")
    assert caught.value.trailing_metadata.first("x-cost") == "7"


async def test_a_task_makes_no_further_attempt_once_the_block_is_left(nursery, autojump_clock):
    async def receive(call):
        with pytest.raises(RpcError, match="CANCELLED"):
            await call.receive()
        ended.append(trio.current_time())

    ended = []
    async with failing(1) as (_, channel, handler):
        live = channel._state.data_plane
        async with bidi(channel, FAIL).open(b"fail") as call:
            nursery.start_soon(receive, call)
            await trio.sleep(1)
            selector, picker = live.current.selector, live.current.picker
            live.publish(selector, QUEUE_PICKER, Connectivity.CONNECTING)
            await trio.sleep(20)  # behind the backoff: the task waits for a host
            assert not ended
        await trio.testing.wait_all_tasks_blocked()
        assert len(ended) == 1
        live.publish(selector, picker, Connectivity.READY)
        await trio.sleep(5)
        assert len(handler.attempts) == 1


async def test_a_hedged_stream_that_is_left_ends_the_wait_of_its_other_tasks(monkeypatch, nursery, autojump_clock):
    async def receive(call):
        with pytest.raises(RpcError, match="CANCELLED"):
            await call.receive()
        ended.append(call)

    ended = []
    async with Hedged(monkeypatch) as world:
        world.serve(Host(math.inf))
        with trio.fail_after(60):
            async with bidi(world.channel, PATH).open(b"x") as call:
                nursery.start_soon(receive, call)
                await trio.sleep(0.5)
            await receive(call)
    assert len(ended) == 2


async def test_done_sending_during_a_send_ends_that(nursery, autojump_clock):
    async def done_sending(call):
        call.done_sending()

    async def send(call):
        with pytest.raises(trio.ClosedResourceError, match="nothing more can be sent"):
            await call.send(bytes(1_000_000))
        ended.append(call)

    async def never_read(call):
        await trio.sleep_forever()

    ended = []
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        mesh.servers[mesh.hosts[0]].handlers[TOLD] = never_read
        async with bidi(channel, TOLD).open() as call:
            await call.send(bytes(60_000))
            async with trio.open_nursery() as both:
                both.start_soon(send, call)
                both.start_soon(done_sending, call)
                await trio.testing.wait_all_tasks_blocked()
                both.cancel_scope.cancel()
    assert ended
