"""The page in a browser: the demo's shop while hosts drain and go, and a state stream that has nothing good in mind."""

import json
from contextlib import asynccontextmanager

import pytest
import trio
from support.chromium import open_tab
from support.ports import reserved_ports

from trxds.admin import Admin, page_url

from . import screenshots
from .fake_state_stream import FakeStateStream, admin_connections
from .shop import open_shop

pytestmark = pytest.mark.slow

VIEWS = (
    "channels",
    "sessions",
    "hosts",
    "errors",
    "tree",
    "endpoints",
    "resources",
    "ads",
    "picks",
    "connections",
    "timeline",
)
LIVE = "document.body.dataset.link === 'live'"
TOKEN = "a-token-of-24-characters"


@asynccontextmanager
async def page_of(states, *, port=0, token=""):
    """The URL of a page that shows what a test's own state stream says."""
    [listener] = await trio.open_tcp_listeners(port, host="127.0.0.1")
    address = f"127.0.0.1:{listener.socket.getsockname()[1]}"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, admin_connections(states, Admin(address, token)).serve, [listener])
        yield page_url(address, token)
        nursery.cancel_scope.cancel()


def rows(label):
    """Of a table's body, the texts of the cells."""
    table = f"[...document.querySelectorAll('table')].find((table) => table.caption.innerText === '{label}')"
    return f"[...{table}.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.innerText))"


async def show(tab, view):
    await tab.click(f"#tab-{view}")
    await tab.until(f"document.querySelector('#panel').getAttribute('aria-labelledby') === 'tab-{view}'")


# -- the demo's shop


async def test_a_session_is_seen_to_leave_a_host_that_was_drained_and_removed(browser):
    async with open_shop() as shop, open_tab(browser, shop.page) as tab:
        await tab.until(f"{rows('Sessions')}.filter((row) => row[2].includes(':')).length === 6")
        sessions = await tab.run(rows("Sessions"))
        key, _, address, *_ = sessions[0]
        [host] = [host for host in shop.hosts if host.address == address]

        await shop.drain(host)
        await tab.until(f"{rows('Sessions')}.find((row) => row[0] === '{key}')[3].includes('DRAINING')")
        await show(tab, "endpoints")
        board = await tab.text("[aria-label='Drain board']")
        assert address in board and "DRAINING" in board

        await shop.remove(host)
        await show(tab, "sessions")
        moved = await tab.until(
            f"{rows('Sessions')}.find((row) => row[0] === '{key}' && row[8].includes('{address} →'))"
        )
        assert moved[2] != address
        assert "the host was removed" in moved[8]
        await tab.until(f"{rows('Sessions')}.every((row) => row[2] !== '{address}')")
        assert tab.problems == []


async def test_a_call_is_explained_down_to_its_host(browser):
    async with open_shop(sessions=1) as shop, open_tab(browser, shop.page) as tab:
        await show(tab, "picks")
        await tab.click(".explain summary")
        await tab.until("document.querySelector('#explain-channel').value === 'shop'")
        await tab.run("document.querySelector('#explain-method').value = '/shop.Cart/Add'")
        await tab.click(".explain button")
        verdict = await tab.until("document.querySelector('.verdict')?.innerText")
        assert "goes to 127.0.0.1:" in verdict and "(READY)" in verdict
        steps = await tab.text(".steps")
        assert "cluster_manager" in steps and "round_robin" in steps


async def test_an_invalid_explain_request_on_the_page_gets_a_readable_error(browser):
    async with open_shop(sessions=1) as shop, open_tab(browser, shop.page) as tab:
        await show(tab, "picks")
        await tab.click(".explain summary")
        await tab.until("document.querySelector('#explain-channel').value === 'shop'")
        await tab.run("document.querySelector('#explain-method').value = 'Add'")
        await tab.click(".explain button")
        assert "Add" in await tab.until("document.querySelector('.answer .trouble')?.innerText")


async def test_the_tree_is_drawn_and_walked_through_with_the_arrow_keys(browser):
    async with open_shop(sessions=1) as shop, open_tab(browser, shop.page) as tab:
        await show(tab, "tree")
        await tab.until("document.querySelectorAll('[role=treeitem]').length > 5")
        chosen = "document.querySelector('[role=treeitem][aria-selected=true]')"
        await tab.until(f"{chosen}.getAttribute('aria-label').includes('cluster_manager, READY')")
        await tab.run(f"{chosen}.focus()")
        await tab.press("ArrowRight")
        await tab.until(f"{chosen}.getAttribute('aria-label').includes('cds') && document.activeElement === {chosen}")
        await tab.until("document.querySelector('.details').innerText.includes('cluster_manager/')")
        await tab.press("ArrowLeft")
        await tab.until(f"{chosen}.getAttribute('aria-expanded') === 'false'")
        await tab.press("ArrowLeft")
        await tab.until(f"{chosen}.getAttribute('aria-label').includes('cluster_manager')")


