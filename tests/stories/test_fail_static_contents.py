"""What is in the cache of resources on disk, and where a program and its operators see that it is used."""

from __future__ import annotations

import json
import os

import pytest
import trio
from support.logs import lines
from support.mesh import METHOD, PLANE, Mesh, ask
from support.resource_cache import cache_file, cached, come_back, fill, restarted

import trxds
from trxds.admin.channel_source import channel_sources
from trxds.admin.csds import CsdsEncoder
from trxds.admin.state_stream.state_snapshot import Sampler
from trxds.core.clock import Clock
from trxds.testing import resources as xds
from trxds.xds import resource_cache
from trxds.xds.resource_cache import REFRESH_INTERVAL


async def test_the_cache_has_what_the_channel_uses(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        mesh.cluster("unused")
        await fill(mesh, tmp_path)
        assert cached(tmp_path).keys() == {"LDS shop", "RDS routes", "CDS cart", "EDS cart"}
        assert {each.server for each in cached(tmp_path).values()} == {PLANE}


async def test_a_changed_resource_replaces_the_one_in_the_cache(autojump_clock, tmp_path):
    async with Mesh.run(2) as mesh, mesh.channel(cache_dir=tmp_path) as channel:
        await ask(channel)
        await trio.sleep(3)
        before = cached(tmp_path)
        mesh.endpoints("cart", mesh.hosts[:1])
        await trio.sleep(3)
        after = cached(tmp_path)
        assert [name for name in after if after[name].raw != before[name].raw] == ["EDS cart"]
        assert after["EDS cart"].version != before["EDS cart"].version


async def test_a_deleted_resource_leaves_the_cache(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh, mesh.channel(cache_dir=tmp_path) as channel:
        await ask(channel)
        await trio.sleep(3)
        mesh.plane.remove("CDS", "cart")
        await trio.sleep(3)
        assert "CDS cart" not in cached(tmp_path)


async def test_a_deleted_resource_that_is_used_no_longer_is_no_bug_of_the_cache(autojump_clock, tmp_path, caplog):
    async with Mesh.run(1) as mesh:
        mesh.listen(name="kiosk")
        options = {"bootstrap": mesh.bootstrap, "network": mesh.network, "cache_dir": tmp_path}
        async with (
            trxds.open_xds_client(**options) as client,
            trxds.open_channel("xds:///shop", xds=client, network=mesh.network) as channel,
        ):
            async with trxds.open_channel("xds:///kiosk", xds=client, network=mesh.network) as other:
                await ask(other)
                mesh.plane.remove("LDS", "kiosk")
                await trio.sleep(3)
            await trio.sleep(3)
            assert await ask(channel) == mesh.hosts[0]
            assert "LDS kiosk" not in cached(tmp_path)
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_write_removes_the_caches_that_nobody_needs_any_more(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path)
        other = cache_file(tmp_path).with_name("other.cache")
        other.write_bytes(b"")
        os.utime(other, (1.0, 1.0))
        await fill(mesh, tmp_path)
        assert not other.exists()


async def test_a_deleted_resource_leaves_the_cache_also_if_it_stays_in_use(autojump_clock, tmp_path):
    """A53: ignore_resource_deletion keeps it for this life of the program; the next one must not begin with it."""
    async with Mesh.run(1) as mesh:
        bootstrap = xds.bootstrap(PLANE, features=["ignore_resource_deletion"])
        async with mesh.channel(cache_dir=tmp_path, bootstrap=bootstrap) as channel:
            await ask(channel)
            await trio.sleep(3)
            mesh.plane.remove("CDS", "cart")
            await trio.sleep(3)
            await ask(channel)
            assert "CDS cart" not in cached(tmp_path)


async def test_a_refused_resource_never_enters_the_cache(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh, mesh.channel(cache_dir=tmp_path) as channel:
        await ask(channel)
        await trio.sleep(3)
        before = cached(tmp_path)
        mesh.plane.put({**xds.cluster("cart"), "lb_policy": "MAGLEV"})
        await mesh.plane.wait_for_nack("CDS")
        mesh.endpoints("cart", mesh.hosts, [])  # so that the file is written again
        await trio.sleep(3)
        assert cached(tmp_path)["CDS cart"].raw == before["CDS cart"].raw
        assert cached(tmp_path)["EDS cart"].raw != before["EDS cart"].raw


async def test_a_program_that_starts_from_the_cache_makes_nothing_in_it_newer(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path)
        before = cached(tmp_path)
        async with restarted(mesh, tmp_path) as channel:
            await ask(channel)
            await trio.sleep(3 * REFRESH_INTERVAL)
        assert cached(tmp_path) == before


async def test_a_server_that_answers_while_the_cache_is_parsed_is_not_said_to_be_silent(
    autojump_clock, tmp_path, caplog, monkeypatch
):
    parse, is_back = resource_cache.run_in_slices, False

    async def parse_late(work):
        nonlocal is_back
        if not is_back:
            await come_back(mesh)
            is_back = True
        return await parse(work)

    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path)
        monkeypatch.setattr(resource_cache, "run_in_slices", parse_late)
        async with restarted(mesh, tmp_path) as channel:
            assert await ask(channel) == mesh.hosts[0]
            await trio.sleep(3)
    assert is_back
    assert [each for each in lines(caplog, "xds", 30) if "no xDS server has answered" in each] == []


async def test_no_update_waits_for_the_disk(autojump_clock, tmp_path, monkeypatch):
    async def hang(work):
        await trio.sleep_forever()

    monkeypatch.setattr("trxds.xds.resource_cache.run_in_thread", hang)
    async with Mesh.run(2) as mesh:
        mesh.endpoints("cart", mesh.hosts[:1])
        async with mesh.channel(cache_dir=tmp_path) as channel:
            assert await ask(channel) == mesh.hosts[0]
            mesh.endpoints("cart", mesh.hosts[1:])
            await trio.sleep(5)
            assert await ask(channel) == mesh.hosts[1]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda file: file.write_bytes(b"nonsense"), "it is no resource cache; delete it, or leave it to be replaced"),
        (lambda file: file.write_bytes(file.read_bytes()[:-9]), "its checksum is wrong; delete it"),
        (lambda file: file.chmod(0o644), r"can be used by other users (mode 644); delete it"),
    ],
)
async def test_a_damaged_cache_is_ignored_with_a_warning_and_replaced(autojump_clock, tmp_path, caplog, damage, reason):
    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path)
        damage(cache_file(tmp_path))
        async with restarted(mesh, tmp_path) as channel:
            with pytest.raises(trxds.RpcError, match="cannot reach the xDS server"):
                await ask(channel)
            (warning,) = [each for each in lines(caplog, "xds", 30) if "is ignored" in each]
            assert warning.startswith(f"the resource cache {cache_file(tmp_path)} is ignored: ")
            assert reason in warning
            await come_back(mesh)
            await ask(channel)
            await trio.sleep(3)
        assert len(cached(tmp_path)) == 4


