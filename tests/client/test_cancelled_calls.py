"""`Call.cancel` ends an open call with CANCELLED, for every task that waits for it and for all that come later."""

from __future__ import annotations

import gc
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing
from support.mesh import Mesh, bidi, method
from support.method_config import configured, for_all

from trxds import FixedResponseCall, ForwardingCall, RpcError, Status, StatusCode
from trxds.testing import resources as xds
from trxds.transport.options import WireOptions

PATH = "/shop.Cart/Fail"  # the method to which `configured` applies
RETRY = {
    "maxAttempts": 3,
    "initialBackoff": "10s",
    "maxBackoff": "10s",
    "backoffMultiplier": 1,
    "retryableStatusCodes": ["UNAVAILABLE"],
}
HEDGING = {"maxAttempts": 3, "hedgingDelay": "1s", "nonFatalStatusCodes": ["UNAVAILABLE"]}


class Host:
    """A handler that does with each message what it says, and counts its calls and how they end."""

    def __init__(self):
        self.began = self.cancelled = 0
        self.over = trio.Event()

    async def __call__(self, call):
        self.began += 1
        try:
            async for message in call:
                match message:
                    case b"echo":
                        await call.send(message)
                    case b"headers":
                        await call.send_initial_metadata([("x-host", "7")])
                    case b"fail":
                        call.abort(StatusCode.UNAVAILABLE, "told to")
                    case b"stop reading":
                        await trio.sleep_forever()
            await trio.sleep_forever()
        except trio.Cancelled:
            self.cancelled += 1
            self.over.set()
            raise


@asynccontextmanager
async def served(channel_of=Mesh.channel, **options):
    async with Mesh.run(1) as mesh:
        host = mesh.servers[mesh.hosts[0]].handlers[PATH] = Host()
        mesh.servers[mesh.hosts[0]].options = WireOptions(stream_window=1000, max_stream_window=1000)
        async with channel_of(mesh, **options) as channel:
            yield channel, host


def with_config(monkeypatch, **fields):
    return lambda mesh: configured(monkeypatch, mesh, for_all(None, **fields))


async def cancelled_while(call, step):
    """Cancel the call while another task is in `step`, and return what that raised."""
    caught = []

    async def run():
        with pytest.raises(RpcError) as error:
            await step()
        caught.append(error.value)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await trio.testing.wait_all_tasks_blocked()
        assert not caught
        assert call.cancel()
    return caught[0]


@pytest.mark.parametrize("timeout", [None, 1000])
async def test_a_task_that_waits_in_receive_gets_cancelled_as_its_status(autojump_clock, timeout):
    async with served() as (channel, _), bidi(channel, PATH).open(b"echo", timeout=timeout) as call:
        assert await call.receive() == b"echo"
        error = await cancelled_while(call, call.receive)
        assert str(error.status) == "CANCELLED: cancelled by the client"
        assert (call.status, error.peer) == (error.status, call.peer)


async def test_a_cancelled_call_is_reset_at_the_server(autojump_clock):
    async with served() as (channel, host), bidi(channel, PATH).open(b"echo") as call:
        await call.receive()
        call.cancel()
        with trio.fail_after(1):
            await host.over.wait()
        assert host.cancelled == 1


async def test_a_call_whose_next_attempt_waits_for_a_host_is_cancelled(monkeypatch, autojump_clock):
    async with Mesh.run(1) as mesh, trio.open_nursery() as nursery:
        mesh.servers[mesh.hosts[0]].handlers[PATH] = Host()
        channels = configured(monkeypatch, mesh, for_all(None, retryPolicy=RETRY))
        async with channels as channel, bidi(channel, PATH).open(b"fail", wait_for_ready=True) as call:

            async def fails():
                with pytest.raises(RpcError, match="cancelled by the client"):
                    await call.receive()

            nursery.start_soon(fails)
            await trio.sleep(1)  # into the backoff
            mesh.endpoints("cart", [])
            await trio.sleep(20)
            assert call.peer == ""
            assert call.cancel()


async def test_a_task_that_waits_in_send_gets_cancelled(autojump_clock):
    async with served() as (channel, _), bidi(channel, PATH).open(b"stop reading") as call:
        error = await cancelled_while(call, partial(call.send, bytes(1_000_000)))
        assert error.status.code is StatusCode.CANCELLED


