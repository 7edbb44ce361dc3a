"""The page on a mesh of a real size: 4 channels, 12 clusters, 600 sessions; hosts that several of them share."""

from itertools import pairwise

import pytest
import trio
from support import axe
from support.chromium import open_tab

from trxds.testing import resources as xds

from . import big_mesh
from .test_page_in_chromium import FAINT, VIEWS, rows, show

pytestmark = pytest.mark.long

SESSIONS_KNOWN = "[...document.querySelectorAll('#vitals > div')].some((each) => each.innerText.includes('600'))"


def at(program, place):
    return f"{program.page}#{place}"


async def do(program, method, *arguments):
    """Have the mesh do something, in its own thread."""
    await trio.to_thread.run_sync(program.do, method, *arguments)


async def choose(tab, selector, value):
    """Take an option of a select."""
    box = f"document.querySelector('{selector}')"
    await tab.run(f"{box}.value = '{value}'; {box}.dispatchEvent(new Event('change'))")


async def look_for(tab, text):
    """Type into the view's filter."""
    box = "document.querySelector('input[type=search]')"
    await tab.run(f"{box}.value = '{text}'; {box}.dispatchEvent(new Event('input'))")


async def press(tab, name):
    """Press the button with that text, or that name for a screen reader."""
    names = "[each.innerText, each.ariaLabel]"
    await tab.run(f"[...document.querySelectorAll('button')].find((each) => {names}.includes('{name}')).click()")


def vital(name):
    return (
        f"[...document.querySelectorAll('#vitals > div')].find((each) => each.innerText.startsWith('{name}')).innerText"
    )


# -- channels


async def test_each_channel_has_a_row_with_its_state_traffic_and_control_plane(browser, mesh):
    async with open_tab(browser, at(mesh, "channels")) as tab:
        await tab.until(f"{rows('Channels')}.length === 4 && {rows('Channels')}.every((row) => row[2] !== '0/s')")
        found = await tab.run(rows("Channels"))
        assert [row[0].split() for row in found] == [
            ["billing", "xds:///billing"],
            ["search", "xds:///search"],
            ["shop", "xds:///shop"],
            ["shop#2", "xds:///shop"],
        ]
        assert [row[6] for row in found] == ["150", "100", "250", "100"]
        assert {row[1].split()[-1] for row in found} == {"READY"}
        assert all("control-plane.mesh:18000" in row[8] for row in found)
        assert "4 of 4" in await tab.run(vital("Channels"))


async def test_rows_of_several_channels_name_theirs_and_those_of_one_do_not(browser, mesh):
    async with open_tab(browser, at(mesh, "resources")) as tab:
        listeners = f"{rows('Resources')}.filter((row) => row[0] === 'LDS' && row[1] === 'shop').map((row) => row[2])"
        assert await tab.until(f"{listeners}.length === 2 && {listeners}") == ["shop", "shop#2"]
        hues = "[...document.querySelectorAll('td .tag')].map((tag) => getComputedStyle(tag).borderLeftColor)"
        assert len(set(await tab.run(hues))) == 4
        await choose(tab, "#channel", "shop#2")
        await tab.until(f"{listeners}.length === 1")
        assert (
            await tab.run("[...document.querySelectorAll('.of-channel')].filter((cell) => cell.offsetParent).length")
            == 0
        )
        await show(tab, "sessions")
        await tab.until(f"{rows('Sessions')}.length === 100")
        assert "100" in await tab.run(vital("Sessions"))


# -- hosts


async def test_a_host_of_three_channels_is_one_host(browser, mesh):
    await do(mesh, mesh.mesh.drain, big_mesh.SHARED)
    on_it = sum(session.host == big_mesh.SHARED for session, _ in mesh.mesh.sessions)
    async with open_tab(browser, at(mesh, "endpoints")) as tab:
        await tab.until(f"{vital('Draining')}.includes('1 host')")
        assert (await tab.run(vital("Hosts"))).split() == ["Hosts", "28"]
        cards = "[...document.querySelectorAll('.card')].map((card) => card.innerText)"
        [card] = await tab.until(f"{cards}.length === 1 && {cards}")
        assert "in 3 channels: shop, shop#2, billing" in card
        assert f"of {on_it} sessions left" in card