# -- who sees it


async def test_an_explanation_says_that_resources_are_stale(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path)
        async with restarted(mesh, tmp_path) as channel:
            explained = await channel.explain(METHOD)
            since = Clock.now().text(trio.current_time())[:13]
            file = cache_file(tmp_path)
            assert (
                f'stale: LDS resource "shop" and 3 more resources are stale: from the cache on disk ({file}), '
                in str(explained)
            )
            assert f"current until {since}" in explained.stale
            assert explained.as_data()["stale"] == explained.stale
            await come_back(mesh)
            assert (await channel.explain(METHOD)).stale == ""


async def test_the_warnings_of_a_channel_say_that_resources_are_stale(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path)
        async with restarted(mesh, tmp_path) as channel:
            await ask(channel)
            stale, unreachable = channel.admin_view().warnings
            assert stale.startswith('LDS resource "shop" and 3 more resources are stale: from the cache on disk')
            assert unreachable.startswith(f"the control plane has not answered yet; server {PLANE}: cannot reach")
            await come_back(mesh)
            assert channel.admin_view().warnings == ()


async def test_a_stale_resource_has_the_state_requested_and_a_note_in_csds(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path)
        async with restarted(mesh, tmp_path) as channel:
            await ask(channel)
            for each in channel.admin_view().client.resources:
                message = CsdsEncoder(Clock.now()).config(each)
                assert message.client_status == 1  # REQUESTED
                assert message.error_state.details.startswith("stale, from the cache on disk, current until 20")
                assert message.version_info
                assert message.xds_config.value


