"""Pictures of the views for the documents: `make screenshots` writes them into docs/images.

Most show the demo's shop: it is busy, one of its hosts drains and another has gone; a cluster of the control plane's
was refused, and a few calls ask for a method that nobody has. Those of views that sum up show a mesh of a real size.
"""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import trio
from support import chromium

import trxds
from trxds.testing.resources import cluster

from . import big_mesh
from .shop import open_shop

HEIGHTS = {
    "sessions": 640,
    "tree": 720,
    "endpoints": 560,
    "resources": 500,
    "ads": 640,
    "picks": 900,
    "connections": 500,
    "timeline": 800,
}
MESH_HEIGHTS = {"channels": 460, "hosts": 620, "errors": 460}
CHANGED = "recommendations"  # a cluster of the mesh
OVER = "[...document.querySelectorAll('tbody tr')].slice(0, 8).every((row) => row.innerText.includes(' ms'))"


async def take(devtools: str, folder: Path, sessions: int, strangers: int, seconds: float) -> list[Path]:
    """A picture of each view, after some seconds of history; one of them also in the dark."""
    shopping = open_shop(sessions, strangers, pace=0.1)
    async with shopping as shop, chromium.open_tab(devtools, shop.page) as tab:
        await tab.until(f"document.querySelectorAll('tbody tr').length === {sessions}")
        await _happen(shop, tab, seconds)
        taken = [await _take(tab, folder, view) for view in HEIGHTS]
        await tab.look(dark=True)
        await _show(tab, "tree")
        return [*taken, await _write(tab, folder / "live-dark.png")]


async def take_mesh(devtools: str, folder: Path, program: big_mesh.Program, seconds: float) -> list[Path]:
    """Pictures of what sums up, of a resource with its differences, of a telephone, and of a lost control plane."""
    async with chromium.open_tab(devtools, program.page) as tab:
        await tab.until("document.querySelectorAll('tbody tr').length > 100")
        await _do(program, program.mesh.drain, big_mesh.SHARED)
        await trio.sleep(seconds)
        taken = []
        for view, height in MESH_HEIGHTS.items():
            await tab.size(1280, height)
            await tab.click(f"#tab-{view}")
            await tab.until(f"document.querySelector('#tab-{view}').ariaSelected === 'true'")
            taken.append(await _write(tab, folder / f"live-{view}.png"))
        statuses = ("UNKNOWN", "HEALTHY", "DRAINING")
        await _do(program, program.mesh.put, cluster(CHANGED, override_statuses=statuses, idle_timeout=60))
        await tab.size(1280, 620)
        await tab.run(f"location.hash = 'resources?channel=shop&open=shop%2FCDS%2F{CHANGED}'")
        await tab.until("document.querySelector('.diff li[data-sign=\"+\"]')")
        taken.append(await _write(tab, folder / "live-resource.png"))
        await tab.size(390, 844)
        await tab.run("location.hash = 'hosts'")
        await tab.until("document.querySelector('#tab-hosts').ariaSelected === 'true'")
        taken.append(await _write(tab, folder / "live-phone.png"))
        return taken


async def take_alarm(devtools: str, folder: Path, program: big_mesh.Program) -> Path:
    """A picture of the channels of a mesh whose control plane is lost."""
    async with chromium.open_tab(devtools, f"{program.page}#channels", height=460) as tab:
        await _do(program, program.mesh.lose_control_plane)
        await tab.until("[...document.querySelectorAll('tbody tr.marked')].length === 4")
        await trio.sleep(2)  # for calls to be counted
        return await _write(tab, folder / "live-alarm.png")


async def _do(program: big_mesh.Program, method, *arguments) -> None:
    await trio.to_thread.run_sync(program.do, method, *arguments)


async def _happen(shop, tab, seconds: float) -> None:
    on = Counter(await tab.run("[...document.querySelectorAll('tbody tr')].map((row) => row.cells[2].innerText)"))
    gone, drained, *_ = sorted(shop.hosts, key=lambda host: (host.cluster != "blue", -on[host.address]))
    await trio.sleep(seconds / 3)
    await shop.drain(drained)
    await shop.drain(gone)
    for _ in range(3):
        with suppress(trxds.RpcError):
            await shop.channel.method("/shop.Cart/Forget", None, None)(b"")
    await trio.sleep(seconds / 3)
    await shop.remove(gone)
    shop.push({**cluster("green"), "lb_policy": "MAGLEV"})  # as no gRPC client takes it
    await tab.until("document.querySelector('#tab-ads').innerText.includes('NACK')")
    await trio.sleep(seconds / 3)


async def _take(tab, folder: Path, view: str) -> Path:
    await tab.size(1280, HEIGHTS[view])
    await _show(tab, view)
    return await _write(tab, folder / f"live-{view}.png")


async def _show(tab, view: str) -> None:
    await tab.run("freeze.ariaPressed === 'true' && freeze.click()")
    await tab.click(f"#tab-{view}")
    if view == "picks":
        await tab.click("td button[aria-label*='of session']")
        await tab.until("document.querySelector('.steps')")
        await tab.until(f"{OVER} && (document.querySelector('#freeze').click(), true)")
    if view == "timeline":
        await tab.until("document.querySelector('.request')")


async def _write(tab, path: Path) -> Path:
    await trio.Path(path).write_bytes(await tab.screenshot())
    return path


def main(folder: str) -> None:
    sys.argv[0] = "shop"  # by which the page calls the program
    with chromium.running(chromium.program()) as devtools:
        for path in trio.run(take, devtools, Path(folder), 12, 8, 45):
            print(path, path.stat().st_size)
        with big_mesh.running() as program:
            for path in (
                *trio.run(take_mesh, devtools, Path(folder), program, 15),
                trio.run(take_alarm, devtools, Path(folder), program),
            ):
                print(path, path.stat().st_size)


if __name__ == "__main__":
    main(sys.argv[1])
