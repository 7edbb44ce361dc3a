"""What a viewer is told as it happens: picks, ends of calls, the talk with the control plane, marks, seconds."""

from contextlib import asynccontextmanager, suppress

import pytest
import trio
from support.mesh import METHOD, Mesh, ask, bidi
from trio.testing import wait_all_tasks_blocked

import trxds
from trxds import RpcError
from trxds.admin import state_stream
from trxds.admin.state_stream.call_counts import MAX_ROWS, CallCounts, Destination
from trxds.admin.state_stream.config_applied import config_applied_events
from trxds.admin.state_stream.events import MAX_EVENTS, Events
from trxds.admin.state_stream.subscription import MAX_UNREAD, MAX_UNREAD_EVENTS, Interest, Subscription
from trxds.testing import resources as xds

NOWHERE = Destination("", "", "")


class Ears:
    """One viewer who keeps the events."""

    def __init__(self, view, stream=None):
        self.view = view
        self.stream = stream
        self.heard = []

    async def hear(self, kind, times=1, **fields):
        """Wait for so many events like that; the last of them."""

        def like():
            return [event for event in self.heard if event["kind"] == kind and fields.items() <= event.items()]

        with trio.fail_after(60):
            while len(like()) < times:
                self.heard += (await anext(self.view)).get("events", [])
        return like()[-1]


@asynccontextmanager
async def listening(hosts=2, opened_with=None, **view):
    """A mesh, a channel that has called, and ears that have had the snapshot."""
    async with Mesh.run(hosts) as mesh, mesh.channel() as channel:
        await ask(channel)
        await wait_all_tasks_blocked()
        async with state_stream.open(channel, **(opened_with or {})) as opened, opened.subscribe(**view) as viewed:
            await anext(viewed)
            yield mesh, channel, Ears(viewed, opened)


def channel_events(ears):
    return ears.stream._events


async def ask_path(channel, path):
    return await channel.method(path)(b"")


async def test_a_pick_event_has_method_cluster_and_host(autojump_clock):
    async with listening() as (_, channel, ears):
        host = await ask(channel)
        pick = await ears.hear("pick")
        assert (pick["channel"], pick["method"], pick["cluster"], pick["host"]) == ("shop", METHOD, "cart", host)
        assert pick["session"] is None
        assert pick["time"] > 1_700_000_000


async def test_a_session_s_pick_names_it_and_says_how_it_came_about(autojump_clock):
    async with listening() as (mesh, channel, ears), channel.session() as session:
        old = await ask(session)
        assert (await ears.hear("pick", session="shop/1"))["why"] == "balanced: no_cookie"
        await ask(session)
        assert (await ears.hear("pick", 2, session="shop/1"))["why"] == "session"
        mesh.endpoints("cart", [host for host in mesh.hosts if host != old])
        await wait_all_tasks_blocked()
        await ask(session)
        assert (await ears.hear("pick", 3, session="shop/1"))["why"] == "balanced: unknown_host"


async def test_the_events_of_a_session_come_as_they_happen(autojump_clock):
    async with listening(events=["session"]) as (mesh, channel, ears):
        async with channel.session() as session:
            old = await ask(session)
            pinned = await ears.hear("session", event="pinned")
            assert (pinned["session"], pinned["cookie"], pinned["cluster"], pinned["host"]) == (
                "shop/1",
                "session",
                "cart",
                old,
            )
            mesh.endpoints("cart", xds.locality(*mesh.hosts, health={old: "DRAINING"}))
            assert (await ears.hear("session", event="draining"))["host"] == old
            assert (await ears.hear("session", event="host_lost"))["reason"] == "unknown_host"
            new = await ask(session)
            moved = await ears.hear("session", event="moved")
            assert (moved["before"], moved["host"], moved["reason"]) == (old, new, "unknown_host")
            assert moved["change"] == 'EDS resource "cart" version 2'
        await ears.hear("session", event="closed", session="shop/1")
        assert [event["event"] for event in ears.heard] == [
            "opened",
            "pinned",
            "draining",
            "host_lost",
            "moved",
            "closed",
        ]