async def test_all_text_of_the_page_has_contrast_in_light_and_dark_mode(browser):
    async with open_shop(sessions=2, pace=0.5) as shop, open_tab(browser, shop.page) as tab:
        await shop.drain(shop.hosts[0])
        grounds = set()
        for dark in (False, True):
            await tab.look(dark=dark)
            grounds.add(await tab.run("getComputedStyle(document.body).backgroundColor"))
            for view in VIEWS:
                await show(tab, view)
                assert (view, await tab.run(FAINT)) == (view, [])
        assert len(grounds) == 2


FAINT = """(() => {
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const ground = (element) => {
    for (; element; element = element.parentElement) {
      const [r, g, b, a = 1] = parse(getComputedStyle(element).backgroundColor);
      if (a > 0) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const light = (rgb) => {
    const linear = (part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = rgb.slice(0, 3).map((part) => linear(part / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const drawn = element.checkVisibility() && !element.closest("script, style, noscript, svg");
    if (!drawn || !walker.currentNode.data.trim()) continue;
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(ground(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faint.push(`${walker.currentNode.data.trim()}: ${contrast.toFixed(2)}`);
  }
  return faint;
})()"""


async def test_pictures_can_be_taken_of_all_views(browser, mesh, tmp_path):
    taken = await screenshots.take(browser, tmp_path, sessions=2, strangers=1, seconds=0)
    taken += await screenshots.take_mesh(browser, tmp_path, mesh, seconds=0)
    others = ("dark", "resource", "phone")
    assert {path.name for path in taken} == {f"live-{view}.png" for view in (*VIEWS, *others)}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in taken)


# -- a state stream of a test's own


HOSTILE = "<img src=x onerror='window.hacked = 1'><script>window.hacked = 1</script>"


async def test_names_that_are_markup_are_shown_as_what_they_are(browser):
    row = {"channel": HOSTILE, "since": 0, "calls": 1, "host": HOSTILE, "address": HOSTILE, "cluster": HOSTILE}
    move = {"time": 0, "from": HOSTILE, "to": HOSTILE, "reason": HOSTILE}
    node = {"path": HOSTILE, "policy": HOSTILE, "parent": None, "children": [], "says": HOSTILE, "warm": False}
    endpoint = {"priority": 0, "locality": HOSTILE, "health": "DRAINING", "weight": 1, "ejected": True, "sessions": 1}
    resource = {"type": HOSTILE, "name": HOSTILE, "version": HOSTILE, "server": HOSTILE, "error": HOSTILE}
    states = FakeStateStream(
        channels={HOSTILE: {"target": HOSTILE, "state": HOSTILE, "calls": 1, "failed": 0, "open": 0, "error": HOSTILE}},
        nodes={HOSTILE: {**row, **node, "state": HOSTILE, "picks": 1}},
        endpoints={HOSTILE: {**row, **endpoint, "state": HOSTILE}},
        connections={HOSTILE: {**row, "kind": HOSTILE, "state": HOSTILE, "streams": 1}},
        resources={HOSTILE: {**row, **resource, "state": HOSTILE}},
        sessions={HOSTILE: {**row, "moves": 1, "last_move": move}},
    )
    pick = {"kind": "pick", "time": 0, "call": 1, "method": HOSTILE, "why": HOSTILE, "session": HOSTILE}
    ads = {"kind": "ads", "time": 0, "direction": HOSTILE, "nonce": HOSTILE, "answer": HOSTILE, "resources": [HOSTILE]}
    second = {"kind": "per_second_stats", "time": 0, "requests": 1, "errors": {HOSTILE: 1}, "p50": 0, "p99": 0}
    mark = {"kind": "config_applied", "time": 0, "text": HOSTILE}
    shown = {**row, "metadata": {HOSTILE: HOSTILE}, "state": HOSTILE}
    calls = {"kind": "per_second_calls", "time": 0, "method": HOSTILE, "requests": 1, "errors": {HOSTILE: 1}}
    calls["times"] = {HOSTILE: 1}
    events = [{**shown, **event} for event in (pick, {**resource, **ads}, second, mark, calls)]
    async with page_of(states) as url, open_tab(browser, url) as tab:
        await tab.until(LIVE)
        states.say(events=events)
        for view in VIEWS:
            await show(tab, view)
            await tab.until(f"document.querySelector('#panel').textContent.includes({json.dumps(HOSTILE[:20])})")
        assert await tab.run("document.querySelectorAll('img, #panel script').length") == 0
        assert await tab.run("window.hacked") is None
        assert tab.problems == []


