"""After `async with open_channel` no task and no socket is left, wherever the block is cancelled."""

import pytest
import trio
from support.cancelling import CancelAtStep
from support.mesh import Mesh, bidi, method
from trio.testing import MockClock, wait_all_tasks_blocked

import trxds
from trxds.client.background_services import run_with_services

pytestmark = pytest.mark.slow


async def program(mesh):
    """A bit of everything: a session, calls side by side, a stream left open, a deadline."""
    async with mesh.channel() as channel, channel.session() as session:
        async with trio.open_nursery() as calls:
            for _ in range(3):
                calls.start_soon(method(session), b"hello")
        async with bidi(session).open() as call:
            await call.send(b"one")
            await call.receive()
            await call.send(b"two")
        with trio.move_on_after(0.5):
            await method(channel, "/shop.Cart/Silent")(b"")


async def cancelled_at(k):
    """Return how often the program's task ran, and the tasks and sockets left after its end."""
    async with Mesh.run(2) as mesh:
        mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/Silent"] = silent
        mesh.servers[mesh.hosts[1]].handlers["/shop.Cart/Silent"] = silent
        await wait_all_tasks_blocked()
        before = trio.lowlevel.current_statistics().tasks_living
        cancel = CancelAtStep(k)

        async def run():
            with cancel.scope:
                await program(mesh)

        trio.lowlevel.add_instrument(cancel)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
        trio.lowlevel.remove_instrument(cancel)
        await wait_all_tasks_blocked()
        left = trio.lowlevel.current_statistics().tasks_living - before
        return cancel.steps, left, sum(len(server.connections) for server in mesh.servers.values()), mesh.plane.streams


async def silent(call):
    await trio.sleep_forever()


def run(k):
    return trio.run(cancelled_at, k, clock=MockClock(autojump_threshold=0))


def test_no_task_and_no_socket_is_left_when_a_channel_closes():
    steps, *left = run(10_000)
    assert left == [0, 0, 0]
    assert steps > 200, "otherwise the test below would have nothing to cut"


def test_no_task_and_no_socket_is_left_wherever_the_program_is_cancelled():
    k, ended = 0, False
    while not ended:
        k += 1
        steps, *left = run(k)
        assert left == [0, 0, 0], f"cancelled at step {k}"
        ended = steps < k
    assert k > 200


async def test_the_exception_of_a_channels_block_leaves_it_unwrapped(autojump_clock):
    async with Mesh.run(1) as mesh:
        with pytest.raises(KeyError, match="mine"):
            async with mesh.channel() as channel:
                await method(channel)(b"")
                raise KeyError("mine")


async def test_the_exception_group_of_a_channels_block_leaves_it_unchanged(autojump_clock):
    async with Mesh.run(1) as mesh:
        with pytest.raises(ExceptionGroup, match="two") as caught:
            async with mesh.channel():
                raise ExceptionGroup("two", [KeyError(1), KeyError(2)])
        assert len(caught.value.exceptions) == 2


async def test_a_closed_channel_takes_no_calls(autojump_clock):
    async with Mesh.run(1) as mesh:
        async with mesh.channel() as channel:
            ask = method(channel)
        with pytest.raises(trio.ClosedResourceError, match="xds:///shop"):
            await ask(b"")


async def test_a_closed_channel_opens_no_session(autojump_clock):
    async with Mesh.run(1) as mesh:
        async with mesh.channel() as channel:
            pass
        with pytest.raises(trio.ClosedResourceError, match="the channel to xds:///shop is closed"):
            async with channel.session():
                pass


async def test_a_crash_in_the_channel_reaches_the_opener_as_one_error(autojump_clock, monkeypatch, caplog):
    async with Mesh.run(1) as mesh:
        monkeypatch.setattr("trxds.resolver.xds_resolver.XdsResolver._handle_messages", lambda *args: 1 / 0)
        with pytest.raises(trxds.TrxdsInternalError) as caught:
            async with mesh.channel() as channel:
                await method(channel)(b"")
        assert caught.value.__cause__ is not None


async def test_a_crash_in_the_channel_is_the_error_of_a_call_outside_of_its_block(autojump_clock, monkeypatch, nursery):
    async def call_it(channel):
        with pytest.raises(trxds.TrxdsInternalError, match="a bug in trxds ended the channel to xds:///shop"):
            await method(channel)(b"")
        told.set()

    told = trio.Event()
    monkeypatch.setattr("trxds.resolver.xds_resolver.XdsResolver._handle_messages", lambda *args: 1 / 0)
    async with Mesh.run(1) as mesh:
        with pytest.raises(trxds.TrxdsInternalError):
            async with mesh.channel() as channel:
                nursery.start_soon(call_it, channel)
                await trio.sleep_forever()
        with trio.fail_after(1):
            await told.wait()


async def test_a_crash_in_the_channel_is_the_error_of_a_call_that_waits_for_its_host(
    autojump_clock, monkeypatch, nursery
):
    """Its connection ends with the channel too, and would be the error of a call that is told of it first."""

    async def wait_for_host(channel):
        async with bidi(channel).open() as call:
            await call.send(b"one")
            await call.receive()
            sent.set()
            with pytest.raises(trxds.TrxdsInternalError, match="a bug in trxds ended the channel to xds:///shop"):
                await call.receive()
        told.set()

    sent, told = trio.Event(), trio.Event()
    async with Mesh.run(1) as mesh:
        with pytest.raises(trxds.TrxdsInternalError):
            async with mesh.channel() as channel:
                nursery.start_soon(wait_for_host, channel)
                await sent.wait()
                monkeypatch.setattr("trxds.resolver.xds_resolver.XdsResolver._handle_messages", lambda *args: 1 / 0)
                mesh.route({"cart": 1, "other": 1})
                await trio.sleep_forever()
        with trio.fail_after(1):
            await told.wait()


async def test_a_service_that_crashes_at_the_end_of_its_block_is_logged_and_harms_no_block(autojump_clock, caplog):
    async def crash_at_the_end():
        try:
            await trio.sleep_forever()
        finally:
            raise KeyError("bug")

    async with run_with_services("the service", {"crash": crash_at_the_end}):
        await wait_all_tasks_blocked()
    assert "a bug in trxds ends the service" in caplog.text