async def test_the_end_of_a_call_refers_to_its_pick(autojump_clock):
    async with listening() as (mesh, channel, ears):
        host = await ask(channel)
        pick, done = await ears.hear("pick"), await ears.hear("call_ended")
        assert (done["call"], done["host"], done["status"]) == (pick["call"], host, "OK")
        mesh.servers[host].fallback = None
        for server in mesh.servers.values():
            server.fallback = None
        with pytest.raises(RpcError):
            await ask(channel)
        done = await ears.hear("call_ended", status="UNIMPLEMENTED")
        assert METHOD in done["message"]


async def test_a_call_that_takes_long_says_how_long(autojump_clock):
    async with listening() as (_, channel, ears):
        async with bidi(channel).open() as call:
            await call.send(b"")
            await trio.sleep(3)
            call.done_sending()
            async for _ in call:
                pass
        assert (await ears.hear("call_ended"))["seconds"] == pytest.approx(3, abs=0.1)


async def test_a_pick_without_a_host_says_why(autojump_clock):
    async with listening(hosts=1) as (mesh, channel, ears):
        mesh.servers[mesh.hosts[0]].stop()
        await trio.sleep(5)
        with pytest.raises(RpcError):
            await ask(channel)
        pick = await ears.hear("pick", host="")
        assert pick["why"].startswith("no host: ")
        assert "cannot connect" in pick["why"]


async def test_a_pick_that_waits_says_for_what(autojump_clock):
    async with listening() as (mesh, channel, ears):
        new = await mesh.add_host()
        mesh.network.black_hole(new)
        mesh.endpoints("cart", [new])
        await wait_all_tasks_blocked()
        with pytest.raises(RpcError):
            await ask(channel, timeout=1)
        assert (await ears.hear("pick", host=""))["why"].startswith("waits: no host of cluster cart is connected")


# -- metadata


async def test_metadata_values_are_hidden_by_default(autojump_clock):
    async with listening(opened_with={"metadata": True}) as (_, channel, ears):
        await ask(channel, metadata=[("tenant", "secret")])
        assert (await ears.hear("pick"))["metadata"] == {"tenant": "…"}


async def test_metadata_values_are_shown_on_request_if_the_program_allows_it(autojump_clock):
    async with listening(opened_with={"metadata": True}, metadata=True) as (_, channel, ears):
        await ask(channel, metadata=[("tenant", "secret"), ("trace-bin", b"\x01")])
        assert (await ears.hear("pick"))["metadata"] == {"tenant": "secret", "trace-bin": "AQ"}


async def test_metadata_values_are_hidden_if_the_program_does_not_allow_them(autojump_clock):
    async with listening(metadata=True) as (_, channel, ears):
        await ask(channel, metadata=[("tenant", "secret")])
        assert (await ears.hear("pick"))["metadata"] == {"tenant": "…"}


# -- the control plane


async def test_a_resource_update_makes_events_for_response_ack_and_config_applied(autojump_clock):
    async with listening() as (mesh, _, ears):
        mesh.endpoints("cart", mesh.hosts[:1])
        heard = await ears.hear("ads", type="EDS", direction="received")
        assert (heard["resources"], heard["error"]) == (["cart"], "")
        acked = await ears.hear("ads", type="EDS", answer="ACK", nonce=heard["nonce"])
        assert acked["version"] == heard["version"]
        assert (await ears.hear("config_applied", text=f"EDS cart {heard['version']}"))["channel"] == "shop"


async def test_a_rejected_update_makes_a_nack_event_and_no_config_applied(autojump_clock):
    async with listening() as (mesh, channel, ears):
        mesh.plane.put(xds.cluster("cart") | {"lb_policy": "MAGLEV"})
        nack = await ears.hear("ads", answer="NACK")
        assert "LB policy is not supported" in nack["error"]
        await ask(channel)
        await ears.hear("call_ended")
        assert not [event for event in ears.heard if event["kind"] == "config_applied"]