async def test_sessions_rate_and_latency_are_shown_by_host(browser, mesh):
    async with open_tab(browser, at(mesh, "hosts")) as tab:
        of = f"{rows('Hosts')}.find((row) => row[0] === '%s')"
        slow = await tab.until(f"{of}[8].endsWith(' ms') && {of}" % (big_mesh.SLOW, big_mesh.SLOW))
        assert float(slow[8].split()[0]) > 200 and slow[6] != "0/s"
        failing = await tab.until(f"{of}[7].includes('▲') && {of}" % (big_mesh.FAILING, big_mesh.FAILING))
        assert failing[7].split()[-1] == failing[6]
        shared = await tab.run(of % big_mesh.SHARED)
        assert shared[1].split() == ["billing", "shop", "shop#2"]
        assert {"invoices", "payments"} <= set(shared[2].split(", "))
        counts = await tab.run(f"{rows('Hosts')}.map((row) => Number(row[5]))")
        assert sum(counts) == 600 and counts == sorted(counts, reverse=True)


async def test_the_sessions_of_a_host_are_a_click_away(browser, mesh):
    async with open_tab(browser, at(mesh, "hosts")) as tab:
        on_it = await tab.until(f"{rows('Hosts')}.find((row) => row[0] === '10.0.1.2:50051')[5]")
        link = "[...document.querySelectorAll('td a')].find((each) => each.hash.includes('10.0.1.2%3A50051'))"
        await tab.run(f"{link}.click()")
        sessions = f"{rows('Sessions')}.filter((row) => row[2] === '10.0.1.2:50051').length"
        await tab.until(f"{rows('Sessions')}.length === {on_it} && {sessions} === {on_it}")


# -- errors


async def test_errors_are_counted_by_method_host_and_status(browser, mesh):
    async with open_tab(browser, at(mesh, "errors")) as tab:
        recommend, refund = "/shop.v1.Recommendations/List", "/billing.v1.Refunds/Issue"
        of = f"{rows('Errors')}.find((row) => row[1] === '%s' && row[7] !== '–')"
        found = await tab.until(f"{of} && {of}" % (recommend, recommend))
        assert "UNAVAILABLE" in found[0] and found[2] == big_mesh.FAILING and found[7] == "the database is read-only"
        found = await tab.until(f"{of} && {of}" % (refund, refund))
        assert (found[2], found[3], found[5]) == ("no host", "billing", "100 %")
        await choose(tab, ".controls select", "host")
        found = await tab.until(
            f"{rows('Errors')}.find((row) => row[2] === '{big_mesh.FAILING}' && row[3] === 'several')"
        )
        assert found[1] == recommend
        assert "by=host" in await tab.run("location.hash")


# -- the tree


async def test_names_in_the_tree_can_be_told_apart_and_fit_into_their_boxes(browser, mesh):
    async with open_tab(browser, at(mesh, "tree?channel=shop")) as tab:
        await tab.until("document.querySelectorAll('[role=treeitem]').length > 5")
        names = "[...document.querySelectorAll('text.name')].map((each) => each.firstChild.data)"
        found = await tab.run(names)
        assert len(found) == len(set(found)) == 6
        assert [name for name in found if "cart-v1" in name] and [name for name in found if "cart-v2" in name]
        beyond = """[...document.querySelectorAll('text.name')].filter((name) =>
            name.getBBox().x + name.getBBox().width > name.parentElement.querySelector('.traffic').getBBox().x)"""
        assert await tab.run(f"{beyond}.length") == 0
        assert big_mesh.CARTS.format("v1") in await tab.run(
            "[...document.querySelectorAll('text.name title')].map((title) => title.textContent)"
        )


async def test_the_root_of_a_large_tree_is_in_view_and_its_branches_are_folded(browser, mesh):
    async with open_tab(browser, at(mesh, "tree?channel=shop")) as tab:
        await tab.until("document.querySelectorAll('[role=treeitem]').length > 5")
        top = "document.querySelector('[role=treeitem]').getBoundingClientRect().top"
        assert 0 < await tab.run(top) < 300
        items = "document.querySelectorAll('[role=treeitem]').length"
        assert await tab.run(items) == 6
        await press(tab, "Unfold all")
        await tab.until(f"{items} > 40")
        assert 0 < await tab.run(top) < 300
        await press(tab, "Fold all")
        await tab.until(f"{items} === 6")


