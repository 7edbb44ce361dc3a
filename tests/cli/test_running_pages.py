"""Pages and taps by values: what is said of which state, and how it is laid out."""

import json

import click
import pytest
import trio

from trxds.cli.running.pages import RUOK, XDS, health_rows, host_lines, session_lines, tree_lines
from trxds.cli.running.show import News, Sheets, draw_latest
from trxds.cli.running.taps import Filter, event_line
from trxds.cli.running.words import age, columns
from trxds.core.conflating_queue import ConflatingQueue


def channel(state="READY", error=""):
    return {"target": "xds:///shop", "state": state, "calls": 1, "failed": 0, "open": 0, "error": error}


def node(path, state="READY", says="", *, children=(), policy="round_robin", warm=False):
    parent = f"shop/{path.rpartition('/')[0]}" if "/" in path else None
    return {
        "channel": "shop",
        "path": path,
        "policy": policy,
        "parent": parent,
        "state": state,
        "picks": 3,
        "children": [f"shop/{path}/{child}" for child in children],
        "says": says,
        "warm": warm,
    }


def state_of(*nodes, resources=(), **told):
    return {
        "channels": {"shop": channel(**told)},
        "nodes": {f"shop/{row['path']}": row for row in nodes},
        "resources": {f"shop/CDS/{row['name']}": row for row in resources},
        "endpoints": {},
    }


def resource(state, error="", version="1"):
    known = {"channel": "shop", "type": "CDS", "name": "cart", "server": "plane:1", "since": 1.0}
    return {**known, "state": state, "version": version, "error": error}


def problems(state):
    [row] = health_rows(state)
    return row["problems"]


# -- ruok


def test_a_warning_of_a_channel_is_shown_and_the_channel_stays_ok():
    state = state_of()
    state["channels"]["shop"]["warnings"] = ["an override is left out"]
    assert list(RUOK.lines(state, 0.0))[1:] == ["  warning: an override is left out"]
    assert RUOK.good(state)


def test_a_channel_whose_clusters_can_serve_is_ok():
    state = state_of(node("root", children=["cart"]), node("root/cart"))
    assert (problems(state), RUOK.good(state)) == ([], True)


@pytest.mark.parametrize("state", ["IDLE", "READY"])
def test_an_idle_channel_connects_with_the_next_call_so_it_is_ok(state):
    assert problems(state_of(state=state)) == []


def test_a_failing_cluster_is_a_problem_although_the_channel_is_ready():
    state = state_of(
        node("root", children=["cart", "basket"]),
        node("root/cart"),
        node("root/basket", "TRANSIENT_FAILURE", children=["cluster"]),
        node("root/basket/cluster", "TRANSIENT_FAILURE", "0 of 1 endpoints READY; refused"),
    )
    assert problems(state) == ["cluster basket: 0 of 1 endpoints READY; refused"]


def test_a_cluster_that_is_only_kept_warm_may_fail():
    state = state_of(node("root", children=["old"]), node("root/old", "TRANSIENT_FAILURE", warm=True))
    assert problems(state) == []


def test_a_channel_without_a_configuration_shows_the_reason():
    error = 'LDS resource "shop": does not exist'
    assert problems(state_of(state="TRANSIENT_FAILURE", error=error)) == [error]


def test_a_channel_that_waits_or_is_closed_is_not_ok():
    assert "wait for a host, or for a configuration" in problems(state_of(state="CONNECTING"))[0]
    assert problems(state_of(state="SHUTDOWN")) == ["the channel is closed"]


def test_a_target_without_clusters_fails_as_a_whole():
    state = state_of(node("root", "TRANSIENT_FAILURE", "refused"), state="TRANSIENT_FAILURE")
    assert problems(state) == ["all calls: refused"]


def test_a_refused_resource_warns_and_says_what_stays_in_use():
    [row] = health_rows(state_of(resources=[resource("nacked", "bad field")]))
    assert row["warnings"] == ['CDS resource "cart" is nacked: bad field; version 1 stays in use']
    assert row["ok"]


# -- xds


@pytest.mark.parametrize(
    ("state", "good"), [("acked", True), ("requested", True), ("nacked", False), ("timeout", False)]
)
def test_resources_with_errors_are_problems(state, good):
    assert XDS.good(state_of(resources=[resource(state)])) is good


