"""A channel starts from the last accepted resources while no control plane answers, and says that they are stale."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager

import pytest
import trio
from support.mesh import PLANE, Mesh, ask

import trxds
from trxds import RpcError, StatusCode
from trxds.testing import resources as xds


def down(mesh, *planes):
    for each in planes or (PLANE,):
        mesh.network.refuse(each)
        mesh.network.cut(each)


async def fill(mesh, cache_dir, **more):
    """One life of the program in which the control plane answers, long enough for the cache to be written."""
    async with mesh.channel(cache_dir=cache_dir, **more) as channel:
        await ask(channel)
        await trio.sleep(3)


@asynccontextmanager
async def restarted(mesh, cache_dir, **more):
    """The next life of the program, without a control plane."""
    down(mesh)
    async with mesh.channel(cache_dir=cache_dir, **more) as channel:
        yield channel


async def test_a_channel_starts_from_the_cache_while_no_control_plane_answers(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path)
        async with restarted(mesh, tmp_path) as channel:
            with trio.fail_after(1):
                assert await ask(channel) == mesh.hosts[0]


async def test_without_a_cache_such_a_start_fails_calls(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path)
        down(mesh)
        async with mesh.channel() as channel:
            with pytest.raises(RpcError) as caught:
                await ask(channel)
            assert caught.value.status.code is StatusCode.UNAVAILABLE