async def test_a_branch_is_unfolded_and_folded_with_the_keyboard(browser, mesh):
    async with open_tab(browser, at(mesh, "tree?channel=search")) as tab:
        await tab.until("document.querySelectorAll('[role=treeitem]').length > 2")
        chosen = "document.querySelector('[role=treeitem][aria-selected=true]')"
        unfolded = f"document.activeElement === {chosen} && {chosen}.getAttribute('aria-expanded')"
        await tab.run(f"{chosen}.focus()")
        await tab.press("ArrowRight")
        await tab.press("ArrowLeft")
        await tab.until(f"{unfolded} === 'false'")
        await tab.press("ArrowRight")
        await tab.until(f"{unfolded} === 'true' && document.querySelectorAll('[role=treeitem]').length > 8")
        await tab.press("ArrowLeft")
        await tab.until(f"{unfolded} === 'false'")


# -- what fits


WIDE = """[...document.querySelectorAll('#panel td, #panel th')].filter((cell) => cell.offsetParent
    && cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.innerText)"""


async def test_every_view_fits_into_the_window(browser, mesh):
    async with open_tab(browser, mesh.page) as tab:
        await tab.until(SESSIONS_KNOWN)
        for view in VIEWS:
            await show(tab, view)
            for width in (1280, 1024):
                await tab.size(width, 800)
                assert (view, width, await tab.run("panel.scrollWidth - panel.clientWidth")) == (view, width, 0)
                assert (view, width, await tab.run(WIDE)) == (view, width, [])


async def test_every_view_can_be_used_at_390_pixels(browser, mesh):
    async with open_tab(browser, mesh.page, width=390) as tab:
        await tab.until(SESSIONS_KNOWN)
        for view in VIEWS:
            await show(tab, view)
            assert (view, await tab.run("document.documentElement.scrollWidth")) == (view, 390)
            assert (view, await tab.run("panel.scrollWidth - panel.clientWidth")) == (view, 0)
            # The page scrolls to its tab, in a frame of its own.
            box = f"document.querySelector('#tab-{view}').getBoundingClientRect()"
            await tab.until(f"{box}.left >= 0 && {box}.right <= 390")
        await show(tab, "timeline")
        ticks = "[...document.querySelectorAll('.tick[text-anchor=middle]')]"
        boxes = f"{ticks}.map((each) => each.getBoundingClientRect())"
        edges = await tab.run(f"{boxes}.map((box) => [box.left, box.right])")
        assert len(edges) > 1 and all(one[1] < next[0] for one, next in pairwise(edges))
        await show(tab, "hosts")
        title = "getComputedStyle(document.querySelector('td'), '::before').content"
        assert await tab.run(title) == '"Host"'
        await show(tab, "tree")
        assert await tab.run("document.querySelector('[role=tree]').getBoundingClientRect().right") <= 390


# -- the address


async def test_the_address_names_the_view_the_channel_and_the_filter_and_back_goes_back(browser, mesh):
    async with open_tab(browser, mesh.page) as tab:
        await tab.until(SESSIONS_KNOWN)
        await show(tab, "hosts")
        await choose(tab, "#channel", "billing")
        await show(tab, "picks")
        assert await tab.run("location.hash") == "#picks?channel=billing"
        assert await tab.run("document.title.includes('Picks, billing')")
        for hash_, view, channel in (
            ("#hosts?channel=billing", "hosts", "billing"),
            ("#hosts", "hosts", ""),
            ("#sessions", "sessions", ""),
        ):
            await tab.run("history.back()")
            await tab.until(f"location.hash === '{hash_}' && panel.getAttribute('aria-labelledby') === 'tab-{view}'")
            assert await tab.run("channel.value") == channel
        await look_for(tab, "billing/7")
        await tab.until("location.hash === '#sessions?find=billing%2F7'")
        await tab.call("Page.reload")
        assert await tab.until(
            f"{rows('Sessions')}.length > 1 && {rows('Sessions')}.every((row) => row[0].startsWith('billing/7'))"
        )
        assert await tab.run("document.querySelector('input[type=search]').value") == "billing/7"


# -- questions


