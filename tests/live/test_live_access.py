"""Who may look: by Host, by Origin, by token. No network."""

import pytest

from trxds.feed.http import Asked
from trxds.live.access import Door, checked_token, host_name

TOKEN = "a-token-of-24-characters"
OPEN = Door(frozenset({"localhost", "127.0.0.1"}))
SHUT = Door(frozenset({"localhost"}), TOKEN)


def page(host="127.0.0.1:8080", method="GET"):
    return Asked(method, "/", {"host": host})


def feed(host="127.0.0.1:8080", origin="http://127.0.0.1:8080", offers="trxds.live", **more):
    headers = {
        "host": host,
        "origin": origin,
        "upgrade": "websocket",
        "connection": "keep-alive, Upgrade",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        "sec-websocket-protocol": offers,
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    return Asked("GET", "/feed", {name: value for name, value in headers.items() if value is not None})


def status(refusal):
    return refusal and refusal.status


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8080", "localhost:1", "LOCALHOST:80", "[::1]:8080", "127.0.0.1", "10.1.2.3:80"]
)
def test_addresses_and_known_names_get_the_page(host):
    assert OPEN.refuses_page(page(host)) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "127.0.0.1.nip.io",
        "",
        "a b",
        "[::1",
        "x@127.0.0.1",
    ],
)
def test_a_name_that_somebody_else_resolved_to_us_gets_nothing(host):
    assert status(OPEN.refuses_page(page(host))) == 421
    assert status(OPEN.refuses_feed(feed(host, f"http://{host}"))) == 421


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_changed(method):
    assert status(OPEN.refuses_page(page(method=method))) == 405


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_page_itself_may_open_the_feed(scheme):
    assert OPEN.refuses_feed(feed("localhost:8080", f"{scheme}://localhost:8080")) is None


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "http://127.0.0.1:3000",
        "http://127.0.0.1",
        "http://localhost:8080",
        "null",
        "file://",
        "http://127.0.0.1:8080.evil.example",
        None,
    ],
)
def test_another_site_may_not_open_the_feed(origin):
    assert status(OPEN.refuses_feed(feed(origin=origin))) == 403


def test_the_token_opens_the_feed():
    assert SHUT.refuses_feed(feed(offers=f"trxds.live, token.{TOKEN}")) is None


@pytest.mark.parametrize(
    "offers", ["trxds.live", "trxds.live, token.", f"trxds.live, token.{TOKEN}x", f"trxds.live, {TOKEN}"]
)
def test_without_the_token_the_feed_stays_shut(offers):
    assert status(SHUT.refuses_feed(feed(offers=offers))) == 401


@pytest.mark.parametrize(
    "more",
    [
        {"upgrade": None},
        {"upgrade": "h2c"},
        {"connection": "close"},
        {"sec_websocket_version": "8"},
        {"sec_websocket_key": None},
        {"sec_websocket_key": "short"},
        {"offers": "chat"},
        {"x_name": "ümlaut"},
    ],
)
def test_what_is_no_handshake_of_ours_is_refused(more):
    assert status(OPEN.refuses_feed(feed(**more))) == 400


def test_where_others_can_reach_us_a_token_is_needed():
    with pytest.raises(ValueError, match=r"host='0.0.0.0' can be reached from other machines: give token=\.\.\."):
        checked_token(None, "0.0.0.0", ["0.0.0.0"])
    assert checked_token(TOKEN, "0.0.0.0", ["0.0.0.0"]) == TOKEN


def test_one_address_that_is_not_loopback_is_enough_to_need_one():
    with pytest.raises(ValueError, match="from other machines"):
        checked_token(None, "somewhere", ["127.0.0.1", "10.0.0.1"])


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1"])
def test_on_loopback_there_may_be_none(address):
    assert checked_token(None, address, [address]) is None


@pytest.mark.parametrize("token", ["", "short", "with a blank in it!", "no/slashes/in/here/at/all"])
def test_a_token_that_can_be_guessed_or_not_be_sent_is_none(token):
    with pytest.raises(ValueError, match=r"secrets\.token_urlsafe"):
        checked_token(token, "127.0.0.1", ["127.0.0.1"])


def test_the_name_of_a_host_is_without_its_port():
    assert [host_name(host) for host in ("A.b:80", "[::1]:80", "::1", "a:b:c")] == ["a.b", "::1", "", ""]