async def test_a_task_that_waits_for_initial_metadata_gets_cancelled(autojump_clock):
    async with served() as (channel, _), bidi(channel, PATH).open() as call:
        error = await cancelled_while(call, call.wait_initial_metadata)
        assert error.status.code is StatusCode.CANCELLED


async def test_an_iteration_over_a_cancelled_call_raises(autojump_clock):
    async def everything():
        return [reply async for reply in call]

    async with served() as (channel, _), bidi(channel, PATH).open(b"echo") as call:
        error = await cancelled_while(call, everything)
        assert error.status.code is StatusCode.CANCELLED


async def test_the_first_cancel_says_true_and_the_others_false(autojump_clock):
    async with served() as (channel, _), bidi(channel, PATH).open() as call:
        assert [call.cancel(), call.cancel()] == [True, False]


async def test_a_call_that_has_its_status_keeps_it(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, bidi(channel).open(b"a") as call:
        call.done_sending()
        assert len([reply async for reply in call]) == 1
        assert (call.cancel(), call.status.code) == (False, StatusCode.OK)
        assert await call.receive() is None


async def test_an_open_call_of_a_closed_channel_is_cancelled_already(autojump_clock):
    async with AsyncExitStack() as stack:
        channel, _ = await stack.enter_async_context(served())
        async with bidi(channel, PATH).open() as call:
            await stack.aclose()
            assert call.status == Status(StatusCode.CANCELLED, "channel closed")
            assert not call.cancel()


async def test_messages_that_came_before_a_cancel_are_dropped(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, bidi(channel).open(b"a") as call:
        call.done_sending()
        await trio.testing.wait_all_tasks_blocked()  # the reply and OK have come
        assert call.cancel()
        with pytest.raises(RpcError, match="CANCELLED"):
            await call.receive()


async def test_every_later_step_of_a_cancelled_call_is_a_checkpoint_and_raises(autojump_clock):
    async with served() as (channel, _), bidi(channel, PATH).open(b"echo") as call:
        await call.receive()
        call.cancel()
        for step in (call.receive, call.receive, partial(call.send, b"x")):
            with trio.testing.assert_checkpoints(), pytest.raises(RpcError, match="cancelled by the client"):
                await step()
        call.done_sending()  # as on any call that has ended


async def test_the_error_of_a_cancelled_call_has_the_headers_that_came(autojump_clock):
    async with served() as (channel, _), bidi(channel, PATH).open(b"headers") as call:
        await call.wait_initial_metadata()
        error = await cancelled_while(call, call.receive)
        assert error.initial_metadata.first("x-host") == "7"


async def test_a_cancelled_call_is_in_flight_no_more_while_its_block_goes_on(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        mesh.plane.put({**xds.cluster("cart"), "circuit_breakers": {"thresholds": [{"max_requests": 1}]}})
        await trio.sleep(1)
        async with bidi(channel).open(b"a") as call:
            with pytest.raises(RpcError, match="max_requests"):
                await method(channel)(b"b")
            call.cancel()
            await method(channel)(b"b")


async def test_a_cancelled_call_counts_as_failed(autojump_clock):
    async with served() as (channel, _):
        async with bidi(channel, PATH).open() as call:
            call.cancel()
        counts = channel.admin_view().calls
        assert (counts.started, counts.succeeded, counts.failed) == (1, 0, 1)


async def test_a_cancelled_call_with_one_reply_gets_none(autojump_clock):
    async with served() as (channel, host), channel.method(PATH).open(b"x") as call:
        error = await cancelled_while(call, call.receive)
        assert (error.status.code, host.began) == (StatusCode.CANCELLED, 1)


async def test_leaving_the_block_of_a_cancelled_call_raises_nothing(autojump_clock):
    async with served() as (channel, _), bidi(channel, PATH).open() as call:
        call.cancel()


async def test_a_cancelled_call_leaves_no_cycle(autojump_clock):
    async with served() as (channel, _):
        gc.collect()
        gc.disable()
        try:
            async with bidi(channel, PATH).open() as call:
                call.cancel()
            del call
            await trio.testing.wait_all_tasks_blocked()
            assert not [each for each in gc.get_objects() if type(each).__name__ in ("Rpc", "CallAttempts")]
        finally:
            gc.enable()


# -- between attempts


async def test_a_call_that_waits_for_its_next_attempt_is_cancelled_and_makes_none(monkeypatch, autojump_clock):
    async with served(with_config(monkeypatch, retryPolicy=RETRY)) as (channel, host):
        async with bidi(channel, PATH).open(b"fail") as call:
            began = trio.current_time()
            error = await cancelled_while(call, call.receive)
            assert (error.status.code, trio.current_time() - began) == (StatusCode.CANCELLED, 0)
            await trio.sleep(100)
        assert host.began == 1


async def test_nothing_is_buffered_for_the_next_attempt_of_a_cancelled_call(monkeypatch, autojump_clock):
    async with (
        served(with_config(monkeypatch, retryPolicy=RETRY)) as (channel, _),
        bidi(channel, PATH).open(b"fail") as call,
        trio.open_nursery() as nursery,
    ):

        async def send_later():
            await trio.testing.wait_all_tasks_blocked()
            call.cancel()
            with pytest.raises(RpcError, match="CANCELLED"):
                await call.send(b"x")

        nursery.start_soon(send_later)
        with pytest.raises(RpcError, match="CANCELLED"):
            await call.receive()


# -- hedging


async def test_all_attempts_of_a_cancelled_hedged_call_end(monkeypatch, autojump_clock):
    config = with_config(monkeypatch, hedgingPolicy=HEDGING)
    async with served(config) as (channel, host), bidi(channel, PATH).open(b"x") as call:
        await trio.sleep(1.5)
        assert host.began == 2
        error = await cancelled_while(call, call.receive)
        assert error.status.code is StatusCode.CANCELLED
        await trio.sleep(100)
        assert (host.began, host.cancelled) == (2, 2)


async def test_a_hedged_call_that_has_chosen_its_attempt_is_cancelled(monkeypatch, autojump_clock):
    config = with_config(monkeypatch, hedgingPolicy=HEDGING)
    async with served(config) as (channel, _), bidi(channel, PATH).open(b"echo") as call:
        assert await call.receive() == b"echo"
        error = await cancelled_while(call, call.receive)
        assert (error.status.code, call.status) == (StatusCode.CANCELLED, error.status)


async def test_a_hedged_call_whose_drop_nobody_was_told_of_is_cancelled(monkeypatch, autojump_clock):
    async with Mesh.run(1) as mesh, configured(monkeypatch, mesh, for_all(hedgingPolicy=HEDGING)) as channel:
        mesh.plane.put({**xds.cluster("cart"), "circuit_breakers": {"thresholds": [{"max_requests": 0}]}})
        await trio.sleep(1)
        async with bidi(channel, PATH).open() as call:
            await trio.testing.wait_all_tasks_blocked()  # the drop is there
            assert call.cancel()
            with pytest.raises(RpcError, match="CANCELLED"):
                await call.receive()
            assert call.status.code is StatusCode.CANCELLED


async def test_a_hedged_call_that_is_cancelled_before_it_sends_raises_in_send(monkeypatch, autojump_clock):
    config = with_config(monkeypatch, hedgingPolicy=HEDGING)
    async with served(config) as (channel, _), bidi(channel, PATH).open() as call:
        call.cancel()
        with pytest.raises(RpcError, match="CANCELLED"):
            await call.send(b"x")


# -- interceptors


async def test_a_forwarding_call_forwards_cancel(autojump_clock):
    @asynccontextmanager
    async def forwarding(details, next):
        async with next(details) as stream:
            yield ForwardingCall(stream)

    async with served(interceptors=[forwarding]) as (channel, _), bidi(channel, PATH).open() as call:
        error = await cancelled_while(call, call.receive)
        assert error.status == call.status


async def test_a_fixed_response_drops_its_replies_when_it_is_cancelled(autojump_clock):
    call = FixedResponseCall(b"a", b"b")
    assert await call.receive() == b"a"
    assert [call.cancel(), call.cancel()] == [True, False]
    with pytest.raises(RpcError, match="CANCELLED"):
        await call.receive()
    assert call.status.code is StatusCode.CANCELLED


async def test_a_fixed_response_that_is_over_cannot_be_cancelled(autojump_clock):
    call = FixedResponseCall(b"a")
    await call.receive()
    assert (call.cancel(), call.status.code) == (False, StatusCode.OK)
