"""How old a cached resource is, by the time of day: from its server's last answer while it was in use."""

from __future__ import annotations

import time
from random import Random

import pytest
import trio
from msgspec import structs
from support.mesh import PLANE, Mesh, ask
from support.resource_cache import cache_file, cached, come_back, down, edit, fill, restarted

import trxds
from trxds.core.clock import Clock
from trxds.core.determinism import SOURCES, Sources
from trxds.testing import resources as xds
from trxds.xds.cache_file import decode_cache, encode_cache
from trxds.xds.resource_cache import REFRESH_INTERVAL

MAX_AGE = 600.0


@pytest.fixture(autouse=True)
def time_of_day():
    """The time of day jumps with Trio's clock."""
    start = time.time()
    token = SOURCES.set(Sources(Random, lambda: start + trio.current_time(), time.perf_counter))
    yield
    SOURCES.reset(token)


def ages(cache_dir):
    now = Clock.now().epoch + trio.current_time()
    return [now - each.current_at for each in cached(cache_dir).values()]


def short_lived(cache_dir):
    """The bootstrap of a cache whose resources are too old after ten minutes."""
    return xds.bootstrap(PLANE) | {"trxds.cache": {"directory": str(cache_dir), "max_age": f"{MAX_AGE:g}s"}}


async def test_resources_stay_current_while_their_server_answers(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh, mesh.channel(cache_dir=tmp_path) as channel:
        await ask(channel)
        await trio.sleep(REFRESH_INTERVAL + 10)
        assert max(ages(tmp_path)) < 60


async def test_resources_grow_old_while_their_server_does_not_answer(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh, mesh.channel(cache_dir=tmp_path) as channel:
        await ask(channel)
        await trio.sleep(3)
        down(mesh)
        await trio.sleep(3 * REFRESH_INTERVAL)
        assert min(ages(tmp_path)) > 2 * REFRESH_INTERVAL


async def test_a_mesh_without_changes_keeps_a_cache_with_a_short_age_in_use(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        bootstrap = short_lived(tmp_path)
        async with mesh.channel(bootstrap=bootstrap) as channel:
            await ask(channel)
            await trio.sleep(5 * MAX_AGE)
        async with restarted(mesh, None, bootstrap=bootstrap) as channel:
            assert await ask(channel) == mesh.hosts[0]


async def test_what_is_in_use_stays_in_the_cache_through_an_outage_longer_than_its_age(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        bootstrap = short_lived(tmp_path)
        async with mesh.channel(bootstrap=bootstrap) as channel:
            await ask(channel)
            await trio.sleep(3)
            down(mesh)
            await trio.sleep(3 * MAX_AGE)
            await come_back(mesh)
            await trio.sleep(MAX_AGE)
        async with restarted(mesh, None, bootstrap=bootstrap) as channel:
            assert await ask(channel) == mesh.hosts[0]


async def test_what_is_used_no_longer_leaves_the_cache_when_it_is_too_old(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        mesh.listen(name="kiosk")
        async with (
            trxds.open_xds_client(bootstrap=short_lived(tmp_path), network=mesh.network) as client,
            trxds.open_channel("xds:///shop", xds=client, network=mesh.network) as channel,
        ):
            await ask(channel)
            async with trxds.open_channel("xds:///kiosk", xds=client, network=mesh.network) as other:
                await ask(other)
                await trio.sleep(2 * MAX_AGE)
            await trio.sleep(MAX_AGE / 2)
            before = cached(tmp_path).keys()
            await trio.sleep(MAX_AGE)
            assert before - cached(tmp_path).keys() == {"LDS kiosk"}


async def test_what_is_from_a_time_to_come_is_not_used(autojump_clock, tmp_path):
    """The machine's clock was wrong, so nothing is known of its age."""
    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path)
        edit(tmp_path, age=-25 * 3600.0)
        async with restarted(mesh, tmp_path) as channel:
            with pytest.raises(trxds.RpcError, match="cannot reach the xDS server"):
                await ask(channel)


async def test_a_resource_of_an_unknown_type_in_the_cache_is_ignored(autojump_clock, tmp_path):
    """A later trxds may have written it."""
    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path)
        first, *others = decode_cache(cache_file(tmp_path).read_bytes())
        unknown = structs.replace(first, type_url="type.googleapis.com/envoy.config.Unknown")
        cache_file(tmp_path).write_bytes(encode_cache([unknown, first, *others]))
        async with restarted(mesh, tmp_path) as channel:
            assert await ask(channel) == mesh.hosts[0]
