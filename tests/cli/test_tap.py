"""`trxds tap` shows the picks and ends of calls of a running program."""

import json
from contextlib import asynccontextmanager

import pytest
import trio
from support.mesh import METHOD, ask
from support.running_program import program, until

from trxds import RpcError

pytestmark = pytest.mark.slow


async def tapped(shell, nursery, *options):
    """A tap that listens already; what it says is in the box when it is over."""
    box = []

    async def listen():
        box.append(await shell.run("tap", *options))

    nursery.start_soon(listen)
    return box


@asynccontextmanager
async def tapping(tmp_path, *options):
    """A program with a tap of these options on it; the result is in `box` when the block is over."""
    async with program(tmp_path) as (mesh, channel, shell):
        async with trio.open_nursery() as nursery:
            box = await tapped(shell, nursery, *options)
            await until(lambda: channel._state.observers.active)
            yield mesh, channel, box
        assert box[0].exit_code == 0


async def test_the_tap_command_shows_each_pick_as_it_happens(tmp_path):
    async with tapping(tmp_path, "--count", "2") as (_, channel, box), channel.session() as session:
        hosts = [await ask(session), await ask(channel)]
    rows = [line.split("  ") for line in box[0].output.splitlines()]
    assert [row[2:] for row in rows] == [
        [METHOD, "cart", hosts[0], "session shop/1", "balanced: no_cookie"],
        [METHOD, "cart", hosts[1], "no session", "balanced"],
    ]


async def test_the_tap_command_shows_only_the_selected_picks(tmp_path):
    options = ("--session", "shop/*", "--cluster", "cart", "--count", "1", "--json")
    async with tapping(tmp_path, *options) as (_, channel, box), channel.session() as session:
        await ask(channel)
        await ask(session)
    [event] = map(json.loads, box[0].output.splitlines())
    assert (event["kind"], event["session"]) == ("pick", "shop/1")


async def test_the_tap_command_shows_only_the_ends_with_the_selected_status(tmp_path):
    async with tapping(tmp_path, "--status", "unimpl*", "--count", "1") as (mesh, channel, box):
        await ask(channel)
        for server in mesh.servers.values():
            server.fallback = None
        with pytest.raises(RpcError):
            await ask(channel)
    assert "UNIMPLEMENTED after" in box[0].output


async def test_a_failure_is_shown_without_being_asked_for(tmp_path):
    async with tapping(tmp_path, "--count", "2") as (mesh, channel, box):
        for server in mesh.servers.values():
            server.fallback = None
        with pytest.raises(RpcError):
            await ask(channel)
    [pick, end] = box[0].output.splitlines()
    assert pick.split("  ")[1] == end.split("  ")[1] == "#1"
    assert "UNIMPLEMENTED" in end


async def test_metadata_is_hidden_unless_the_program_allows_it(tmp_path):
    async with tapping(tmp_path, "--count", "1", "--metadata") as (_, channel, box):
        await ask(channel, metadata=[("tenant", "secret")])
    assert box[0].output.rstrip().endswith("balanced  tenant=…")