async def test_a_request_for_more_resources_is_no_ack_in_events(autojump_clock):
    async with listening() as (mesh, _, ears):
        mesh.route({"cart": 1, "shoes": 1})
        asked = await ears.hear("ads", type="CDS", direction="sent", resources=["cart", "shoes"])
        # In state of the world it repeats the nonce of the last response, which has its ACK already.
        assert (asked["answer"], asked["nonce"] != "") == ("", True)


async def test_a_shared_xds_client_makes_each_event_once(autojump_clock):
    async with (
        Mesh.run(1) as mesh,
        trxds.open_xds_client(bootstrap=mesh.bootstrap, network=mesh.network) as client,
        trxds.open_channel("xds:///shop", xds=client, network=mesh.network) as one,
        trxds.open_channel("xds:///shop", xds=client, network=mesh.network) as other,
        state_stream.open(one, other) as opened,
        opened.subscribe(events=["ads"]) as view,
    ):
        await anext(view)
        await ask(one)
        await ask(other)
        ears = Ears(view)
        await ears.hear("ads", type="EDS", answer="ACK")
        received = [e["type"] for e in ears.heard if e["kind"] == "ads" and e["direction"] == "received"]
        assert sorted(received) == ["CDS", "EDS", "LDS", "RDS"]


def resource(state="acked", version="1", since=1.0, name="cart"):
    return {"channel": "shop", "type": "CDS", "name": name, "state": state, "version": version, "since": since}


def marked(before, *rows):
    told = [{"section": "resources", "key": f"shop/CDS/{row['name']}", "value": row} for row in rows]
    known = {f"shop/CDS/{row['name']}": row for row in before}
    return [mark["text"] for mark in config_applied_events({"resources": known}, told, 5.0)]


def test_a_config_applied_event_names_added_and_removed_resources():
    assert marked([resource()], resource(version="2", since=2.0)) == ["CDS cart 2"]
    assert marked([resource()], resource("does_not_exist", "")) == ["CDS cart is gone"]
    assert marked([resource()], resource("nacked")) == []


def test_a_config_applied_event_of_many_resources_is_short():
    assert marked([], *(resource(name=f"c{number}") for number in range(8))) == [
        "CDS c0 1, CDS c1 1, CDS c2 1, CDS c3 1, CDS c4 1 and 3 more"
    ]


# -- seconds


async def test_per_second_stats_count_calls_and_errors(autojump_clock):
    async with listening() as (mesh, channel, ears):
        for _ in range(3):
            await ask(channel)
        for server in mesh.servers.values():
            server.fallback = None
        with pytest.raises(RpcError):
            await ask(channel)
        second = await ears.hear("per_second_stats")
        assert (second["channel"], second["requests"], second["errors"]) == ("shop", 4, {"UNIMPLEMENTED": 1})


def test_percentiles_are_of_one_second_and_one_channel():
    now = 10.0
    events = Events(lambda: now)
    for number in range(100):
        events.call_ended("shop", NOWHERE, "OK", number / 100)
    events.call_ended("cart", NOWHERE, "UNAVAILABLE", 9.0)
    assert events.take() == []
    now = 11.2
    told = {event["channel"]: (event["time"], event["requests"], event["p50"], event["p99"]) for event in events.take()}
    assert told == {"shop": (10.0, 100, 0.5, 0.99), "cart": (10.0, 1, 9.0, 9.0)}
    assert events.take() == []


async def test_calls_of_a_second_are_counted_by_method_host_and_status(autojump_clock):
    async with listening(events=["per_second_calls"]) as (mesh, channel, ears):
        host = await ask(channel)
        mesh.servers[host].fallback = None
        for _ in range(2):
            with suppress(RpcError):
                await ask(channel)
        told = await ears.hear("per_second_calls", host=host)
        assert (told["channel"], told["method"], told["cluster"]) == ("shop", METHOD, "cart")
        assert (told["requests"], told["errors"]) == (2, {"UNIMPLEMENTED": 1})
        assert sum(told["times"].values()) == 2


