"""Pictures of the eight views for the documents: `make screenshots` writes them into docs/images.

The shop is busy, one of its hosts drains and another has gone; a cluster of the control plane's was refused, and a
few calls ask for a method that nobody has.
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

from .shop import open_shop

HEIGHTS = {
    "sessions": 640,
    "tree": 720,
    "endpoints": 560,
    "resources": 500,
    "ads": 640,
    "picks": 760,
    "connections": 500,
    "timeline": 800,
}
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
        await tab.click("td button")
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


if __name__ == "__main__":
    main(sys.argv[1])
