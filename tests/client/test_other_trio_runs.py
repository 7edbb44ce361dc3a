"""A channel belongs to the Trio run that opened it: a task of another run, in another thread, is refused."""

import os
import re
import threading

import pytest
import trio
from outcome import capture
from support.mesh import Mesh, ask, method

import trxds


async def unary(channel):
    await ask(channel)


async def opened(channel):
    async with method(channel).open(b""):
        pass


async def session(channel):
    async with channel.session():
        pass


async def sessions(channel):
    async with channel.sessions(max=1):
        pass


async def rebalanced(channel):
    async with channel.rebalance_sessions(per_second=1, idle_for=1):
        pass


async def connect(channel):
    channel.try_to_connect()


async def first_state(channel):
    await anext(channel.states())


async def first_host(channel):
    await anext(channel.hosts())


async def explained(channel):
    await channel.explain("/shop.Cart/Add")


async def changed(channel):
    await channel.wait_for_state_change(channel.state)


async def within(use, used):
    with trio.fail_after(20):  # a wait there would be for ever
        await use(used)


def in_another_run(use, used):
    """Return the outcome of `use` in a Trio run of another thread."""
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(capture(trio.run, within, use, used)))
    thread.start()
    thread.join()
    return outcomes[0]


def refusal(channel):
    remedy = "open one there, or use trxds.sync.open_channel"
    return re.escape(f"the channel to {channel.target} belongs to another Trio run; {remedy}") + r"\Z"


USES = [unary, opened, session, sessions, rebalanced, connect, first_state, first_host, explained, changed]


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
async def test_each_use_of_a_channel_in_another_run_raises(use, autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await ask(channel)
        with pytest.raises(RuntimeError, match=refusal(channel)):
            in_another_run(use, channel).unwrap()


async def next_of(iterator):
    await anext(iterator)


@pytest.mark.parametrize("name", ["states", "hosts"])
async def test_a_later_step_of_an_iterator_in_another_run_raises(name, autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        iterator = channel.states() if name == "states" else channel.hosts(watch=True)
        await anext(iterator)
        with pytest.raises(RuntimeError, match=refusal(channel)):
            in_another_run(next_of, iterator).unwrap()


async def called(session):
    await ask(session)


async def released(session):
    session.release()


async def followed(session):
    session.events()


async def drained(session):
    await session.wait_draining()


async def moved(session):
    async with session.moving():
        pass


@pytest.mark.parametrize("use", [called, explained, released, followed, drained, moved], ids=lambda use: use.__name__)
async def test_each_use_of_a_session_in_another_run_raises(use, autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, channel.session() as session:
        await ask(session)
        with pytest.raises(RuntimeError, match=refusal(channel)):
            in_another_run(use, session).unwrap()


async def user_of(pool):
    async with pool.session("anna"):
        pass


async def test_a_session_of_a_pool_in_another_run_raises(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, channel.sessions(max=1) as pool:
        with pytest.raises(RuntimeError, match=refusal(channel)):
            in_another_run(user_of, pool).unwrap()


async def test_a_channel_outlives_a_call_of_another_run(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await ask(channel)
        in_another_run(unary, channel)
        await ask(channel)


async def test_a_closed_channel_says_so_in_another_run_too(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        pass
    with pytest.raises(trio.ClosedResourceError, match="is closed"):
        in_another_run(unary, channel).unwrap()


def test_the_first_channel_of_a_run_leaves_no_handler_of_forks_behind(monkeypatch):
    async def main():
        async with trxds.open_channel("ipv4:127.0.0.1:1"):
            pass

    monkeypatch.setattr(os, "register_at_fork", lambda **_: pytest.fail("Python cannot unregister it"))
    trio.run(main)
