"""Calls run in their callers' tasks, and end there when the channel closes (docs/concurrency.md)."""

import pytest
import trio
from support.mesh import Mesh, bidi, method
from trio.testing import wait_all_tasks_blocked

from trxds import RpcError, StatusCode
from trxds.client.call_scope import CallScope
from trxds.client.filter_protocol import Wait
from trxds.client.lifecycle import ChannelLifecycle


async def ended_by_closing(mesh, nursery, call, last=lambda: None):
    """Run `call(channel)` in a task outside the channel, and close the channel in one step with `last`."""
    outcome = []

    async def run(channel):
        try:
            await call(channel)
        except BaseException as error:
            outcome.append(error)
            if isinstance(error, trio.Cancelled):
                raise

    async with mesh.channel() as channel:
        nursery.start_soon(run, channel)
        await wait_all_tasks_blocked(0.01)
        assert outcome == [], "the call has to be under way when the channel closes"
        last()
    await wait_all_tasks_blocked()
    (error,) = outcome
    assert isinstance(error, RpcError)
    assert (error.status.code, error.status.message) == (StatusCode.CANCELLED, "channel closed")


async def test_closing_ends_a_call_that_waits_for_the_first_configuration(nursery, autojump_clock):
    async with Mesh.run(1) as mesh:
        mesh.plane.withhold("LDS")
        await ended_by_closing(mesh, nursery, lambda channel: method(channel)(b""))


async def test_closing_ends_a_call_that_is_queued_for_a_host(nursery, autojump_clock):
    async with Mesh.run(1) as mesh:
        mesh.network.black_hole(mesh.hosts[0])
        await ended_by_closing(mesh, nursery, lambda channel: method(channel)(b""))


async def test_closing_ends_a_call_in_a_filter(nursery, autojump_clock, monkeypatch):
    monkeypatch.setattr(
        "trxds.session_affinity.stateful_session_filter.StatefulSession.start", lambda *_: Wait(trio.sleep_forever)
    )
    async with Mesh.run(1) as mesh:
        await ended_by_closing(mesh, nursery, lambda channel: method(channel)(b""))


async def test_closing_ends_a_call_whose_filter_has_its_answer_in_the_same_step(nursery, autojump_clock, monkeypatch):
    answered = trio.Event()
    monkeypatch.setattr(
        "trxds.session_affinity.stateful_session_filter.StatefulSession.start", lambda *_: Wait(answered.wait)
    )
    async with Mesh.run(1) as mesh:
        await ended_by_closing(mesh, nursery, lambda channel: method(channel)(b""), last=answered.set)


async def test_closing_ends_a_call_that_waits_for_flow_control_window(nursery, autojump_clock):
    async def never_reads(call):
        await trio.sleep_forever()

    async def send_without_end(channel):
        async with bidi(channel, "/shop.Cart/Deaf").open() as call:
            while await call.send(b"x" * 100_000):
                pass

    async with Mesh.run(1) as mesh:
        mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/Deaf"] = never_reads
        await ended_by_closing(mesh, nursery, send_without_end)


async def test_closing_ends_a_call_in_the_middle_of_its_stream(nursery, autojump_clock):
    async def converse(channel):
        async with bidi(channel).open() as call:
            await call.send(b"one")
            await call.receive()
            await call.receive()

    async with Mesh.run(1) as mesh:
        await ended_by_closing(mesh, nursery, converse)


async def test_closing_ends_a_call_that_waits_for_its_sessions_first_call(nursery, autojump_clock):
    async def two_at_once(channel):
        async with channel.session() as session, trio.open_nursery() as calls:
            calls.start_soon(ignoring_errors, method(session, "/shop.Cart/Silent"))
            await wait_all_tasks_blocked()
            await method(session)(b"")

    async def ignoring_errors(call):
        with pytest.raises(RpcError):
            await call(b"")

    async with Mesh.run(1) as mesh:
        mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/Silent"] = silent
        with pytest.raises(ExceptionGroup) as caught:
            async with trio.open_nursery() as calls, mesh.channel() as channel:
                calls.start_soon(two_at_once, channel)
                await wait_all_tasks_blocked(0.01)
        assert caught.group_contains(RpcError, match="channel closed", depth=2)


async def silent(call):
    await trio.sleep_forever()


async def test_closing_ends_a_call_between_two_waits_at_the_next(nursery, autojump_clock):
    async with Mesh.run(1) as mesh:
        async with mesh.channel() as channel:
            opening = bidi(channel).open()
            call = await opening.__aenter__()
        with pytest.raises(RpcError, match="channel closed"):
            await call.send(b"late")
        await opening.__aexit__(None, None, None)


@pytest.mark.parametrize("timeout", [None, 5])
async def test_a_wait_that_the_end_of_the_stream_ends_raises_the_error_of_the_closed_channel(timeout, autojump_clock):
    lifecycle = ChannelLifecycle("xds:///shop")
    scope = CallScope(lifecycle, "/shop.Cart/Add", trio.current_time(), timeout, "the response")

    async def receive():
        lifecycle.close(None)
        return "the server said OK, but sent no message"

    with pytest.raises(RpcError, match="channel closed"):
        await scope.wait_on_stream(receive)


async def test_the_exception_of_a_channels_block_keeps_its_cause(autojump_clock):
    async with Mesh.run(1) as mesh:
        with pytest.raises(ValueError) as raised:
            async with mesh.channel():
                raise ValueError("its own") from KeyError("why")
        assert isinstance(raised.value.__cause__, KeyError)
        assert raised.value.__context__ is None