def test_a_control_plane_that_cannot_be_reached_is_bad_news_though_resources_are_acked():
    assert not XDS.good(state_of(resources=[resource("acked", "cannot reach the xDS server")]))


# -- lb and sessions


def test_a_tree_is_drawn_with_parents_before_children():
    state = state_of(node("root", children=["cart"]), node("root/cart", "IDLE", "two hosts", policy="cds_experimental"))
    assert list(tree_lines(state, 0))[1:] == [
        "STATE  PICKS  POLICY             SEES",
        f"{click.style('READY', fg='green')}  3      root: round_robin",
        "IDLE   3        cart: cds        two hosts",
    ]


def test_a_child_that_came_a_moment_later_is_left_out():
    assert len(list(tree_lines(state_of(node("root", children=["cart"])), 0))) == 3


def test_only_some_endpoints_are_shown_unless_all_are_requested():
    row = {"channel": "shop", "cluster": "cart", "priority": 0, "locality": "", "health": "HEALTHY", "state": None}
    row |= {"weight": 1, "ejected": False, "sessions": 0}
    state = state_of() | {"endpoints": {str(n): {**row, "address": f"10.0.0.{n}:1"} for n in range(45)}}
    assert list(tree_lines(state, 0))[-1] == "and 5 more; --all shows them"
    assert list(tree_lines(state, 0, everything=True))[-1].startswith("10.0.0.44:1")


def test_the_page_of_sessions_says_that_there_are_none():
    assert list(session_lines({"channels": {}, "sessions": {}}, 0)) == ["no sessions are open"]


def test_sessions_warns_of_methods_whose_calls_are_not_sticky():
    warnings = [
        "calls of sessions to /shop.Cart/Add are not sticky: the route has no stateful session filter",
        "other",
    ]
    lines = list(session_lines({"channels": {"shop": {"warnings": warnings}}, "sessions": {}}, 0))
    assert lines == ["no sessions are open", f"warning: shop: {warnings[0]}"]


# -- tap


PICK = {"kind": "pick", "time": 0.5, "call": 7, "method": "/shop.Cart/Add", "cluster": "cart", "host": "10.0.0.1:80"}
PICK |= {"session": "shop/3", "why": "session", "metadata": {"tenant": "…"}}
DONE = {**PICK, "kind": "call_ended", "status": "OK", "message": "", "seconds": 0.0123}
FAILED = {**DONE, "status": "UNAVAILABLE", "message": "gone"}


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        ({}, [PICK, FAILED]),
        ({"method": "/shop.*"}, [PICK, FAILED]),
        ({"method": "/other.*"}, []),
        ({"host": "10.0.0.1:*", "cluster": "cart", "session": "shop/3"}, [PICK, FAILED]),
        ({"session": "shop/4"}, []),
        ({"host": ""}, []),
        ({"status": "*"}, [DONE, FAILED]),
        ({"status": "ok"}, [DONE]),
        ({"status": "UNAVAILABLE"}, [FAILED]),
    ],
)
def test_the_filters_of_picks_and_ends_select_events(wanted, shown):
    assert [event for event in (PICK, DONE, FAILED) if Filter(**wanted).shows(event)] == shown


def test_the_number_of_missed_events_passes_every_filter():
    missed = {"kind": "missed", "count": 12}
    assert Filter(method="/x").shows(missed)
    assert event_line(missed) == "... 12 more did not fit"


def test_a_pick_and_an_end_have_a_line_each():
    assert event_line(PICK).split("  ")[1:] == [
        "#7",
        "/shop.Cart/Add",
        "cart",
        "10.0.0.1:80",
        "session shop/3",
        "session",
        "tenant=…",
    ]
    assert click.unstyle(event_line(FAILED)).endswith("session shop/3  UNAVAILABLE after 12.3 ms: gone")


# -- words


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (200_000, "2 d"), (-3, "0 s")]
)
def test_ages_are_shown_in_one_unit(seconds, words):
    assert age(1000.0, 1000.0 + seconds) == words


def test_an_event_that_has_not_happened_has_no_age():
    assert age(None, 5) == "-"


def test_columns_align_and_nothing_trails():
    assert list(columns([("A", "BBB", "C"), ("READY", "b", ""), ("x", "", "c")])) == [
        "A      BBB  C",
        f"{click.style('READY', fg='green')}  b",
        "x           c",
    ]


