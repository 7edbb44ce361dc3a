"""Who may look: by Host, by Origin, by token. No network."""

import pytest

from trxds.admin.access import AccessPolicy, host_name
from trxds.admin.address import Admin
from trxds.admin.http import HttpRequest

TOKEN = "a-token-of-24-characters"
OPEN = AccessPolicy(Admin("127.0.0.1:8080", names=frozenset({"shop.example"})))
SHUT = AccessPolicy(Admin("127.0.0.1:8080", TOKEN))


def page(host="127.0.0.1:8080", method="GET"):
    return HttpRequest(method, "/", {"host": host})


def handshake(host="127.0.0.1:8080", origin="http://127.0.0.1:8080", offers="trxds.admin", **more):
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
    return HttpRequest("GET", "/state", {name: value for name, value in headers.items() if value is not None})


def status(refusal):
    return refusal and refusal.status


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8080", "localhost:1", "LOCALHOST:80", "[::1]:8080", "127.0.0.1", "10.1.2.3:80", "shop.example"]
)
def test_addresses_and_known_names_get_the_page(host):
    assert OPEN.check_page(page(host)) is None


@pytest.mark.parametrize("host", ["proxy.example", "Proxy.Example:80"])
def test_the_case_of_a_known_name_does_not_matter(host):
    policy = AccessPolicy(Admin("127.0.0.1:8080", names=frozenset({"Proxy.Example"})))
    assert policy.check_page(page(host)) is None


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
def test_a_request_for_a_rebound_host_name_is_rejected(host):
    assert status(OPEN.check_page(page(host))) == 421
    assert status(OPEN.check_web_socket(handshake(host, f"http://{host}"))) == 421


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_the_page_rejects_methods_other_than_get_and_head(method):
    assert status(OPEN.check_page(page(method=method))) == 405


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_page_itself_may_open_the_web_socket(scheme):
    assert OPEN.check_web_socket(handshake("localhost:8080", f"{scheme}://localhost:8080")) is None


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
def test_another_site_may_not_open_the_web_socket(origin):
    assert status(OPEN.check_web_socket(handshake(origin=origin))) == 403


def test_the_token_opens_the_web_socket():
    assert SHUT.check_web_socket(handshake(offers=f"trxds.admin, token.{TOKEN}")) is None


@pytest.mark.parametrize(
    "offers", ["trxds.admin", "trxds.admin, token.", f"trxds.admin, token.{TOKEN}x", f"trxds.admin, {TOKEN}"]
)
def test_the_web_socket_does_not_open_without_the_token(offers):
    assert status(SHUT.check_web_socket(handshake(offers=offers))) == 401


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
def test_an_invalid_web_socket_handshake_is_rejected(more):
    assert status(OPEN.check_web_socket(handshake(**more))) == 400


def test_a_web_socket_is_opened_by_get_alone():
    assert status(OPEN.check_web_socket(HttpRequest("POST", "/state", handshake().headers))) == 400


def test_the_name_of_a_host_is_without_its_port():
    assert [host_name(host) for host in ("A.b:80", "[::1]:80", "::1", "a:b:c")] == ["a.b", "::1", "", ""]
