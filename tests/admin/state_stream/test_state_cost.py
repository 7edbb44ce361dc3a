"""What the state stream costs an RPC: nothing while nobody watches, and no waiting ever."""

import sys

import pytest
import trio
from support.mesh import Mesh, ask
from trio.testing import wait_all_tasks_blocked

from trxds.admin import state_stream


async def watchers_at_work(channel):
    """The files that are only for who watches, of the functions that run for an RPC."""
    files = set()

    def seen(frame, event, argument):
        files.add(frame.f_code.co_filename.rpartition("/trxds/")[2])

    await wait_all_tasks_blocked()
    sys.setprofile(seen)
    try:
        await ask(channel)
    finally:
        sys.setprofile(None)
    assert "client/rpc.py" in files
    return {file for file in files if file.startswith("admin/") or "observe" in file or "watch" in file}


@pytest.fixture
async def mesh():
    async with Mesh.run(1) as mesh:
        yield mesh


async def test_an_rpc_of_a_channel_that_nobody_watches_runs_nothing_of_the_stream(mesh, autojump_clock):
    async with mesh.channel() as channel, state_stream.open(channel) as states, channel.session() as session:
        await ask(session)
        assert await watchers_at_work(session) == set()
        async with states.subscribe() as view:
            await anext(view)
            assert await watchers_at_work(session) >= {"admin/state_stream/events.py", "core/observers.py"}
        await wait_all_tasks_blocked()
        assert await watchers_at_work(session) == set()


async def test_an_rpc_takes_no_time_for_viewers_that_never_read(mesh, autojump_clock):
    async with mesh.channel() as channel, state_stream.open(channel) as states:
        await ask(channel)
        async with states.subscribe(), states.subscribe():
            begun = trio.current_time()
            for _ in range(100):
                await ask(channel)
            assert trio.current_time() == begun
