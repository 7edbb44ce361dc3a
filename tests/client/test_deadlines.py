"""The nearest deadline ends a call: `timeout=`, the caller's cancel scope or the route's (docs/concurrency.md)."""

from contextlib import suppress

import pytest
import trio
import trio.testing
from support.mesh import Mesh, bidi, method
from trio.testing import wait_all_tasks_blocked

from trxds import RpcError, StatusCode
from trxds.testing import resources as xds

SILENT = "/shop.Cart/Silent"


class Silent:
    """A handler that never responds, and records the timeouts it got."""

    def __init__(self):
        self.timeouts = []
        self.ended = []

    async def __call__(self, call):
        self.timeouts.append(call.deadline - trio.current_time())
        try:
            await trio.sleep_forever()
        finally:
            self.ended.append(trio.current_time())


@pytest.fixture
async def silent(autojump_clock):
    async with Mesh.run(1) as mesh:
        handler = mesh.servers[mesh.hosts[0]].handlers[SILENT] = Silent()
        async with mesh.channel() as channel:
            await method(channel)(b"")
            handler.mesh, handler.call, handler.open = mesh, method(channel, SILENT), bidi(channel, SILENT).open
            yield handler


async def test_a_timeout_raises_deadline_exceeded_and_says_what_was_waited_for(silent, autojump_clock):
    began = trio.current_time()
    with pytest.raises(RpcError) as caught:
        await silent.call(b"", timeout=2)
    assert trio.current_time() - began == pytest.approx(2)
    assert caught.value.status.code is StatusCode.DEADLINE_EXCEEDED
    assert caught.value.status.message.endswith("waiting for the response")
    assert str(caught.value).endswith(f"(host {silent.mesh.hosts[0]})")


async def test_a_call_whose_server_does_not_read_says_that_it_had_no_room_to_send(silent, autojump_clock):
    async with silent.open(timeout=2) as call:
        with pytest.raises(RpcError, match="not done after 2 s, waiting for room to send"):
            for _ in range(1000):
                await call.send(bytes(10_000))