def test_columns_align_by_what_a_terminal_shows():
    assert list(columns([("店", "b"), ("x", "b")])) == ["店  b", "x   b"]


def test_a_cell_is_one_line():
    assert list(columns([("ERROR", "AGE"), ("no route;\ntry again", "1 s")]))[1:] == ["no route; try again  1 s"]


def test_pages_below_each_other_differ(capsys):
    sheets = Sheets()
    for text in ("one\n", "one\n", "two\n"):
        sheets.draw(text)
    assert [each for each in capsys.readouterr().out.splitlines() if not each.startswith("--")] == ["one", "two"]


def test_json_output_has_new_changed_and_removed_rows(capsys):
    def row(key, calls):
        return {"section": "sessions", "key": key, "channel": "shop", "calls": calls}

    news = News()
    news.draw([row("shop/1", 1), row("shop/2", 1)])
    news.draw([row("shop/1", 1), row("shop/2", 2)])
    news.draw([row("shop/2", 2)])
    told = [json.loads(each) for each in capsys.readouterr().out.splitlines()]
    assert [(each["key"], each.get("calls")) for each in told[:3]] == [("shop/1", 1), ("shop/2", 1), ("shop/2", 2)]
    assert told[3:] == [{"section": "sessions", "key": "shop/1", "gone": True}]


async def test_the_last_state_is_drawn_however_fast_they_come(autojump_clock):
    drawn, states = [], ConflatingQueue()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(draw_latest, states, drawn.append, 1)
        for number in range(25):
            states.put("state", number)
            await trio.sleep(0.1)
        await trio.sleep(5)
        nursery.cancel_scope.cancel()
    assert drawn[0] == 0
    assert drawn[-1] == 24
    assert len(drawn) <= 4


# -- sessions by host


def endpoint(*addresses, cluster="cart", health="HEALTHY", **more):
    row = {"channel": "shop", "address": addresses[0], "cluster": cluster, "health": health, "state": "READY"}
    return row | more


def by_host(endpoints, *hosts, cluster="cart"):
    """The lines for sessions on these hosts, without the head, in words."""
    state = state_of()
    state["endpoints"] = {f"shop/{row['cluster']}/{row['address']}": row for row in endpoints}
    state["sessions"] = {
        f"shop/{number}": {"channel": "shop", "cluster": cluster, "host": host} for number, host in enumerate(hosts)
    }
    return [click.unstyle(line).split() for line in list(host_lines(state, 0.0))[1:]]


def test_sessions_on_each_address_of_an_endpoint_are_on_one_host():
    both = endpoint("a:1", "b:1", addresses=["a:1", "b:1"], fair_share=0.25)
    assert by_host([both], "b:1", "a:1", "b:1") == [
        ["a:1,", "b:1", "shop", "cart", "HEALTHY", "READY", "3", "100%", "25%"]
    ]


def test_a_host_without_sessions_is_shown_with_its_fair_share_and_a_removed_one_without():
    left = endpoint("a:1", addresses=["a:1"], fair_share=1.0)
    assert by_host([left], "gone:1") == [
        ["a:1", "shop", "cart", "HEALTHY", "READY", "0", "0%", "100%"],
        ["gone:1", "shop", "cart", "removed", "-", "1", "100%", "-"],
    ]


def test_clusters_that_share_an_address_have_each_their_own_health():
    rows = [endpoint("a:1", fair_share=1.0), endpoint("a:1", cluster="v2", health="DRAINING", fair_share=0.0)]
    assert by_host(rows, "a:1") == [["a:1", "shop", "cart", "HEALTHY", "READY", "1", "100%", "100%"]]
    assert by_host(rows, "a:1", cluster="v2") == [["a:1", "shop", "v2", "DRAINING", "READY", "1", "100%", "0%"]]


def test_a_session_of_an_aggregate_is_on_the_endpoint_of_its_cluster():
    assert by_host([endpoint("a:1", fair_share=1.0)], "a:1", cluster="all") == [
        ["a:1", "shop", "all", "HEALTHY", "READY", "1", "100%", "-"]
    ]


def test_a_program_with_an_older_trxds_says_no_fair_share():
    assert by_host([endpoint("a:1")], "a:1") == [["a:1", "shop", "cart", "HEALTHY", "READY", "1", "100%", "-"]]