async def test_the_explanation_of_a_session_s_pick_has_the_session(browser, mesh):
    async with open_tab(browser, at(mesh, "picks?channel=shop")) as tab:
        wanted = (
            "[...document.querySelectorAll('td button')].find((each) => each.ariaLabel.includes('of session shop/'))"
        )
        await tab.until(wanted)
        await tab.click("#freeze")
        pick = await tab.run(f"[...{wanted}.closest('tr').cells].map((cell) => cell.innerText)")
        await tab.run(f"{wanted}.click()")
        verdict = await tab.until("document.querySelector('.verdict')?.innerText")
        session = pick[6].split()[-1]
        assert await tab.run("document.querySelector('#explain-session').value") == session
        steps = await tab.text(".steps")
        assert f"names {pick[5]}" in steps and pick[5] in verdict


async def test_the_text_of_a_resource_is_shown_with_the_differences_to_the_version_before(browser, mesh):
    key = "outbound|443||cart-v2.shop.svc.cluster.local"
    async with open_tab(browser, at(mesh, "resources?channel=shop")) as tab:
        await tab.until(f"{rows('Resources')}.length > 10")
        await press(tab, f"Show CDS {key}")
        await tab.until("document.querySelector('.diff li')")
        assert key in await tab.text(".detail h3")
        await do(
            mesh, mesh.mesh.put, xds.cluster(key, override_statuses=("UNKNOWN", "HEALTHY", "DRAINING"), idle_timeout=77)
        )
        added = "[...document.querySelectorAll('.diff li[data-sign=\"+\"]')].map((each) => each.innerText).join(' ')"
        assert '"idle_timeout": "77s"' in await tab.until(f"{added}.includes('77s') && {added}")
        assert await tab.run("document.querySelectorAll('.diff li[data-sign=\"-\"]').length") < 3
        await do(mesh, mesh.mesh.put, {**xds.cluster(key), "lb_policy": "MAGLEV"})
        await tab.until("document.querySelector('.choice')?.innerText.startsWith('Refused')")
        await tab.until(f"{added}.includes('MAGLEV')")
        await tab.run("history.back()")
        await tab.until("document.querySelector('.detail').hidden")
        assert tab.problems == []
        await do(mesh, mesh.mesh.put, xds.cluster(key, override_statuses=("UNKNOWN", "HEALTHY", "DRAINING")))


# -- the alarm


async def test_a_lost_control_plane_is_an_alarm_until_it_is_back(browser, mesh):
    async with open_tab(browser, mesh.page) as tab:
        await tab.until(SESSIONS_KNOWN)
        assert await tab.text("[role=alert]") == ""
        await do(mesh, mesh.mesh.lose_control_plane)
        alarm = "document.querySelector('[role=alert]').innerText"
        text = await tab.until(f"{alarm}.includes('shop#2') && {alarm}.includes('search') && {alarm}")
        assert text.startswith(
            "▲\nControl plane lost server control-plane.mesh:18000: cannot reach the xDS server since "
        )
        assert "use what it sent before" in text
        assert (await tab.run("document.title")).startswith("▲ ")
        assert await tab.run(FAINT) == []
        await do(mesh, mesh.mesh.find_control_plane)
        await tab.until(f"{alarm} === ''")


# -- keyboard and screen reader


FEW = {"sessions": "search/1"}  # axe takes its time for each row


@pytest.mark.parametrize(
    ("views", "width", "dark"),
    [(VIEWS, 1280, False), (("sessions", "tree", "picks"), 390, True)],
    ids=["wide and light", "narrow and dark"],
)
async def test_axe_finds_nothing_wrong_with_any_view(browser, mesh, views, width, dark):
    script = axe.script()
    mesh.mesh.pace = 0.3
    async with open_tab(browser, at(mesh, "channels?channel=search"), width=width, dark=dark) as tab:
        await tab.until("document.querySelector('#vitals').innerText.includes('100')")
        await tab.run(script)
        for view in views:
            await show(tab, view)
            if view in FEW:
                await look_for(tab, FEW[view])
            assert (view, await axe.violations(tab)) == (view, [])
        if dark:
            return
        await tab.run("location.hash = 'resources?channel=search&open=search%2FCDS%2Fsearch-index'")
        await tab.until("document.querySelector('.diff li')")
        # One fault of our own, or nobody would know whether axe finds any.
        await tab.run("panel.append(document.createElement('button'))")
        assert [rule for rule, *_ in await axe.violations(tab)] == ["button-name"]
