"""The guides to a control plane outage and to xDS from files, as they are followed."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from pathlib import Path

import trio
import yaml
from support import guides
from support.mesh import PLANE, Mesh

import trxds
from trxds.cli.check import check
from trxds.cli.control_plane import read_for_clients
from trxds.testing import Server

OUTAGE, FILES = "survive-a-control-plane-outage", "xds-from-files"


async def run_program(guide, monkeypatch, path, place, **channel):
    """Run the guide's program, with another path and network; return what it prints."""
    (program,) = guides.blocks(guide, "python")
    program = program.replace(str(place), str(path))
    printed = []
    real = trxds.open_channel

    @asynccontextmanager
    async def open_channel(*args, **options):
        async with real(*args, **(channel | options)) as opened:
            yield opened
            await trio.sleep(2)

    monkeypatch.setattr(trxds, "open_channel", open_channel)
    names = {"__name__": "guide", "print": printed.append}
    exec(compile(program.replace("trio.run(main)", ""), guide, "exec"), names)
    await names["main"]()
    monkeypatch.undo()
    return printed


async def test_the_program_with_a_cache_starts_without_a_control_plane(autojump_clock, tmp_path, monkeypatch):
    async with Mesh.run(1) as mesh:
        options = {"bootstrap": mesh.bootstrap, "network": mesh.network}
        first = await run_program(OUTAGE, monkeypatch, tmp_path, "/var/cache/shop", **options)
        mesh.network.refuse(PLANE)
        mesh.network.cut(PLANE)
        assert await run_program(OUTAGE, monkeypatch, tmp_path, "/var/cache/shop", **options) == first != []


async def test_the_program_with_files_calls_the_host_of_the_files(autojump_clock, tmp_path, monkeypatch):
    (resources,) = guides.blocks(FILES, "yaml")
    (tmp_path / "mesh.yaml").write_text(resources)
    assert read_for_clients(resources).remarks == ()

    async def add(call):
        async for message in call:
            await call.send(b"added " + message)

    async with Mesh.run(0) as mesh, trio.open_nursery() as nursery:
        await nursery.start(Server(fallback=add, address="127.0.0.1:50051", network=mesh.network).run)
        printed = await run_program(FILES, monkeypatch, tmp_path, "/etc/mesh", network=mesh.network)
        assert printed == [b"added apples"]
        nursery.cancel_scope.cancel()


def test_the_bootstraps_of_the_guides_have_no_error(tmp_path: Path):
    (tmp_path / "mesh.yaml").write_text("[]")
    documents = [*guides.blocks(OUTAGE, "json"), *guides.blocks(FILES, "json")]
    assert len(documents) == 3
    for text in documents:
        json.loads(text)
        local = text.replace("/etc/mesh-fallback", str(tmp_path)).replace("/etc/mesh", str(tmp_path))
        assert check(local).findings == ()


def test_the_resources_of_the_guide_are_in_the_form_that_envoy_has():
    (text,) = guides.blocks(FILES, "yaml")
    assert list(yaml.safe_load(text)) == ["resources"]