async def test_a_call_that_failed_without_a_pick_says_all_of_why_and_can_be_explained(browser):
    message = 'RDS resource "shop-routes" (server 10.0.0.10:18000, node "web-1"): no route matches /nobody.X/Get ' * 2
    call = {"time": 0, "channel": "shop", "call": 1, "method": "/nobody.X/Get", "cluster": "", "host": ""}
    end = {"kind": "call_ended", **call, "session": None, "status": "UNAVAILABLE", "message": message, "seconds": 0.001}
    states = FakeStateStream()
    async with page_of(states) as url, open_tab(browser, url) as tab:
        await tab.until(LIVE)
        pick = {"kind": "pick", **call, "call": 2, "session": None, "why": f"waits: {message}", "metadata": {}}
        states.say(events=[pick, end])
        await show(tab, "picks")
        failed, waits = await tab.until(f"{rows('Picks, newest first')}.length === 2 && {rows('Picks, newest first')}")
        assert (failed[6], waits[6]) == ("no pick", "waits")
        assert "UNAVAILABLE" in failed[7] and message.strip() in failed[7]
        assert "under way" in waits[7] and message.strip() in waits[7]
        assert await tab.run("document.querySelectorAll('td button').length") == 2
        widths = "[document.querySelector('.framed').scrollWidth, document.querySelector('.framed').clientWidth]"
        needed, given = await tab.run(widths)
        assert needed == given  # nothing of it lies beyond the edge


async def test_a_narrow_window_has_the_tabs_in_one_line_above_the_view(browser):
    async with page_of(FakeStateStream()) as page, open_tab(browser, page, width=420) as tab:
        await tab.until(LIVE)
        assert await tab.run("document.querySelector('#tabs').offsetHeight") < 60
        assert await tab.run("document.querySelector('#panel').getBoundingClientRect().top") < 320


async def test_the_browser_refuses_to_make_elements_of_a_text(browser):
    async with page_of(FakeStateStream()) as url, open_tab(browser, url) as tab:
        with pytest.raises(RuntimeError, match="TrustedHTML"):
            await tab.run("document.body.innerHTML = '<b>x</b>'")


async def test_the_page_fetches_nothing_from_other_sites(browser):
    async with page_of(FakeStateStream()) as url, open_tab(browser, url) as tab:
        await tab.until(LIVE)
        fetched = [each for each in tab.requests if not each.startswith("data:")]
        assert fetched == [url, url.replace("http:", "ws:") + "state"]


async def test_the_arrow_keys_go_through_the_views_and_tab_leaves_them(browser):
    async with page_of(FakeStateStream()) as url, open_tab(browser, url) as tab:
        await tab.until(LIVE)
        await tab.run("document.querySelector('#tab-sessions').focus()")
        chosen = "[document.activeElement.id, document.querySelector('[role=tab][aria-selected=true]').id].join()"
        for key, view in (
            ("ArrowDown", "hosts"),
            ("ArrowRight", "errors"),
            ("End", "timeline"),
            ("ArrowDown", "channels"),
        ):
            await tab.press(key)
            await tab.until(f"{chosen} === 'tab-{view},tab-{view}'")
        await tab.press("Tab")
        await tab.until("document.querySelector('#panel').contains(document.activeElement)")
        assert (
            await tab.run("[...document.querySelectorAll('[role=tab]')].filter((tab) => tab.tabIndex === 0).length")
            == 1
        )


async def test_a_screen_reader_finds_a_name_for_everything_that_can_be_used(browser):
    async with page_of(FakeStateStream()) as url, open_tab(browser, url) as tab:
        await tab.until(LIVE)
        for view in VIEWS:
            await show(tab, view)
            nodes = (await tab.call("Accessibility.getFullAXTree"))["nodes"]
            used = [node for node in nodes if node.get("role", {}).get("value") in USED and not node["ignored"]]
            assert len(used) > 9
            assert [node["role"]["value"] for node in used if not node["name"]["value"]] == []


