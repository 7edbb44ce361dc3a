"""Session cookies are written in one form and read in several (A55, A60; docs/reference/sessions.md)."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trxds.core.metadata import Metadata
from trxds.resources.stateful_session import CookieConfig
from trxds.session_affinity.cookie import (
    MAX_HOSTS,
    MAX_SIZE,
    NO_ADDRESS,
    SessionCookie,
    decode,
    encode,
    limit_addresses,
    path_matches,
    set_cookie_header,
)
from trxds.session_affinity.session_state import CookieSessionState

ADDRESS = "127.201.0.2:50051"


def b64(text):
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


def envoy(address, expires=None):
    """Return a cookie's value with Envoy's message, encoded by hand."""
    data = b"\x0a" + bytes([len(address)]) + address.encode()
    if expires is not None:
        data += b"\x10"
        while expires > 0x7F:
            data += bytes([expires & 0x7F | 0x80])
            expires >>= 7
        data += bytes([expires])
    return b64(data)


def test_a_session_cookie_is_written_as_by_the_cpp_client():
    assert encode(ADDRESS, "a") == "MTI3LjIwMS4wLjI6NTAwNTE7YQ=="


def test_a_cookie_without_a_cluster_has_the_bare_address():
    assert base64.b64decode(encode(ADDRESS, "")).decode() == ADDRESS


@pytest.mark.parametrize("socket", ["unix:/run/shop/cart.sock", "unix:cart", "unix-abstract:cart"])
def test_a_cookie_names_a_socket_of_this_machine(socket):
    cookie = decode(encode(socket, ""))
    assert (cookie.hosts, cookie.is_list_of_hosts) == ((socket,), True)


@pytest.mark.parametrize(
    "text", ["unix:", "unix:/a\nb", "unix:/a\x1b[31m", "unix:/" + "a" * 108, "unixen:/a", " unix:/a"]
)
def test_a_text_that_only_looks_like_a_socket_is_not_shown(text):
    assert decode(encode(text, "")).hosts == (NO_ADDRESS,)


@pytest.mark.parametrize("name", ["cluster:a", '"a"', '"', '""', 'cluster:"a"'])
def test_a_cluster_whose_name_looks_like_another_form_keeps_its_name(name):
    assert decode(encode(ADDRESS, name)).clusters[0] == name


@pytest.mark.parametrize("said", ["a", "cluster:a", '"a"', 'cluster:"a"'])
def test_a_cluster_name_with_prefix_or_quotes_may_stand_for_the_bare_name(said):
    assert decode(b64(f"{ADDRESS};{said}")).clusters[-1] == "a"


def test_a_cookie_has_as_many_addresses_of_a_long_list_as_are_read():
    many = ",".join(f"[fd00:1111:2222:3333:4444:5555:6666:{n:x}]:50051" for n in range(0x1000, 0x1100))
    kept = limit_addresses(many)
    assert decode(encode(kept, "a")).hosts == tuple(many.split(","))[:MAX_HOSTS]
    assert decode(b64(many[:3000])).hosts == tuple(many.split(","))[:MAX_HOSTS]


def test_a_cookies_text_that_is_no_address_is_not_shown():
    cookie = decode(b64("1.1.1.1:1,my-Secret,[fe80::1%a zone of any text]:1;my-Secret"))
    assert cookie.hosts == ("1.1.1.1:1", NO_ADDRESS, NO_ADDRESS)
    assert "Secret" not in repr(cookie)


@pytest.mark.parametrize(
    ("value", "cookie"),
    [
        ("MTI3LjIwMS4wLjI6NTAwNTE7YQ==", SessionCookie(ADDRESS, "a")),
        ("MTI3LjIwMS4wLjI6NTAwNTE7YQ", SessionCookie(ADDRESS, "a")),
        (b64(f"{ADDRESS};ab").removesuffix("="), SessionCookie(ADDRESS, "ab")),
        ('"MTI3LjIwMS4wLjI6NTAwNTE7YQ=="', SessionCookie(ADDRESS, "a")),
        (" MTI3LjIwMS4wLjI6NTAwNTE7YQ== ", SessionCookie(ADDRESS, "a")),
        (b64(f"{ADDRESS};cluster:a"), SessionCookie(ADDRESS, "cluster:a")),
        (b64(f'{ADDRESS};"a"'), SessionCookie(ADDRESS, '"a"')),
        (b64(f"{ADDRESS};a;b"), SessionCookie(ADDRESS, "a;b")),
        (b64(f"{ADDRESS},[::1]:1;a"), SessionCookie(f"{ADDRESS},[::1]:1", "a")),
        (b64(ADDRESS), SessionCookie(ADDRESS)),
        (b64("unix:/run/cart;"), SessionCookie("unix:/run/cart")),
        (b64("unix:/run/cart;a"), SessionCookie("unix:/run/cart", "a")),
        (b64(f"{ADDRESS};"), SessionCookie(ADDRESS)),
        (envoy(ADDRESS), SessionCookie(ADDRESS)),
        (envoy(ADDRESS, 0), SessionCookie(ADDRESS)),
        (envoy(ADDRESS, 1_900_000_000), SessionCookie(ADDRESS, expires=1_900_000_000)),
        ("ChExMjcuMjAxLjAuMjo1MDA1MRD8j4PYBg==", SessionCookie(ADDRESS, expires=1_795_213_308)),  # as recorded
        ("", None),
        ("MTI3LjIwMS4wLjI6NTAwNTE7YQ=", None),
        ("MTI3-_", None),
        ("a;b", None),
        (b64(b"\xff;a"), SessionCookie("\ufffd", "a")),
        (b64(ADDRESS.encode() + b";\xff"), SessionCookie(ADDRESS, "\ufffd")),
        (envoy(ADDRESS, 2**64 - 1), SessionCookie(ADDRESS, expires=2**64 - 1)),
        (b64(f"{ADDRESS};".ljust(MAX_SIZE * 3 // 4, "a")), SessionCookie(ADDRESS, "a" * 3054)),
        ("A" * (MAX_SIZE + 4), None),
    ],
)
def test_every_known_form_of_a_session_cookie_is_read(value, cookie):
    assert decode(value) == cookie


@pytest.mark.parametrize("text", ["1.2.3:80", "1.2.3.400:80", "1.2.3.4:65536", "[::1::]:80"])
def test_an_address_that_no_host_can_have_names_no_host(text):
    assert not decode(b64(f"{text};a")).names_host


@pytest.mark.parametrize("data", [b"\x1a\x0b10.0.0.1:80", b"\x0a\x0c10.0.0.1:80"])
def test_a_message_with_another_field_or_a_part_of_an_address_is_not_envoys_form(data):
    assert not decode(b64(data)).names_host


@pytest.mark.parametrize("data", [b"\x0a\x0b10.0.0.1:80\x10" + b"\xff" * 10 + b"\x01", b"\x10" + b"\xff" * 3000])
def test_an_expiry_of_more_bits_than_a_varint_has_is_not_envoys_form(data):
    assert not decode(b64(data)).names_host


@given(st.binary())
def test_decoding_a_cookie_never_raises_for_any_bytes(data):
    decode(b64(data))


@given(st.text())
def test_decoding_a_cookie_never_raises_for_any_text(text):
    decode(text)


@pytest.mark.parametrize(
    ("headers", "value"),
    [
        (["s=V"], "V"),
        (["x=1; s=V"], "V"),
        (["x=1;s=V"], "V"),
        (["s=V;"], "V"),
        ([";;s=V"], "V"),
        (["  s = V "], "V"),
        (["a=1", "s=V"], "V"),
        (["s=first; s=second"], "first"),
        (["s=V; HttpOnly; Path=/"], "V"),
        (["S=V"], None),
        (["ss=V; s2=V"], None),
        (["s"], None),
        ([], None),
        (["s=a=b"], "a=b"),
    ],
)
def test_the_first_cookie_of_the_name_is_found_in_any_header(headers, value):
    assert CookieSessionState(CookieConfig("s")).read(Metadata([("cookie", header) for header in headers])) == value


@pytest.mark.parametrize(
    ("prefix", "matching"),
    [
        ("", {"/a/b", "/a", "/ab/c", "/a/bc"}),
        ("/", {"/a/b", "/a", "/ab/c", "/a/bc"}),
        ("/a", {"/a/b", "/a", "/a/bc"}),
        ("/a/", {"/a/b", "/a/bc"}),
        ("/a/b", {"/a/b"}),
    ],
)
def test_a_cookies_path_matches_by_segments(prefix, matching):
    assert {path for path in ("/a/b", "/a", "/ab/c", "/a/bc") if path_matches(prefix, path)} == matching


@pytest.mark.parametrize(
    ("config", "header"),
    [
        (CookieConfig("s"), "s=V; HttpOnly"),
        (CookieConfig("s", ttl=120), "s=V; HttpOnly; Max-Age=120"),
        (CookieConfig("s", ttl=1.5), "s=V; HttpOnly; Max-Age=1"),
        (CookieConfig("s", ttl=0.5), "s=V; HttpOnly; Max-Age=0"),
        (CookieConfig("s", path="/"), "s=V; HttpOnly; Path=/"),
        (CookieConfig("s", path="/p", ttl=7), "s=V; HttpOnly; Path=/p; Max-Age=7"),
    ],
)
def test_a_set_cookie_header_has_its_attributes_in_grpcs_order(config, header):
    assert set_cookie_header(config, "V") == header