async def rows_of(channel):
    return (await Sampler(channel_sources([channel])).sample({"resources"}))["resources"]


async def test_the_state_stream_calls_a_resource_of_the_cache_stale(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path)
        async with restarted(mesh, tmp_path) as channel:
            await ask(channel)
            rows = await rows_of(channel)
            assert {row["state"] for row in rows.values()} == {"stale"}
            assert all("stale, from the cache on disk, current until" in row["error"] for row in rows.values())
            json.dumps(rows)
            await come_back(mesh)
            assert {row["state"] for row in (await rows_of(channel)).values()} == {"acked"}


async def test_telemetry_calls_a_resource_of_the_cache_stale(autojump_clock, tmp_path):
    class States(trxds.Observer):
        def __init__(self):
            self.states = {}

        def xds_resource(self, resource):
            self.states[resource.type.rpartition(".")[2]] = resource.state

    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path)
        seen = States()
        async with restarted(mesh, tmp_path) as channel:
            with channel.observed_by(seen):
                await ask(channel)
                await trio.sleep(1)
                assert set(seen.states.values()) == {"stale"}
                assert len(seen.states) == 4
                await come_back(mesh)
                assert set(seen.states.values()) == {"acked"}


async def test_the_log_says_once_that_the_cache_is_used(autojump_clock, tmp_path, caplog):
    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path)
        caplog.clear()
        async with restarted(mesh, tmp_path) as channel:
            await ask(channel)
            await trio.sleep(60)
        used = [each for each in lines(caplog, "xds", 30) if "is used, and may be out of date: 4 resources" in each]
        assert len(used) == 1
        assert str(cache_file(tmp_path)) in used[0]
        assert PLANE in used[0]


async def test_the_log_says_when_a_server_replaces_what_is_from_the_cache(autojump_clock, tmp_path, caplog):
    caplog.set_level("INFO", "trxds")
    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path)
        async with restarted(mesh, tmp_path) as channel:
            await ask(channel)
            assert "cache on disk" not in caplog.text
            await come_back(mesh)
            await trio.sleep(60)
        text = f"xDS server {PLANE} answers, and replaces what is from the cache on disk"
        assert [each for each in lines(caplog, "xds", 20) if "cache on disk" in each and "stale" not in each] == [text]


async def test_a_disk_that_hangs_keeps_no_error_from_a_call_for_longer_than_15_seconds(
    autojump_clock, tmp_path, monkeypatch
):
    async def hang(work):
        await trio.sleep_forever()

    async with Mesh.run(1) as mesh:
        monkeypatch.setattr("trxds.xds.resource_cache.run_in_thread", hang)
        async with restarted(mesh, tmp_path) as channel:
            with pytest.raises(trxds.RpcError, match="cannot reach the xDS server"):
                await ask(channel)
            assert 15 <= trio.current_time() <= 16


async def test_a_call_that_waits_for_the_cache_fails_when_its_shared_client_is_closed(
    autojump_clock, tmp_path, monkeypatch
):
    async def hang(work):
        await trio.sleep_forever()

    monkeypatch.setattr("trxds.xds.resource_cache.run_in_thread", hang)
    async with Mesh.run(1) as mesh, trio.open_nursery() as nursery:
        options = {"bootstrap": mesh.bootstrap, "network": mesh.network}
        mesh.network.black_hole(PLANE)

        async def call(client):
            async with trxds.open_channel("xds:///shop", xds=client, network=mesh.network) as channel:
                with pytest.raises(trxds.RpcError, match="the xDS client is closed"):
                    await ask(channel)

        async with trxds.open_xds_client(**options, cache_dir=tmp_path) as client:
            nursery.start_soon(call, client)
            await trio.sleep(1)