async def test_the_message_of_deadline_exceeded_has_the_timeout_and_not_the_time_taken(silent, autojump_clock):
    said = []

    async def call() -> None:
        with pytest.raises(RpcError) as caught:
            await silent.call(b"", timeout=2)
        said.append(caught.value.status.message)

    for late in (2, 2.5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await wait_all_tasks_blocked()
            autojump_clock.jump(late)
    assert said == ["/shop.Cart/Silent: not done after 2 s, waiting for the response"] * 2


async def test_the_timeout_of_a_call_is_sent_to_the_server(silent, autojump_clock):
    with pytest.raises(RpcError):
        await silent.call(b"", timeout=2)
    assert silent.timeouts == [pytest.approx(2)]


async def test_the_deadline_of_the_callers_cancel_scope_is_sent_to_the_server(silent, autojump_clock):
    with trio.move_on_after(3):
        await silent.call(b"", timeout=5)
    assert silent.timeouts == [pytest.approx(3)]


async def test_the_callers_cancel_scope_ends_the_call_by_cancellation(silent, autojump_clock):
    with trio.move_on_after(3) as scope:
        await silent.call(b"", timeout=5)
    assert scope.cancelled_caught


async def test_a_server_that_reports_the_deadline_first_leaves_the_end_to_the_cancel_scope(silent, autojump_clock):
    async def hasty(call):
        await trio.sleep(2.95)
        call.abort(StatusCode.DEADLINE_EXCEEDED, "too late")

    silent.mesh.servers[silent.mesh.hosts[0]].handlers[SILENT] = hasty
    with trio.move_on_after(3) as scope:
        await silent.call(b"")
    assert scope.cancelled_caught


async def test_deadline_exceeded_long_before_the_deadline_is_the_servers_status(silent, autojump_clock):
    async def hasty(call):
        await trio.sleep(1)
        call.abort(StatusCode.DEADLINE_EXCEEDED, "mine was shorter")

    silent.mesh.servers[silent.mesh.hosts[0]].handlers[SILENT] = hasty
    with trio.fail_after(3), pytest.raises(RpcError, match="mine was shorter"):
        await silent.call(b"")


async def test_a_timeout_just_before_the_deadline_of_the_cancel_scope_is_the_calls(silent, autojump_clock):
    with trio.fail_after(3), pytest.raises(RpcError, match="DEADLINE_EXCEEDED"):
        await silent.call(b"", timeout=2.95)


async def test_another_failure_just_before_the_deadline_is_the_calls(silent, autojump_clock):
    async def hasty(call):
        await trio.sleep(2.95)
        call.abort(StatusCode.UNAVAILABLE, "going down")

    silent.mesh.servers[silent.mesh.hosts[0]].handlers[SILENT] = hasty
    with trio.fail_after(3), pytest.raises(RpcError, match="going down"):
        await silent.call(b"")


async def test_a_cancelled_call_is_reset_at_the_server(silent, autojump_clock):
    with trio.move_on_after(1):
        await silent.call(b"")
    await wait_all_tasks_blocked()
    assert len(silent.ended) == 1


async def test_a_call_in_a_cancelled_scope_sends_nothing(silent, autojump_clock):
    with trio.CancelScope() as scope:
        scope.cancel()
        await silent.call(b"")
    await wait_all_tasks_blocked()
    assert silent.timeouts == []


async def test_max_stream_duration_counts_from_the_calls_start_and_is_sent_to_the_server(silent, autojump_clock):
    limited = xds.route("cart")
    limited["route"]["max_stream_duration"] = {"max_stream_duration": "4s"}
    silent.mesh.plane.put(xds.routes("routes", limited))
    await trio.sleep(1)
    began = trio.current_time()
    with pytest.raises(RpcError) as caught:
        await silent.call(b"", timeout=10)
    assert caught.value.status.code is StatusCode.DEADLINE_EXCEEDED
    assert trio.current_time() - began == pytest.approx(4)
    assert silent.timeouts == [pytest.approx(4)]


async def test_max_stream_duration_does_not_extend_the_callers_timeout(silent, autojump_clock):
    limited = xds.route("cart")
    limited["route"]["max_stream_duration"] = {"max_stream_duration": "4s"}
    silent.mesh.plane.put(xds.routes("routes", limited))
    await trio.sleep(1)
    with pytest.raises(RpcError, match="not done after 2 s"):
        await silent.call(b"", timeout=2)
    assert silent.timeouts == [pytest.approx(2)]


async def test_the_timeout_runs_while_there_is_no_host(autojump_clock):
    async with Mesh.run(1) as mesh:
        mesh.network.black_hole(mesh.hosts[0])
        async with mesh.channel() as channel:
            with pytest.raises(RpcError, match="a host of cluster cart to connect"):
                await method(channel)(b"", timeout=2)


async def test_the_timeout_runs_while_there_is_no_configuration(autojump_clock):
    async with Mesh.run(1) as mesh:
        mesh.plane.withhold("LDS")
        async with mesh.channel() as channel:
            with pytest.raises(RpcError, match="a configuration from the control plane"):
                await method(channel)(b"", timeout=2)


async def test_a_stream_idle_past_its_deadline_raises_at_its_next_wait(silent, autojump_clock):
    async with silent.open(timeout=2) as call:
        await trio.sleep(3)
        with pytest.raises(RpcError) as caught:
            await call.receive()
    assert caught.value.status.code is StatusCode.DEADLINE_EXCEEDED


async def test_a_stream_whose_time_is_over_is_in_flight_no_more_while_its_block_goes_on(silent, autojump_clock):
    silent.mesh.plane.put({**xds.cluster("cart"), "circuit_breakers": {"thresholds": [{"max_requests": 1}]}})
    await wait_all_tasks_blocked()
    async with silent.open(timeout=2) as call:
        with pytest.raises(RpcError, match="max_requests"):
            await silent.call(b"")
        with pytest.raises(RpcError, match="DEADLINE_EXCEEDED"):
            await call.receive()
        with pytest.raises(RpcError, match="DEADLINE_EXCEEDED"):
            await silent.call(b"", timeout=1)


async def test_a_stream_whose_time_is_over_has_that_as_its_status(silent, autojump_clock):
    async with silent.open(timeout=2) as call:
        with pytest.raises(RpcError) as caught:
            await call.receive()
        assert call.status == caught.value.status
        assert (call.cancel(), call.status) == (False, caught.value.status)


@pytest.mark.parametrize("code", [StatusCode.NOT_FOUND, StatusCode.OK])
async def test_a_call_that_ended_before_its_deadline_keeps_its_end(code, autojump_clock):
    async def end(call):
        if code is not StatusCode.OK:
            call.abort(code, "gone")

    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/End"] = end
        async with bidi(channel, "/shop.Cart/End").open(timeout=2) as call:
            with suppress(RpcError):
                await call.receive()
            await trio.sleep(3)
            if code is StatusCode.OK:
                assert not await call.send(b"x")
            else:
                with pytest.raises(RpcError, match="NOT_FOUND: gone"):
                    await call.send(b"x")
            assert call.status.code is code


async def test_a_stream_with_a_deadline_keeps_nothing_of_its_waits(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, bidi(channel).open(timeout=1000) as call:
        for _ in range(3):
            await call.send(b"x")
            await call.receive()
        assert call._rpc.scope._scopes == []


async def test_a_timeout_of_zero_sends_nothing(silent, autojump_clock):
    with pytest.raises(RpcError, match=r"DEADLINE_EXCEEDED: .*its time was over when it began"):
        await silent.call(b"", timeout=0)
    await wait_all_tasks_blocked()
    assert silent.timeouts == []


async def test_a_caller_that_repeats_a_call_without_time_starves_no_task(silent, autojump_clock):
    with trio.testing.assert_checkpoints(), pytest.raises(RpcError, match="DEADLINE_EXCEEDED"):
        await silent.call(b"", timeout=0)


async def test_a_call_without_time_in_a_cancelled_scope_is_cancelled(silent, autojump_clock):
    with trio.CancelScope() as scope:
        scope.cancel()
        await silent.call(b"", timeout=0)
    assert scope.cancelled_caught


async def test_a_timeout_that_is_no_number_is_a_type_error(silent, autojump_clock):
    with pytest.raises(TypeError, match="number of seconds or None, not '5'"):
        await silent.call(b"", timeout="5")