async def test_a_call_without_a_host_is_counted_by_its_method(autojump_clock):
    async with listening(events=["per_second_calls"]) as (mesh, channel, ears):
        mesh.route(xds.route("cart", prefix="/shop.Cart/"))
        await wait_all_tasks_blocked()
        with suppress(RpcError):
            await ask_path(channel, "/shop.Other/Get")
        told = await ears.hear("per_second_calls", host="")
        assert (told["method"], told["errors"]) == ("/shop.Other/Get", {"UNAVAILABLE": 1})


def test_latencies_are_counted_by_bounds_that_are_a_fifth_apart():
    counts = CallCounts()
    for seconds in (0.1, 0.11, 0.12, 0.0):
        counts.note(NOWHERE, "OK", seconds)
    [event] = counts.to_json(7, "shop")
    assert event["times"] == {"1.13e-06": 1, "0.105": 1, "0.125": 2}


def test_a_second_has_a_bounded_number_of_methods_and_hosts():
    counts = CallCounts()
    for number in range(MAX_ROWS + 7):
        counts.note(Destination(f"/s/{number}", "", ""), "OK", 0.1)
    rows = counts.to_json(7, "shop")
    assert (len(rows), rows[-1]["method"], rows[-1]["requests"]) == (MAX_ROWS + 1, "", 7)


async def test_calls_are_counted_by_host_only_while_a_viewer_wants_it(autojump_clock):
    async with listening(events=["call_ended"]) as (_, channel, ears):
        await ask(channel)
        await ears.hear("call_ended")
        assert not channel_events(ears).counts_destinations


# -- who listens, and who does not


def test_more_events_than_fit_are_counted():
    events = Events(lambda: 1.0)
    for _ in range(MAX_EVENTS + 7):
        events.note({"kind": "pick"})
    assert events.take()[MAX_EVENTS:] == [{"kind": "missed", "count": 7}]
    assert events.take() == []


async def test_events_of_a_busy_program_fill_a_queue_before_its_messages_do(autojump_clock):
    view = Subscription(Interest(sections=()), dict)
    for _ in range(MAX_UNREAD - 1):
        view.tell([], [{"kind": "pick"}] * MAX_EVENTS)
    kept = sum(len(events) for _, events in view._unread)
    assert MAX_EVENTS <= kept <= MAX_UNREAD_EVENTS + MAX_EVENTS
    snapshot, first = await anext(view), await anext(view)
    assert "snapshot" in snapshot
    assert first["events"][0] == {"kind": "missed", "count": (MAX_UNREAD - 1) * MAX_EVENTS - kept}


async def test_a_viewer_that_was_too_slow_is_told_how_much_it_missed(autojump_clock):
    calls = 3 * MAX_UNREAD
    async with listening(events=["pick", "missed"]) as (_, channel, ears):
        for _ in range(calls):
            await ask(channel)
            await trio.sleep(0.2)
        assert "snapshot" in await anext(ears.view)
        missed = (await ears.hear("missed"))["count"]
        await ears.hear("pick", calls - missed)
        assert missed > 0


async def test_a_channel_has_no_observer_while_its_viewers_want_no_events(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, state_stream.open(channel) as opened:
        assert not channel._state.observers.active
        async with opened.subscribe(events=["config_applied"]):
            assert not channel._state.observers.active
            async with opened.subscribe(sections=[], events=["pick"]):
                assert channel._state.observers.active
            assert not channel._state.observers.active


async def test_a_viewer_of_events_alone_has_an_empty_snapshot(autojump_clock):
    async with (
        Mesh.run(1) as mesh,
        mesh.channel() as channel,
        state_stream.open(channel) as opened,
        opened.subscribe(sections=[], events=["pick"]) as view,
    ):
        assert (await anext(view))["snapshot"] == {}
        await ask(channel)
        assert (await anext(view))["events"]
