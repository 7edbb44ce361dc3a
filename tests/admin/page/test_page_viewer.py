"""What is answered over a connection: the page, the feed, and refusals. Memory streams, and a clock that jumps."""

import json
import logging
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from support.mesh import METHOD, Mesh
from trio_websocket import ConnectionClosed, ConnectionRejected, wrap_client_stream

from trxds.admin import Admin, state_stream
from trxds.admin.page.page_bundle import read_page_bundle
from trxds.admin.page.viewer import MAX_UNSHOWN, SHOW_TIMEOUT

from .fake_state_stream import FakeStateStream, admin_connections

ADMIN = Admin("127.0.0.1:0")


def served(states=None, admin=ADMIN):
    return admin_connections(states or FakeStateStream(), admin)


@pytest.fixture
def answering(monkeypatch):
    """Have the page's questions answered by a function of the test."""

    def answer_by(answer):
        async def explain(channels, question):
            return await answer(question)

        monkeypatch.setattr("trxds.admin.http_service.explain", explain)

    return answer_by


async def answer_to(request, server=None):
    """All that comes back until the connection is closed."""
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon((server or served()).serve, theirs)
        if request:
            await ours.send_all(request)
        return b"".join([data async for data in ours]).decode()


def get(path="/", host="localhost", method="GET"):
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


@asynccontextmanager
async def browser(server, origin="http://localhost", offers=("trxds.admin",)):
    """A WebSocket as a page opens it."""
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve, theirs)
        socket = await wrap_client_stream(
            nursery,
            ours,
            "localhost",
            "/state",
            subprotocols=list(offers),
            extra_headers=[(b"origin", origin.encode())],
        )
        async with socket:
            yield Browser(socket)


class Browser:
    def __init__(self, socket):
        self.socket = socket

    async def hears(self):
        return json.loads(await self.socket.get_message())

    async def says(self, message):
        await self.socket.send_message(json.dumps(message))

    async def ended(self):
        """Why the connection is closed."""
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                await self.socket.get_message()
        return closed.value.reason


# -- the page


async def test_the_page_comes_with_a_policy_that_names_its_own_parts_only():
    head, body = (await answer_to(get())).split("\r\n\r\n", 1)
    assert head.startswith("HTTP/1.1 200 OK\r\n")
    [policy] = [line for line in head.splitlines() if line.lower().startswith("content-security-policy: ")]
    assert "default-src 'none'" in policy and "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in policy and "http" not in policy and "*" not in policy
    assert body.encode() == read_page_bundle().body


async def test_the_page_forbids_caching_framing_and_reading_by_other_sites():
    head = (await answer_to(get())).partition("\r\n\r\n")[0]
    assert {
        "cache-control: no-store",
        "cross-origin-resource-policy: same-origin",
        "referrer-policy: no-referrer",
        "x-content-type-options: nosniff",
        "x-frame-options: deny",
    } <= set(head.lower().split("\r\n"))


async def test_head_has_no_body():
    assert (await answer_to(get(method="HEAD"))).endswith("\r\n\r\n")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (get("/other"), "404 Not Found"),
        (get(host="evil.example"), "421 Misdirected Request"),
        (get("/other", host="evil.example"), "421 Misdirected Request"),
        (get(method="POST"), "405 Method Not Allowed"),
        (get("/state/"), "404 Not Found"),
        (b"nonsense\r\n\r\n", "400 Bad Request"),
        (b"GET / HTTP/1.1\r\n\r\n", "400 Bad Request"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", "400 Bad Request"),
        (b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + 20000 * b"x", "431 Request Header Fields Too Large"),
    ],
)
async def test_a_request_that_the_page_does_not_serve_is_rejected(request_, status):
    assert (await answer_to(request_)).startswith(f"HTTP/1.1 {status}\r\n")


async def test_a_connection_without_a_request_is_closed(autojump_clock):
    assert await answer_to(b"") == ""


async def test_a_connection_with_a_slow_request_is_closed(autojump_clock):
    assert await answer_to(b"GET / HTTP/1.1\r\n") == ""


# -- the feed


async def test_another_sites_script_is_refused_the_state_stream():
    with pytest.RaisesGroup(ConnectionRejected, flatten_subgroups=True) as refused:
        async with browser(served(), origin="http://evil.example"):
            raise AssertionError("it was let in")
    assert refused.value.exceptions[0].status_code == 403


async def test_the_state_stream_of_the_page_opens_only_with_the_token():
    admin = Admin("127.0.0.1:0", "a-token-of-24-characters")
    with pytest.RaisesGroup(ConnectionRejected, flatten_subgroups=True):
        async with browser(served(admin=admin)):
            raise AssertionError("it was let in")
    async with browser(served(admin=admin), offers=["trxds.admin", "token.a-token-of-24-characters"]) as page:
        assert "hello" in await page.hears()


