"""xDS from watched files, without a control plane: `"server_uri": "file:///etc/mesh"`."""

from __future__ import annotations

import gc
import os

import pytest
import trio
from support.mesh import METHOD, PLANE, Mesh, ask
from support.watching import Watcher
from support.xds_files import channel_on, shop, write

import trxds
from trxds import RpcError
from trxds.resources.cooperative_parse import run_at_once
from trxds.testing import MemoryNetwork
from trxds.testing import resources as xds
from trxds.xds import ads_stream, file_stream
from trxds.xds.discovery_response import read_resource
from trxds.xds.resource import Resource


async def test_a_channel_gets_its_configuration_from_a_file(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        write(tmp_path / "mesh.yaml", *shop(mesh.hosts[0]))
        async with channel_on(mesh, tmp_path / "mesh.yaml") as channel:
            with trio.fail_after(1):
                assert await ask(channel) == mesh.hosts[0]
        assert mesh.plane.requests == []


async def test_a_channel_gets_its_configuration_from_all_files_of_a_directory(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        for number, (each, suffix) in enumerate(zip(shop(mesh.hosts[0]), ("yaml", "yml", "json", "yaml"), strict=True)):
            write(tmp_path / f"{number}.{suffix}", each)
        (tmp_path / "README").write_text("not: [read")
        (tmp_path / ".hidden.yaml").write_text("not: [read")
        (tmp_path / "folder.yaml").mkdir()
        async with channel_on(mesh, tmp_path) as channel:
            assert await ask(channel) == mesh.hosts[0]


async def test_a_change_of_the_files_is_in_force_within_seconds_and_no_call_fails(autojump_clock, tmp_path):
    async with Mesh.run(2) as mesh:
        write(tmp_path / "mesh.yaml", *shop(mesh.hosts[0]))
        async with channel_on(mesh, tmp_path) as channel:
            assert await ask(channel) == mesh.hosts[0]
            write(tmp_path / "mesh.yaml", *shop(mesh.hosts[1], cluster="other"))
            seen = []
            for _ in range(30):
                seen.append(await ask(channel))
                await trio.sleep(0.1)
            assert (seen[0], seen[-1]) == tuple(mesh.hosts)


async def test_the_directory_of_a_config_map_is_replaced_by_its_link(autojump_clock, tmp_path):
    """Kubernetes writes a new folder, and then renames a link to it over `..data`."""

    def publish(name, host):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "mesh.yaml", *shop(host))
        os.utime(tmp_path / name / "mesh.yaml", (1e9, 1e9))  # two folders may be of one moment
        (tmp_path / "..data_tmp").symlink_to(name)
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")

    async with Mesh.run(2) as mesh:
        publish("..2026_11_22", mesh.hosts[0])
        (tmp_path / "mesh.yaml").symlink_to("..data/mesh.yaml")
        async with channel_on(mesh, tmp_path) as channel:
            assert await ask(channel) == mesh.hosts[0]
            publish("..2026_11_23", mesh.hosts[1])
            await trio.sleep(3)
            assert await ask(channel) == mesh.hosts[1]


async def test_a_session_stays_on_its_host_when_the_files_get_another_one(autojump_clock, tmp_path):
    async with Mesh.run(2) as mesh:
        file = tmp_path / "mesh.yaml"
        write(file, *shop(mesh.hosts[0]))
        async with channel_on(mesh, file) as channel, channel.session() as session:
            assert await ask(session) == mesh.hosts[0]
            more = xds.endpoints("cart", xds.locality(*mesh.hosts))
            write(file, *shop(mesh.hosts[0])[:3], more)
            await trio.sleep(3)
            assert {await ask(session) for _ in range(10)} == {mesh.hosts[0]}
            assert {await ask(channel) for _ in range(10)} == set(mesh.hosts)


# -- with the rest of xDS


async def test_files_may_be_the_fallback_of_a_control_plane(autojump_clock, tmp_path):
    async with Mesh.run(2) as mesh:
        write(tmp_path / "mesh.yaml", *shop(mesh.hosts[1]))
        mesh.endpoints("cart", mesh.hosts[:1])
        servers = [*xds.bootstrap(PLANE)["xds_servers"], {"server_uri": f"file://{tmp_path}"}]
        mesh.network.refuse(PLANE)
        async with channel_on(mesh, tmp_path, xds_servers=servers) as channel:
            assert await ask(channel) == mesh.hosts[1]
            mesh.network.restore(PLANE)
            await mesh.plane.wait_for_ack("EDS")
            await trio.sleep(1)
            assert await ask(channel) == mesh.hosts[0]


async def test_an_observer_learns_that_files_are_used_no_longer(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        write(tmp_path / "mesh.yaml", *shop(mesh.hosts[0]))
        servers = [*xds.bootstrap(PLANE)["xds_servers"], {"server_uri": f"file://{tmp_path}"}]
        mesh.network.refuse(PLANE)
        async with channel_on(mesh, tmp_path, xds_servers=servers) as channel:
            await ask(channel)
            with channel.observed_by(watcher := Watcher()):
                mesh.network.restore(PLANE)
                await mesh.plane.wait_for_ack("EDS")
                await trio.sleep(1)
                assert f"xds file://{tmp_path} left" in watcher.notes


async def test_a_control_plane_may_be_the_fallback_of_files(autojump_clock, tmp_path):
    async with Mesh.run(2) as mesh:
        servers = [{"server_uri": f"file://{tmp_path}/mesh.yaml"}, *xds.bootstrap(PLANE)["xds_servers"]]
        mesh.endpoints("cart", mesh.hosts[:1])
        async with channel_on(mesh, tmp_path, xds_servers=servers) as channel:
            assert await ask(channel) == mesh.hosts[0]
            write(tmp_path / "mesh.yaml", *shop(mesh.hosts[1]))
            await trio.sleep(3)
            assert await ask(channel) == mesh.hosts[1]
            await mesh.plane.wait_for_streams(0)


async def test_resources_of_files_are_not_kept_in_the_cache(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        write(tmp_path / "mesh.yaml", *shop(mesh.hosts[0]))
        cache = {"trxds.cache": {"directory": str(tmp_path / "cache")}}
        async with channel_on(mesh, tmp_path / "mesh.yaml", **cache) as channel:
            await ask(channel)
            await trio.sleep(5)
        assert not (tmp_path / "cache").exists()


async def test_no_load_is_reported_where_resources_come_from_files(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        found = shop(mesh.hosts[0])
        write(tmp_path / "mesh.yaml", *found[:2], {**found[2], "lrs_server": {"self": {}}}, found[3])
        async with channel_on(mesh, tmp_path) as channel:
            await ask(channel)
            await trio.sleep(30)
            assert [each.uri for each in channel.admin_view().client.xds_channels] == [f"file://{tmp_path}"]


async def test_an_unchanged_resource_stays_the_same_object_when_another_one_changes(autojump_clock, tmp_path):
    async with Mesh.run(2) as mesh:
        file = tmp_path / "mesh.yaml"
        write(file, *shop(mesh.hosts[0]))
        async with channel_on(mesh, file) as channel:
            await ask(channel)
            before = {each.type.kind: each.value for each in channel.admin_view().client.resources}
            write(file, *shop(mesh.hosts[1]))
            await trio.sleep(3)
            after = {each.type.kind: each.value for each in channel.admin_view().client.resources}
            assert [kind for kind in before if before[kind] is not after[kind]] == ["EDS"]


async def test_channels_of_a_shared_client_get_what_they_name_as_they_come(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        write(tmp_path / "mesh.yaml", *shop(mesh.hosts[0]), xds.listener("kiosk", routes="routes"))
        bootstrap = {"xds_servers": [{"server_uri": f"file://{tmp_path}"}]}
        async with trxds.open_xds_client(bootstrap=bootstrap, network=mesh.network) as client:
            for target in ("xds:///shop", "xds:///kiosk", "xds:///shop"):
                async with trxds.open_channel(target, xds=client, network=mesh.network) as channel:
                    assert await ask(channel) == mesh.hosts[0]
                await trio.sleep(2)


async def test_what_one_channel_names_takes_nothing_from_another(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        write(tmp_path / "mesh.yaml", *shop(mesh.hosts[0]), xds.listener("kiosk", routes="routes"))
        bootstrap = {"xds_servers": [{"server_uri": f"file://{tmp_path}"}]}
        async with (
            trxds.open_xds_client(bootstrap=bootstrap, network=mesh.network) as client,
            trxds.open_channel("xds:///shop", xds=client, network=mesh.network) as first,
        ):
            await ask(first)
            async with trxds.open_channel("xds:///kiosk", xds=client, network=mesh.network) as second:
                await ask(second)
                await trio.sleep(2)
                assert await ask(first) == mesh.hosts[0]


async def test_a_channel_of_a_shared_client_that_is_opened_again_gets_its_configuration_again(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        write(tmp_path / "mesh.yaml", *shop(mesh.hosts[0]))
        bootstrap = {"xds_servers": [{"server_uri": f"file://{tmp_path}"}]}
        async with trxds.open_xds_client(bootstrap=bootstrap, network=mesh.network) as client:
            for _ in range(2):
                async with trxds.open_channel("xds:///shop", xds=client, network=mesh.network) as channel:
                    with trio.fail_after(5):
                        assert await ask(channel) == mesh.hosts[0]
                await trio.sleep(2)


async def test_names_that_nobody_wants_any_more_are_forgotten_while_the_files_have_an_error(autojump_clock, tmp_path):
    (tmp_path / "mesh.yaml").write_text("- [")
    bootstrap = {"xds_servers": [{"server_uri": f"file://{tmp_path}"}]}
    async with trxds.open_xds_client(bootstrap=bootstrap) as client, trxds.open_channel("xds:///shop", xds=client):
        for number in range(5):
            async with trxds.open_channel(f"xds:///kiosk-{number}", xds=client) as channel:
                with pytest.raises(RpcError, match="no valid YAML"):
                    await ask(channel)
            await trio.sleep(2)
        kept = {each.name for each in gc.get_objects() if isinstance(each, Resource)}
        assert kept & {f"kiosk-{number}" for number in range(5)} <= {"kiosk-4"}


async def test_resources_that_nobody_wants_any_more_are_forgotten(autojump_clock, tmp_path):
    names = {f"kiosk-{number}" for number in range(5)}
    write(tmp_path / "mesh.yaml", *shop("10.0.0.1:1"), *(xds.listener(name, routes="routes") for name in sorted(names)))
    bootstrap = {"xds_servers": [{"server_uri": f"file://{tmp_path}"}]}
    async with trxds.open_xds_client(bootstrap=bootstrap) as client, trxds.open_channel("xds:///shop", xds=client):
        for name in sorted(names):
            async with trxds.open_channel(f"xds:///{name}", xds=client):
                await trio.sleep(2)
        await trio.sleep(2)
        kept = {each.name for each in gc.get_objects() if isinstance(each, Resource) and each.value is not None}
        assert "shop" in kept
        assert not kept & names


async def test_observers_get_what_the_files_had_changed_before_a_better_server_takes_over(
    autojump_clock, tmp_path, monkeypatch
):
    async with Mesh.run(1) as mesh:
        write(tmp_path / "mesh.yaml", *shop(mesh.hosts[0]))
        servers = [*xds.bootstrap(PLANE)["xds_servers"], {"server_uri": f"file://{tmp_path}"}]
        mesh.network.refuse(PLANE)
        async with channel_on(mesh, tmp_path, xds_servers=servers) as channel:
            await ask(channel)
            waiting = trio.Event()

            async def parse_and_wait(work):
                parsed = run_at_once(work)
                if parsed[0].parsed.name == "routes":
                    waiting.set()
                    await trio.sleep_forever()
                return parsed

            monkeypatch.setattr(file_stream, "run_in_slices", parse_and_wait)
            watcher = Watcher()
            with channel.observed_by(watcher):
                mesh.plane.withhold("LDS")
                write(tmp_path / "mesh.yaml", xds.listener("shop", routes="routes"), *shop(mesh.hosts[0])[1:])
                await waiting.wait()
                del watcher.notes[:]
                mesh.network.restore(PLANE)
                await mesh.plane.wait_for_ack("CDS")
                await trio.sleep(1)
                assert "resource Listener shop acked" in watcher.notes


async def test_other_tasks_run_while_many_small_resources_are_read(autojump_clock, tmp_path, monkeypatch):
    monkeypatch.setattr(ads_stream, "SLICE_TIME", -1.0)  # each resource takes too long
    names = [f"cart-{number}" for number in range(20)]
    found = [xds.listener("shop", routes="routes"), *map(xds.cluster, names)]
    table = xds.routes("routes", *[xds.route(name, prefix=f"/{name}") for name in names])
    write(tmp_path / "mesh.yaml", *found, table, *map(xds.endpoints, names))
    steps = []

    def read_and_note(resource, type, *more):
        steps.append(type.kind)
        return read_resource(resource, type, *more)

    monkeypatch.setattr(file_stream, "read_resource", read_and_note)
    async with channel_on(Mesh(MemoryNetwork(), None), tmp_path):
        while steps.count("EDS") < len(names):
            steps.append("another task")
            await trio.lowlevel.checkpoint()
    for kind in ("CDS", "EDS"):
        assert "another task" in steps[steps.index(kind) : steps.index(kind) + 4]


async def test_an_explanation_of_a_call_works_as_with_a_control_plane(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        write(tmp_path / "mesh.yaml", *shop(mesh.hosts[0]))
        async with channel_on(mesh, tmp_path) as channel:
            await ask(channel)
            assert (await channel.explain(METHOD)).host == mesh.hosts[0]