USED = {"button", "tab", "tabpanel", "tablist", "searchbox", "textbox", "combobox", "table", "tree", "image"}


async def test_session_moves_are_announced_to_screen_readers_together(browser):
    session = {"channel": "shop", "host": "a", "cluster": "c", "since": 0, "calls": 1, "moves": 0, "last_move": None}
    states = FakeStateStream(sessions={f"shop/{number}": session for number in range(5)})
    async with page_of(states) as url, open_tab(browser, url) as tab:
        await tab.until(f"{rows('Sessions')}.length === 5")
        await tab.run(
            "said = []; new MutationObserver(() => said.push(document.querySelector('#said').textContent))"
            ".observe(document.querySelector('#said'), {childList: true})"
        )
        move = {"time": 0, "from": "a", "to": "b", "reason": "not_ready"}
        moved = {**session, "host": "b", "moves": 1, "last_move": move}
        states.say(*[{"section": "sessions", "key": f"shop/{number}", "value": moved} for number in range(5)])
        assert await tab.until("said.length > 0 && said") == ["5 sessions moved"]


async def test_a_frozen_page_stays_the_same_and_misses_nothing(browser):
    session = {"channel": "shop", "host": "a", "cluster": "c", "since": 0, "calls": 1, "moves": 0, "last_move": None}
    states = FakeStateStream(sessions={"shop/1": session})
    async with page_of(states) as url, open_tab(browser, url) as tab:
        await tab.until(f"{rows('Sessions')}.length === 1")
        await tab.click("#freeze")
        for number in range(2, 6):
            states.say({"section": "sessions", "key": f"shop/{number}", "value": session})
        await states.until(lambda: states.taken == 5)
        assert len(await tab.run(rows("Sessions"))) == 1
        await tab.click("#freeze")
        await tab.until(f"{rows('Sessions')}.length === 5")


async def test_the_token_opens_the_page_and_leaves_the_address(browser):
    async with page_of(FakeStateStream(), token=TOKEN) as page:
        assert page.endswith(f"/#token={TOKEN}")
        async with open_tab(browser, page) as tab:
            await tab.until(LIVE)
            assert TOKEN not in await tab.run("location.href")
            await tab.call("Page.reload")
            await tab.until(LIVE)
        async with open_tab(browser, page.partition("#")[0]) as tab:
            assert "not connected" in await tab.until(
                "document.body.dataset.link === 'lost' && document.body.innerText"
            )


async def served_until(scope, port, task_status):
    with scope:
        async with page_of(FakeStateStream(), port=port) as page:
            task_status.started(page)
            await trio.sleep_forever()


async def test_a_page_that_has_lost_its_program_finds_it_again(browser):
    first, second = trio.CancelScope(), trio.CancelScope()
    with reserved_ports(1) as (port,):
        async with trio.open_nursery() as nursery:
            page = await nursery.start(served_until, first, port)
            async with open_tab(browser, page) as tab:
                await tab.until(LIVE)
                first.cancel()
                assert "not connected" in await tab.until(
                    "document.body.dataset.link === 'lost' && document.body.innerText"
                )
                await nursery.start(served_until, second, port)
                await tab.until(LIVE)
                second.cancel()


async def test_the_page_has_no_animation_with_reduced_motion(browser):
    async with page_of(FakeStateStream()) as page, open_tab(browser, page, reduced_motion=True) as tab:
        await tab.run("document.querySelector('#panel').append(el('span', { class: 'length' }))")
        assert await tab.run("getComputedStyle(document.querySelector('.length')).transitionDuration") == "0s"


async def test_ten_thousand_endpoints_do_not_hold_up_the_page(browser):
    row = {"channel": "shop", "cluster": "c", "priority": 0, "locality": "", "health": "HEALTHY", "state": None}
    more = {"weight": 1, "ejected": False, "sessions": 0}
    states = FakeStateStream(
        endpoints={f"shop/c/{n}": {**row, **more, "address": f"10.0.0.1:{n}"} for n in range(10_000)}
    )
    async with page_of(states) as url, open_tab(browser, url) as tab:
        await show(tab, "endpoints")
        await tab.until(f"{rows('Endpoints')}.length === 300")
        await tab.run(
            "filter = document.querySelector('input[type=search]'); filter.value = ':9999';"
            "filter.dispatchEvent(new Event('input'))"
        )
        await tab.until(f"{rows('Endpoints')}.length === 1")
