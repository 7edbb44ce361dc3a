"""Watched xDS files with mistakes: the last good resources stay, and errors name file, line and remedy."""

from __future__ import annotations

import os

import pytest
import trio
from support.logs import lines
from support.mesh import Mesh, ask
from support.xds_files import channel_on, shop, write

from trxds import RpcError, StatusCode
from trxds.admin.channel_source import channel_sources
from trxds.admin.state_stream.state_snapshot import Sampler
from trxds.testing import resources as xds


async def test_a_bad_file_at_the_start_fails_calls_with_file_line_and_remedy(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        file = tmp_path / "mesh.yaml"
        file.write_text("resources:\n- '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster\n  nme: cart\n")
        async with channel_on(mesh, file) as channel:
            with pytest.raises(RpcError) as caught:
                await ask(channel)
            assert caught.value.status.code is StatusCode.UNAVAILABLE
            message = caught.value.status.message
            assert f"server file://{file}" in message
            assert "cannot read the resources since" in message
            assert f"{file}: line 3: nme: envoy.config.cluster.v3.Cluster has no such field" in message
            assert message.endswith("correct the file, which is read again when it changes")
            write(file, *shop(mesh.hosts[0]))
            await trio.sleep(2)
            assert await ask(channel) == mesh.hosts[0]


async def shown_files(channel):
    """What the live page shows of the files, as of a control plane."""
    (row,) = (await Sampler(channel_sources([channel])).sample({"control_planes"}))["control_planes"].values()
    return row


async def test_a_bad_file_keeps_the_last_good_resources_and_operators_see_why(autojump_clock, tmp_path, caplog):
    async with Mesh.run(2) as mesh:
        file = tmp_path / "mesh.yaml"
        write(file, *shop(mesh.hosts[0]))
        async with channel_on(mesh, tmp_path) as channel:
            assert await ask(channel) == mesh.hosts[0]
            file.write_text("- [")
            await trio.sleep(3)
            assert await ask(channel) == mesh.hosts[0]
            (warning,) = channel.admin_view().warnings
            assert f"{file}: line 1: no valid YAML" in warning
            row = await shown_files(channel)
            assert (row["server"], row["state"]) == (f"file://{tmp_path}", "TRANSIENT_FAILURE")
            assert f"{file}: line 1" in row["error"]
            assert len([each for each in lines(caplog, "xds", 30) if f"{file}: line 1: no valid YAML" in each]) == 1
            write(file, *shop(mesh.hosts[1]))
            await trio.sleep(3)
            assert await ask(channel) == mesh.hosts[1]
            assert channel.admin_view().warnings == ()
            row = await shown_files(channel)
            assert (row["state"], row["error"]) == ("READY", "")


async def test_a_resource_that_a_client_refuses_is_an_error_with_its_file_and_line(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        file = tmp_path / "mesh.yaml"
        good = shop(mesh.hosts[0])
        write(file, *good[:2], {**good[2], "lb_policy": "MAGLEV"}, good[3])
        line = file.read_text()[: file.read_text().index("MAGLEV")].count("\n")
        async with channel_on(mesh, file) as channel:
            with pytest.raises(RpcError, match='CDS resource "cart"') as caught:
                await ask(channel)
            assert f"{file}: line " in caught.value.status.message
            place = int(caught.value.status.message.partition(f"{file}: line ")[2].partition(":")[0])
            assert place <= line + 1
            write(file, *good)
            await trio.sleep(3)
            assert await ask(channel) == mesh.hosts[0]


async def test_a_refused_resource_that_moves_in_its_file_has_its_new_line(autojump_clock, tmp_path):
    file, bad = tmp_path / "mesh.yaml", {**xds.cluster("cart"), "lb_policy": "MAGLEV"}
    async with Mesh.run(1) as mesh:
        write(file, bad, *shop(mesh.hosts[0])[:2])
        async with channel_on(mesh, file) as channel:
            with pytest.raises(RpcError, match=f"{file}: line 1: "):
                await ask(channel)
            file.write_text(f"# Two more\n# lines\n{file.read_text()}")
            await trio.sleep(3)
            with pytest.raises(RpcError, match=f"{file}: line 3: ") as caught:
                await ask(channel)
            assert "line 1" not in caught.value.status.message


async def test_one_refused_resource_keeps_its_last_good_version_and_the_others_change(autojump_clock, tmp_path):
    async with Mesh.run(2) as mesh:
        file = tmp_path / "mesh.yaml"
        write(file, *shop(mesh.hosts[0]))
        async with channel_on(mesh, file) as channel:
            assert await ask(channel) == mesh.hosts[0]
            changed = shop(mesh.hosts[1])
            write(file, *changed[:2], {**changed[2], "lb_policy": "MAGLEV"}, changed[3])
            await trio.sleep(3)
            assert await ask(channel) == mesh.hosts[1]
            states = {each.type.kind: each.state.name for each in channel.admin_view().client.resources}
            assert states == {"LDS": "ACKED", "RDS": "ACKED", "CDS": "NACKED", "EDS": "ACKED"}


async def test_a_resource_that_no_file_has_does_not_exist(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        write(tmp_path / "mesh.yaml", *shop(mesh.hosts[0])[:2])
        async with channel_on(mesh, tmp_path) as channel:
            with (
                trio.fail_after(2),  # and not after the resource timer of 15 s
                pytest.raises(RpcError, match=r'CDS resource "cart".*does not exist, no file there has it'),
            ):
                await ask(channel)


async def test_a_resource_that_leaves_the_files_is_deleted(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        write(tmp_path / "mesh.yaml", *shop(mesh.hosts[0]))
        async with channel_on(mesh, tmp_path) as channel:
            await ask(channel)
            write(tmp_path / "mesh.yaml", *shop(mesh.hosts[0])[1:])
            await trio.sleep(3)
            with pytest.raises(RpcError, match=r'LDS resource "shop".*no file there has it'):
                await ask(channel)


@pytest.mark.parametrize(
    ("prepare", "error"),
    [
        (lambda path: None, "{path}: No such file or directory"),
        (lambda path: path.mkdir(), "{path}: no file ends in .yaml, .yml or .json"),
        (lambda path: path.write_bytes(b"- a\n- \xff"), "{path}: line 2: not UTF-8 text"),
        (lambda path: path.write_text(""), "{path}: line 1: the file is empty; write a list of resources, or []"),
    ],
)
async def test_files_that_cannot_be_read_say_so(autojump_clock, tmp_path, prepare, error):
    path = tmp_path / "mesh"
    prepare(path)
    async with Mesh.run(1) as mesh, channel_on(mesh, path) as channel:
        with pytest.raises(RpcError) as caught:
            await ask(channel)
        assert error.format(path=path) in caught.value.status.message
        if path.is_dir():
            write(path / "mesh.yaml", *shop(mesh.hosts[0]))
        else:
            write(path, *shop(mesh.hosts[0]))
        await trio.sleep(3)
        assert await ask(channel) == mesh.hosts[0]


async def test_a_pipe_among_the_files_is_an_error_and_is_not_waited_for(autojump_clock, tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    async with Mesh.run(1) as mesh, channel_on(mesh, tmp_path) as channel:
        with pytest.raises(RpcError, match=r"pipe\.yaml: is no ordinary file; correct the file"):
            await ask(channel)


async def test_a_name_that_two_files_have_is_an_error_with_both_places(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        for name in ("a.yaml", "b.yaml"):
            write(tmp_path / name, xds.cluster("cart"))
        async with channel_on(mesh, tmp_path) as channel:
            with pytest.raises(RpcError) as caught:
                await ask(channel)
            places = f"{tmp_path}/b.yaml: line 1: 'cart' is there already, in {tmp_path}/a.yaml: line 1"
            assert places in caught.value.status.message


async def test_a_file_that_is_missing_for_a_moment_is_no_error(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        file = tmp_path / "mesh.yaml"
        write(file, *shop(mesh.hosts[0]))
        async with channel_on(mesh, file) as channel:
            await ask(channel)
            file.rename(tmp_path / "away")
            await trio.sleep(1.1)
            assert channel.admin_view().warnings == ()
            await trio.sleep(2)
            assert "No such file or directory" in channel.admin_view().warnings[0]
            (tmp_path / "away").rename(file)
            await trio.sleep(2)
            assert channel.admin_view().warnings == ()
            assert await ask(channel) == mesh.hosts[0]


async def test_a_file_whose_name_is_no_text_is_named_in_the_error_of_its_resource(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        good = shop(mesh.hosts[0])
        write(tmp_path / "mesh.json", *good[:2], good[3])
        write(tmp_path / os.fsdecode(b"\xff.json"), {**good[2], "lb_policy": "MAGLEV"})
        async with channel_on(mesh, tmp_path) as channel:
            with pytest.raises(RpcError) as caught:
                await ask(channel)
            assert f"{tmp_path}/\\xff.json: line 1: " in caught.value.status.message
