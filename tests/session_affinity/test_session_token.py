"""A token is what was encoded, or one kind of error."""

from __future__ import annotations

import base64
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trxds.core.metadata import is_key, is_value
from trxds.session_affinity import cookie
from trxds.session_affinity.cookie_jar import CookieJar, parse_set_cookie
from trxds.session_affinity.session_hosts import CookieKey
from trxds.session_affinity.session_token import (
    MAX_EXPIRY,
    MAX_TOKEN_SIZE,
    SessionToken,
    SessionTokenError,
    TokenCookie,
    decode_token,
    encode_token,
    portable,
)

KEY = b"k" * 16
TARGET = "xds:///shop"
BASE64URL = string.ascii_letters + string.digits + "-_"
NAMES = st.text(string.ascii_letters + string.digits + "-_.", min_size=1, max_size=20)
PATHS = st.just("") | st.text("/abc.%", max_size=20).map("/".__add__)
HOSTS = st.sampled_from(["10.0.0.1:80", "[::1]:80", "10.0.0.1:80,10.0.0.2:80"])
VALUES = st.builds(cookie.encode, HOSTS, st.text(max_size=20))
TIMES = st.none() | st.floats(0, MAX_EXPIRY).map(lambda time: round(time, 3))
COOKIES = st.lists(
    st.builds(TokenCookie, NAMES, PATHS, VALUES, TIMES), max_size=5, unique_by=lambda each: (each.name, each.path)
)
HEADERS = st.lists(
    st.tuples(NAMES.map(lambda name: f"x-{name.lower()}x"), VALUES), max_size=3, unique_by=lambda x: x[0]
)
TOKENS = st.builds(SessionToken, st.just(TARGET), COOKIES.map(tuple), HEADERS.map(tuple))
KEYS = st.sampled_from([(), (KEY,)])


@given(TOKENS, KEYS)
def test_a_token_is_decoded_as_it_was_encoded(token: SessionToken, keys: tuple[bytes, ...]) -> None:
    text = encode_token(token, keys)
    assert set(text) <= set(BASE64URL + ".") and len(text) <= MAX_TOKEN_SIZE
    assert decode_token(text, TARGET, keys) == token == portable(token)


def check(text: str, keys: tuple[bytes, ...]) -> None:
    """What is decoded is fit for a jar and a request; all else is the one error, which does not show the text."""
    found = decode_token(text, TARGET, keys)
    if isinstance(found, SessionTokenError):
        assert len(text) < 12 or text not in str(found)
        assert str(found).isprintable()
        return
    jar = CookieJar()
    for each in found.cookies:
        jar.restore(CookieKey(each.name, each.path), each.value, 1.0)
        received = parse_set_cookie(f"{each.name}={each.value}; Path={each.path}", 0.0)
        assert received is not None
        jar.store(received, 0.0)
    assert len(jar.live(0.0)) == len(found.cookies), "each is kept by the jar under the same name and path"
    assert is_value(jar.header("/shop.Cart/Add", 0.0))
    assert all(is_key(name) and is_value(value) for name, value in found.headers)


@given(st.text(max_size=200) | st.text(BASE64URL + ".", max_size=200).map(lambda text: f"trxds1.{text}"), KEYS)
def test_any_text_is_a_token_or_the_one_error(text: str, keys: tuple[bytes, ...]) -> None:
    check(text, keys)


TEXTS = st.text(max_size=10) | NAMES | VALUES
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)
ROWS = st.lists(st.lists(TEXTS | JSON, max_size=5) | st.tuples(TEXTS, TEXTS, VALUES, TIMES) | JSON, max_size=3)
HEADER_ROWS = st.lists(st.tuples(TEXTS, VALUES | TEXTS) | JSON, max_size=3)
PAYLOADS = st.fixed_dictionaries(
    {"target": st.just(TARGET) | JSON, "cookies": ROWS | JSON, "headers": HEADER_ROWS | JSON}
)


@given(PAYLOADS | JSON)
@settings(max_examples=300)
def test_any_json_is_a_token_or_the_one_error(payload: object) -> None:
    import json

    text = base64.urlsafe_b64encode(json.dumps(payload).encode()).decode().rstrip("=")
    check(f"trxds1.{text}", ())


VALUE, LONG = cookie.encode("10.0.0.1:80", "cart"), cookie.encode("10.0.0.1:80", "c" * 3072)


@pytest.mark.parametrize(
    "changed",
    [
        {"cookies": [None]},
        {"cookies": [[1, "/", VALUE, None]]},
        {"cookies": [["s", "/", VALUE, True]]},
        {"cookies": [["s", "not absolute", VALUE, None]]},
        {"headers": [["x-s"]]},
        {"headers": [["x-s", LONG]]},
        {"headers": [["x-s", "own"]]},
        {"headers": [[f"x-{number}", VALUE] for number in range(51)]},
    ],
)
def test_a_payload_that_export_never_makes_is_the_one_error(changed: dict[str, object]) -> None:
    import json

    payload = {"target": TARGET, "cookies": [], "headers": []} | changed
    text = base64.urlsafe_b64encode(json.dumps(payload).encode()).decode().rstrip("=")
    assert isinstance(decode_token(f"trxds1.{text}", TARGET), SessionTokenError)


@given(st.binary(max_size=100))
def test_any_bytes_are_a_token_or_the_one_error(data: bytes) -> None:
    check(f"trxds1.{base64.urlsafe_b64encode(data).decode().rstrip('=')}", ())


@given(TOKENS, st.data())
def test_no_change_of_a_signed_token_is_taken(token: SessionToken, data: st.DataObject) -> None:
    text = encode_token(token, (KEY,))
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from(BASE64URL + ".").filter(lambda character: character != text[at]))
    assert isinstance(decode_token(text[:at] + other + text[at + 1 :], TARGET, (KEY,)), SessionTokenError)


def test_a_signature_is_for_session_tokens_only() -> None:
    import hmac

    text = encode_token(SessionToken(TARGET, (), ()))
    foreign = base64.urlsafe_b64encode(hmac.digest(KEY, text.encode(), "sha256")).decode().rstrip("=")
    assert isinstance(decode_token(f"{text}.{foreign}", TARGET, (KEY,)), SessionTokenError)


def test_there_is_room_for_a_cookie_of_any_size_that_a_jar_keeps() -> None:
    name, path = "n", "/" * 1024
    value = cookie.encode_base64("10.0.0.1:80;" + "c" * (4092 // 4 * 3 - 12))
    assert 4090 <= len(name) + 1 + len(value) <= cookie.MAX_SIZE
    token = SessionToken(TARGET, (TokenCookie(name, path, value, 1.8e9),), ())
    assert decode_token(encode_token(token, (KEY,)), TARGET, (KEY,)) == token


@pytest.mark.parametrize("what", ["a value", "a header"])
def test_a_repr_shows_no_value(what: str) -> None:
    value = cookie.encode("10.0.0.1:80", "cart")
    token = SessionToken(TARGET, (TokenCookie("s", "/", value, None),), (("x-s", value),))
    assert value not in repr(token)
