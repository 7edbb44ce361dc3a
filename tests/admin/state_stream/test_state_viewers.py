"""Viewers of the state stream: slow ones, several at a time, and none."""

import pytest
import trio
from support.mesh import Mesh, ask
from support.state_viewer import Eyes, watched
from trio.testing import wait_all_tasks_blocked

from trxds.admin import state_stream
from trxds.admin.state_stream.subscription import MAX_UNREAD

pytestmark = pytest.mark.slow


# -- viewers


async def test_numbers_are_consecutive_and_there_is_one_snapshot(autojump_clock):
    async with watched() as (_, channel, eyes):
        for _ in range(3):
            await ask(channel)
            await eyes.read()
        assert eyes.numbers == [1, 2, 3, 4]
        assert eyes.snapshots == 1


async def test_a_slow_viewer_gets_a_new_snapshot_and_nobody_waits_for_it(autojump_clock):
    async with watched() as (_, channel, eyes):
        for _ in range(MAX_UNREAD + 5):
            await ask(channel)
            await trio.sleep(0.2)
        assert len(eyes.view._unread) <= MAX_UNREAD
        await eyes.read()
        assert (eyes.numbers, eyes.snapshots) == ([1, 2], 2)
        assert eyes.state["channels"]["shop"]["calls"] == MAX_UNREAD + 6


async def test_two_viewers_see_the_same_each_with_numbers_of_its_own(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, state_stream.open(channel) as opened:
        async with opened.subscribe() as one:
            first = Eyes(one)
            await first.read()
            await ask(channel)
            await first.see(lambda state: state["channels"]["shop"]["calls"] == 1)
            async with opened.subscribe() as other:
                second = Eyes(other)
                await second.see(lambda state: state.get("endpoints"))
        await first.see(lambda state: state == second.state)
        assert second.numbers[0] == 1


async def test_a_viewer_sees_the_sections_that_it_asked_for(autojump_clock):
    async with watched(sections=["sessions"], events=[]) as (_, channel, eyes), channel.session():
        await eyes.see(lambda state: state["sessions"])
        assert set(eyes.state) == {"sessions"}


async def test_a_second_viewer_of_another_section_waits_for_a_look_at_it(autojump_clock):
    async with watched(sections=["channels"]) as (_, _, eyes), eyes.states.subscribe(sections=["resources"]) as other:
        assert (await anext(other))["snapshot"]["resources"]


async def test_an_unknown_section_of_the_state_stream_is_an_error(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, state_stream.open(channel) as opened:
        with pytest.raises(ValueError, match="there is no section 'picks'; there are channels, nodes"):
            async with opened.subscribe(sections=["picks"]):
                pass


async def test_the_state_is_sampled_at_most_ten_times_a_second(autojump_clock):
    async with watched() as (_, channel, eyes):
        begun = trio.current_time()
        for _ in range(20):
            await ask(channel)
            await eyes.read()
        assert trio.current_time() - begun >= 19 * 0.1


async def test_the_view_ends_when_the_state_stream_does(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, trio.open_nursery() as nursery:
        ended = trio.Event()

        async def watch(view):
            async for _ in view:
                pass
            ended.set()

        async with state_stream.open(channel) as opened, opened.subscribe() as view:
            nursery.start_soon(watch, view)
            await wait_all_tasks_blocked(0.01)
            opened.close()
            await ended.wait()


# -- nobody watches


def tasks():
    def count(task):
        return 1 + sum(count(child) for nursery in task.child_nurseries for child in nursery.child_tasks)

    return count(trio.lowlevel.current_root_task())


async def test_the_state_stream_has_no_task_without_a_viewer(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await ask(channel)
        await wait_all_tasks_blocked()
        before = tasks()
        async with state_stream.open(channel) as opened:
            assert tasks() == before
            async with opened.subscribe() as view:
                await anext(view)
                assert tasks() == before + 1
            await wait_all_tasks_blocked()
            assert tasks() == before
            async with opened.subscribe() as view:
                assert (await anext(view))["snapshot"]["channels"]


async def test_a_bug_in_the_state_stream_ends_the_views_and_not_the_channel(autojump_clock, monkeypatch, caplog):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, state_stream.open(channel) as opened:
        monkeypatch.setattr(type(opened._sampler), "_sections", lambda *_: 1 / 0)
        async with opened.subscribe() as view:
            with pytest.raises(StopAsyncIteration):
                await anext(view)
        assert await ask(channel)
    assert "a bug in trxds ends the state stream" in caplog.text
