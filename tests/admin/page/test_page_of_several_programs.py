"""`trxds live` in a browser: several programs on one page, by their admin addresses."""

from contextlib import asynccontextmanager

import pytest
import trio
from support.chromium import open_tab
from support.mesh import Mesh, ask

import trxds.admin
from trxds.admin import Admin
from trxds.cli.running.access import Access
from trxds.cli.running.page_relay import named_programs, serve_programs

from .fake_state_stream import FakeStateStream
from .test_page_in_chromium import VIEWS, page_of, rows, show

pytestmark = pytest.mark.long


@asynccontextmanager
async def small_program(address):
    """A program with one channel and one session, at a unix socket, which no browser could open."""
    async with (
        Mesh.run(2) as mesh,
        mesh.channel() as channel,
        trxds.admin.serve(channel, address=address),
        channel.session() as session,
    ):
        await ask(session)
        yield


async def served_until(scope, address, task_status):
    with scope:
        async with small_program(address):
            task_status.started()
            await trio.sleep_forever()


async def test_several_programs_are_on_one_page_and_each_is_told_apart(browser, mesh, tmp_path):
    address = f"unix:{tmp_path}/small.sock"
    programs = named_programs([f"big={mesh.address}", f"small={address}"], Access())
    end = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        await nursery.start(served_until, end, address)
        admin = Admin("127.0.0.1:0", "the-token-of-the-page-itself")
        async with serve_programs(programs, admin) as url, open_tab(browser, url) as tab:
            await show(tab, "channels")
            await tab.until(f"{rows('Channels')}.length === 5")
            names = [row[0].split("\n")[0] for row in await tab.run(rows("Channels"))]
            assert names == ["big: billing", "big: search", "big: shop", "big: shop#2", "small: shop"]
            assert "601" in await tab.text("#vitals")

            await tab.run("location.hash = 'tree?channel=small%3A+shop'")
            await tab.until("document.querySelectorAll('[role=treeitem]').length > 2")
            await tab.run("location.hash = 'resources?channel=small%3A+shop&open=small%3A+shop%2FCDS%2Fcart'")
            await tab.until("document.querySelector('.diff').innerText.includes('eds_cluster_config')")

            await tab.run("location.hash = 'picks'")
            await tab.click(".explain summary")
            await tab.until("document.querySelector('#explain-channel').options.length === 5")
            await tab.run("document.querySelector('#explain-channel').value = 'small: shop'")
            await tab.run("document.querySelector('#explain-method').value = '/shop.Cart/Add'")
            await tab.run("document.querySelector('#explain-session').value = 'small: shop/1'")
            await tab.click(".explain button")
            assert "goes to 10.0.1." in await tab.until("document.querySelector('.verdict')?.innerText")
            assert "names 10.0.1." in await tab.text(".steps")

            end.cancel()
            alarm = "document.querySelector('[role=alert]').innerText"
            assert "Not connected to small" in await tab.until(f"{alarm} && {alarm}")
            await tab.run("location.hash = 'channels'")
            assert len(await tab.until(f"{rows('Channels')}.length && {rows('Channels')}")) == 5
            assert tab.problems == []


class OlderProgram(FakeStateStream):
    """A program whose version knows neither hosts' calls, nor control planes, nor texts of resources."""

    def __init__(self):
        channel = {"target": "xds:///shop", "state": "READY", "calls": 1, "failed": 0, "open": 0, "error": ""}
        resource = {"channel": "shop", "type": "CDS", "name": "cart", "state": "acked", "version": "1", "since": 0}
        resources = {"shop/CDS/cart": {**resource, "server": "", "error": ""}}
        super().__init__(channels={"shop": channel}, resources=resources)


async def test_a_program_of_an_older_version_is_shown_as_far_as_it_tells(browser, monkeypatch):
    hello = {"version": "0.0.1", "program": "old", "pid": 1}
    monkeypatch.setattr("trxds.admin.page.viewer._hello", lambda answers: hello)
    async with page_of(OlderProgram()) as url, open_tab(browser, url) as tab:
        for view in VIEWS:
            await show(tab, view)
        await tab.run("location.hash = 'resources?open=shop%2FCDS%2Fcart'")
        text = await tab.until("document.querySelector('.diff .trouble')?.innerText")
        assert text == "trxds 0.0.1 in old does not answer this"
        assert await tab.run("document.body.dataset.link") == "live"
        assert tab.problems == []