async def test_a_viewer_gets_hello_then_a_snapshot_then_changes():
    states = FakeStateStream(sessions={"shop/1": {"host": "a"}})
    async with browser(served(states)) as page:
        assert (await page.hears())["hello"].keys() == {"version", "program", "pid", "now", "answers"}
        assert (await page.hears())["snapshot"]["sessions"] == {"shop/1": {"host": "a"}}
        states.say({"section": "sessions", "key": "shop/1", "value": None})
        assert (await page.hears())["changes"] == [{"section": "sessions", "key": "shop/1", "value": None}]


async def test_a_slow_browser_has_few_unshown_messages_in_flight(autojump_clock):
    states = FakeStateStream()
    async with browser(served(states)) as page:
        await page.hears()
        for _ in range(50):
            states.say()
        await trio.testing.wait_all_tasks_blocked()
        assert states.taken == MAX_UNSHOWN
        await page.hears()
        await page.says({"shown": 1})
        await states.until(lambda: states.taken == MAX_UNSHOWN + 1)


async def test_a_slow_browser_gets_a_new_snapshot_and_no_call_waits_for_it(looks_that_cost_nothing, autojump_clock):
    async with (
        Mesh.run(1) as mesh,
        mesh.channel() as channel,
        state_stream.open(channel) as states,
        browser(served(states)) as page,
    ):
        assert "hello" in await page.hears()
        assert "snapshot" in await page.hears()
        started = trio.current_time()
        for _ in range(100):
            await channel.method(METHOD)(b"")
            await trio.sleep(0.1)
        assert trio.current_time() - started == pytest.approx(10)
        assert "changes" in await page.hears()  # from before it was slow
        await page.says({"shown": 1})
        again = await page.hears()
        assert again["number"] == 3
        assert again["snapshot"]["channels"]["shop"]["calls"] == 100


async def test_a_page_that_acknowledges_nothing_is_disconnected(autojump_clock):
    states = FakeStateStream()
    async with browser(served(states)) as page:
        await page.hears()
        states.say()
        started = trio.current_time()
        reason = await page.ended()
        assert (reason.code, reason.reason) == (1001, f"the page has shown nothing for {SHOW_TIMEOUT:g} s")
        assert trio.current_time() - started == pytest.approx(SHOW_TIMEOUT)
        await states.until(lambda: not states.viewers)


async def test_a_viewer_that_disconnects_is_unsubscribed():
    states = FakeStateStream()
    async with browser(served(states)) as page:
        await page.hears()
        await page.socket.aclose()
        await states.until(lambda: not states.viewers)


@pytest.mark.parametrize("message", ["no JSON", "[]", '{"explain": {}}', '{"drain": "host"}', "9" * 5000])
async def test_a_page_that_sends_an_unknown_message_is_disconnected(message):
    async with browser(served()) as page:
        await page.hears()
        await page.socket.send_message(message)
        assert (await page.ended()).code == 1008


async def test_a_page_cannot_run_up_a_credit():
    async with browser(served()) as page:
        await page.hears()
        for _ in range(MAX_UNSHOWN + 1):
            await page.says({"shown": 1})
        assert (await page.ended()).code == 1008


async def test_a_message_that_is_too_large_is_not_read():
    async with browser(served()) as page:
        await page.hears()
        await page.socket.send_message("x" * 70_000)
        assert (await page.ended()).code == 1009


async def test_an_explain_request_is_answered_with_its_number(answering):
    async def ask(question):
        return {"host": question["method"]}

    answering(ask)
    async with browser(served()) as page:
        await page.hears()
        await page.hears()
        await page.says({"explain": {"id": 7, "method": "/a/B"}})
        assert await page.hears() == {"explained": {"id": 7, "host": "/a/B"}}


async def test_explain_requests_of_a_page_are_answered_one_at_a_time(answering):
    go_on = trio.Event()

    async def ask(question):
        await go_on.wait()
        return {"answer": 1}

    answering(ask)
    async with browser(served()) as page:
        await page.hears()
        await page.hears()
        await page.says({"explain": {"id": 1}})
        await page.says({"explain": {"id": 2}})
        assert await page.hears() == {"explained": {"id": 2, "error": "one question at a time, please"}}
        go_on.set()
        assert await page.hears() == {"explained": {"id": 1, "answer": 1}}


async def test_an_answer_may_have_half_of_a_surrogate_pair(answering):
    async def ask(question):
        return {"echo": question["method"]}

    answering(ask)
    async with browser(served()) as page:
        await page.hears()
        await page.hears()
        await page.says({"explain": {"id": 1, "method": "\ud800"}})
        assert (await page.hears())["explained"]["echo"] == "\ud800"


async def test_a_bug_costs_one_viewer_and_is_logged(answering, caplog):
    async def ask(question):
        raise KeyError("a bug")

    answering(ask)
    server = served()
    with caplog.at_level(logging.ERROR, "trxds.admin"):
        async with browser(server) as page:
            await page.says({"explain": {"id": 1}})
            await page.ended()
    assert "a bug in trxds ends a connection" in caplog.text
    async with browser(server) as page:
        assert "hello" in await page.hears()
